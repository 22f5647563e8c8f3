//! What is common to the operations in the description of the API, and what every one of them can answer.

use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoParams, ToSchema};

/// The header of every request that does something.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Header)]
#[allow(dead_code)] // Describes a header that `request` reads.
pub(crate) struct KeyHeader {
    /// 1 to 255 printable characters, bare or quoted. A repeated request with the same key is answered as the first one was.
    #[param(rename = "Idempotency-Key", required = false, min_length = 1, max_length = 255)]
    key: Option<String>,
}

/// Which part of a list.
#[derive(IntoParams, ToSchema)]
#[into_params(parameter_in = Query)]
#[allow(dead_code)] // Describes parameters that handlers read.
pub(crate) struct Page {
    /// At most so many; 100 where it is left out.
    #[param(required = false, minimum = 1, maximum = 1000)]
    limit: Option<u64>,
    /// The cursor of the page before.
    #[param(required = false)]
    cursor: Option<String>,
}

/// What any operation under `/v1` may answer, beside its own.
const COMMON: [(&str, &str); 8] = [
    ("400", "A path, parameter, header or body that is not understood"),
    ("401", "No valid token"),
    ("403", "The token is not good for this, or a page of another site asks"),
    ("408", "The request took too long to arrive"),
    ("429", "More requests than the token may make"),
    ("500", "A fault of the server's own"),
    ("503", "The store cannot keep anything now, or the server is stopping"),
    ("504", "The answer took too long"),
];
/// The same for those that take a body or a key.
const OF_POST: [(&str, &str); 4] = [
    ("409", "In conflict with what there is; or the first request with this key is still in progress"),
    ("413", "The body is too large"),
    ("415", "The body has a type that is not taken"),
    ("422", "The key was used for another request, or what was sent cannot be used"),
];

fn problem(description: &str) -> RefOr<Response> {
    let schema = Ref::from_schema_name("ProblemBody");
    let content = Content::new(Some(schema));
    RefOr::T(ResponseBuilder::new().description(description).content("application/problem+json", content).build())
}

/// Adds to every operation what it shares with the others.
pub(crate) fn complete(api: &mut OpenApi) {
    for (path, item) in &mut api.paths.paths {
        let operations = [&mut item.get, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            add(operation, &COMMON, path);
        }
        for operation in [&mut item.post, &mut item.put].into_iter().flatten() {
            add(operation, &COMMON, path);
            add(operation, &OF_POST, path);
        }
    }
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
    let components = api.components.get_or_insert_default();
    components.security_schemes.insert("token".to_owned(), SecurityScheme::Http(bearer).into());
    // Without tokens none is needed, and only this machine is answered.
    api.security = Some(vec![SecurityRequirement::new("token", Vec::<String>::new()), SecurityRequirement::default()]);
}

fn add(operation: &mut Operation, answers: &[(&str, &str)], path: &str) {
    if !path.starts_with("/v1") {
        return;
    }
    for (status, description) in answers {
        operation.responses.responses.entry((*status).to_owned()).or_insert_with(|| problem(description));
    }
}
