//! The HTTP API: routes, what is common to all of them, and their description. One file a resource; this crate alone knows
//! HTTP's JSON, and reaches runs through the engine's public functions.

mod app;
mod asks;
mod auth;
mod connections;
mod exposition;
mod form;
mod journal;
mod json;
mod keyed;
mod limit;
mod limits;
mod metrics;
mod modules;
mod openapi;
mod problem;
mod request;
mod rerun;
mod retention;
mod retry;
mod runs;
mod schedule_views;
mod schedules;
mod server;
mod starts;
mod steer;
mod steps;
mod stream;
mod tokens;
mod views;
mod workflows;

use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, Method, header};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use tower_http::CompressionLevel;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use utoipa::OpenApi;
use utoipa::openapi::OpenApi as Description;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(crate) use app::{ApiSettings, App};
pub(crate) use auth::Scope;
use problem::{ApiCode, Problem};
pub(crate) use rerun::RerunFrom;
pub(crate) use retry::{RetryAccepted, RetryOf};
pub(crate) use server::{Server, ServerSettings};
pub(crate) use steps::{ResolvedStep, Steps, Unknown};
pub(crate) use tokens::{ROTATION_OVERLAP_MS, made as made_token};

/// The longest that a request may take, a wait included. Events that are followed are not bound by it.
const LONGEST: Duration = Duration::from_secs(75);
/// The same for what builds, compiles or replays.
const LONGEST_OF_DEPLOYING: Duration = Duration::from_secs(600);
/// Answers that are smaller are not compressed: it would save no packet. Tokens are among them, so that the length of an answer tells
/// nothing of a secret in it.
const COMPRESSED_FROM_BYTES: u64 = 1024;
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Stepwell",
        description = "Durable workflows as WebAssembly. Errors are `application/problem+json` with a stable `code`.",
    ),
    components(schemas(problem::ProblemBody))
)]
struct Api;

/// All routes, and their description.
fn described(app: &App) -> (Router, Description) {
    let open =
        OpenApiRouter::with_openapi(Api::openapi()).routes(routes!(metrics::healthz)).routes(routes!(metrics::readyz));
    let closed = OpenApiRouter::new()
        .routes(routes!(modules::upload, modules::list))
        .routes(routes!(modules::show, modules::remove))
        .routes(routes!(workflows::list))
        .routes(routes!(workflows::activate))
        .routes(routes!(limits::show, limits::set, limits::remove))
        .routes(routes!(starts::start))
        .routes(routes!(starts::batch))
        .routes(routes!(runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::result))
        .routes(routes!(journal::journal))
        .routes(routes!(journal::logs))
        .routes(routes!(stream::follow))
        .routes(routes!(asks::cancel))
        .routes(routes!(asks::terminate))
        .routes(routes!(asks::pause))
        .routes(routes!(asks::resume))
        .routes(routes!(retry::retry))
        .routes(routes!(rerun::rerun))
        .routes(routes!(steer::event))
        .routes(routes!(steps::list))
        .routes(routes!(steps::resolve))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::show, schedules::put, schedules::remove))
        .routes(routes!(schedules::pause))
        .routes(routes!(schedules::resume))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::rotate))
        .routes(routes!(tokens::revoke))
        .routes(routes!(metrics::metrics))
        .route_layer(from_fn_with_state(app.clone(), auth::admit));
    let (router, mut description) = open.merge(closed).with_state(app.clone()).split_for_parts();
    openapi::complete(&mut description);
    (router, description)
}

/// The whole API.
pub(crate) fn router(app: &App) -> Router {
    let (router, description) = described(app);
    let parameters = form::Parameters::described(&description);
    let text = description.to_json().unwrap_or_default();
    let json = [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))];
    router
        .route("/v1/openapi.json", axum::routing::get(move || async move { (json, text).into_response() }))
        .method_not_allowed_fallback(|method: Method| async move {
            let text = format!("this path does not offer {method}; the header Allow has what it offers");
            Problem::new(ApiCode::MethodNotAllowed, text)
        })
        .fallback(|| async { Problem::new(ApiCode::NotFound, "there is nothing at this path; see /v1/openapi.json") })
        .layer(from_fn_with_state(parameters, form::check))
        .layer(compression())
        .layer(from_fn_with_state(app.clone(), metrics::count))
        .layer(from_fn(bounded))
        .layer(CatchPanicLayer::custom(|_| {
            tracing::error!("a request panicked");
            Problem::new(ApiCode::Internal, "the request was given up by a fault of the server's own").into_response()
        }))
        .layer(from_fn(logged))
        .layer(PropagateRequestIdLayer::new(REQUEST_ID))
        .layer(SetRequestIdLayer::new(REQUEST_ID, MakeRequestUuid))
        .layer(from_fn_with_state(app.clone(), refuse_when_stopping))
}

/// Compresses answers for clients that take gzip; never what is followed, whose events would wait in the compressor. Quickly rather
/// than well, since it is done on the threads that answer.
fn compression() -> CompressionLayer<impl Predicate> {
    let what = SizeAbove::new(COMPRESSED_FROM_BYTES).and(NotForContentType::const_new("text/event-stream"));
    CompressionLayer::new().quality(CompressionLevel::Fastest).compress_when(what)
}

/// Nobody waits for ever: what a request has begun goes on without it.
async fn bounded(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let deploys = path == "/v1/modules" || path.ends_with("/activate");
    let longest = if deploys { LONGEST_OF_DEPLOYING } else { LONGEST };
    match tokio::time::timeout(longest, next.run(request)).await {
        Ok(response) => response,
        Err(_) => {
            let text = "the answer took too long; what was asked may still be done: repeat it with its key";
            Problem::new(ApiCode::AnswerTimeout, text).into_response()
        }
    }
}

/// A line for each request, with its id.
async fn logged(request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let id = request.extensions().get::<RequestId>().and_then(|id| id.header_value().to_str().ok()).map(str::to_owned);
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let response = next.run(request).await;
    let (status, ms) = (response.status().as_u16(), began.elapsed().as_millis());
    tracing::info!(%method, path, status, ms, id = id.as_deref().unwrap_or_default(), "answered");
    response
}

/// What comes on a connection that is still open while the server ends is not begun any more.
async fn refuse_when_stopping(State(app): State<App>, request: Request, next: Next) -> Response {
    if *app.stopping.borrow() && !["/healthz", "/readyz"].contains(&request.uri().path()) {
        let problem = Problem::new(ApiCode::Stopping, "the server is about to end; ask again in a moment");
        return problem.with_header(header::RETRY_AFTER, HeaderValue::from_static("1")).into_response();
    }
    next.run(request).await
}
