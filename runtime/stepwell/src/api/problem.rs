//! Refusals and failures as `application/problem+json`, with stable codes. Each code has a page in `docs/errors/api`.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use stepwell_core::error::{Code, Error};
use stepwell_engine::store::StoreError;
use utoipa::ToSchema;

macro_rules! api_codes {
    ($($(#[$doc:meta])* $variant:ident = $text:literal, $status:ident, $title:literal;)*) => {
        /// Every code that the API itself gives. Errors of modules and runs have the codes of the core, `workflows.<what>`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum ApiCode { $($(#[$doc])* $variant,)* }

        impl ApiCode {
            /// All of them, for the test that looks for their pages.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$variant,)*];

            pub(crate) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            fn title(self) -> &'static str {
                match self { $(Self::$variant => $title,)* }
            }
        }
    };
}

api_codes! {
    /// The path, a parameter or the body does not say what it should.
    InvalidRequest = "invalid_request", BAD_REQUEST, "The request is not understood";
    /// The `Idempotency-Key` header is no key.
    InvalidKey = "invalid_idempotency_key", BAD_REQUEST, "The Idempotency-Key is none";
    /// No token, or one that is not known or has ended.
    Unauthorized = "unauthorized", UNAUTHORIZED, "A valid bearer token is needed";
    /// The token is not good for this.
    Forbidden = "forbidden", FORBIDDEN, "The token's scopes do not cover this";
    /// A page of another site sent it, or it names a host that is not this one.
    CrossOrigin = "cross_origin", FORBIDDEN, "Requests of other sites' pages are refused";
    /// There is nothing of that name.
    NotFound = "not_found", NOT_FOUND, "There is no such thing";
    /// The path is there, the method is not.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The method is not offered here";
    /// The body did not come in time.
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The request took too long to arrive";
    /// The first request with this key is still being answered.
    InProgress = "idempotency_in_progress", CONFLICT, "The first request with this key is still in progress";
    /// The run key belongs to a run of another workflow or input.
    RunKeyConflict = "run_key_conflict", CONFLICT, "The run key belongs to another run";
    /// The run has ended.
    RunFinished = "run_finished", CONFLICT, "The run has ended";
    /// The run's end is decided, and only its requests are waited for.
    RunEnding = "run_ending", CONFLICT, "The run is about to end";
    /// The run is being set aside, or goes on on its own module.
    RunBusy = "run_busy", CONFLICT, "The run cannot be changed at this moment";
    /// It is known what became of the step, or will be.
    StepNotUnknown = "step_not_unknown", CONFLICT, "The step's outcome is not unknown";
    /// There is nothing to retry.
    RunNotFailed = "run_not_failed", CONFLICT, "The run has not failed";
    /// The workflow was not told of a failure of the step.
    StepNotFailed = "step_not_failed", CONFLICT, "The step has not failed";
    /// The same code would fail again.
    RetryNeedsModule = "retry_needs_module", CONFLICT, "The run failed by its own code";
    /// What was done since may be done again.
    RetryNeedsConfirm = "retry_needs_confirm", CONFLICT, "Something was done after that point";
    /// It can be rerun when it has ended.
    RunNotEnded = "run_not_ended", CONFLICT, "The run has not ended";
    /// The name is that of several steps.
    StepAmbiguous = "step_ambiguous", CONFLICT, "The run has several steps of that name";
    /// What was done since the step began would be done again.
    RerunNeedsConfirm = "rerun_needs_confirm", CONFLICT, "Something was done since that step began";
    /// The run's journal cannot be gone on from there.
    RerunImpossible = "rerun_impossible", CONFLICT, "The run cannot be rerun from there";
    /// Runs or workflows need the module.
    ModuleNeeded = "module_needed", CONFLICT, "The module is needed";
    /// No token could do what only tokens can do afterwards.
    LastAdmin = "last_admin_token", CONFLICT, "Nobody could administer the server any more";
    /// The token was rotated already.
    TokenReplaced = "token_replaced", CONFLICT, "The token has been replaced by another";
    /// The body is larger than is taken.
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is too large";
    /// The body's type is not one that is taken here.
    UnsupportedType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body has a type that is not taken";
    /// The key has been used for another request.
    KeyReuse = "idempotency_key_reuse", UNPROCESSABLE_ENTITY, "The key was used for another request";
    /// New runs of the workflow start on no module.
    NotActive = "workflow_not_active", UNPROCESSABLE_ENTITY, "The workflow has no active module";
    /// More requests than the token may make.
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many requests";
    /// A fault of the server's own.
    Internal = "internal", INTERNAL_SERVER_ERROR, "The server failed";
    /// The disk failed. Nothing was kept.
    StorageFailed = "storage_failed", SERVICE_UNAVAILABLE, "The store cannot keep anything now";
    /// The answer was not there in time.
    AnswerTimeout = "answer_timeout", GATEWAY_TIMEOUT, "The answer took too long";
    /// As many runs are followed as may be.
    TooManyFollowers = "too_many_followers", SERVICE_UNAVAILABLE, "Too many runs are followed at once";
    /// The server is about to end.
    Stopping = "stopping", SERVICE_UNAVAILABLE, "The server is stopping";
}

/// A refusal or failure.
#[derive(Debug, Clone)]
pub(crate) struct Problem {
    status: StatusCode,
    code: String,
    title: String,
    detail: String,
    extra: Map<String, Value>,
    headers: Vec<(header::HeaderName, HeaderValue)>,
}

/// How a problem reads. Further members belong to its code.
#[derive(Debug, Serialize, ToSchema)]
#[allow(dead_code)] // Describes what `Problem` writes.
pub(crate) struct ProblemBody {
    /// A name of the kind of problem: `urn:stepwell:error:` and the code.
    #[schema(rename = "type")]
    kind: String,
    /// The HTTP status again.
    status: u16,
    /// Stable, for programs.
    code: String,
    /// The kind of problem, for people.
    title: String,
    /// This problem: what, where, and what to do.
    detail: String,
}

impl Problem {
    pub(crate) fn new(code: ApiCode, detail: impl Into<String>) -> Self {
        Self {
            status: code.status(),
            code: code.as_str().to_owned(),
            title: code.title().to_owned(),
            detail: detail.into(),
            extra: Map::new(),
            headers: Vec::new(),
        }
    }

    /// With a further member.
    pub(crate) fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.extra.insert(name.to_owned(), value.into());
        self
    }

    /// With a further header.
    pub(crate) fn with_header(mut self, name: header::HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The same, said of one of several things.
    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("type".to_owned(), format!("urn:stepwell:error:{}", self.code).into());
        object.insert("status".to_owned(), self.status.as_u16().into());
        object.insert("code".to_owned(), self.code.clone().into());
        object.insert("title".to_owned(), self.title.clone().into());
        object.insert("detail".to_owned(), self.detail.clone().into());
        object.extend(self.extra.clone());
        Value::Object(object)
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.status
    }

    /// An error of the core's: of what was sent, unless it is the server's own.
    pub(crate) fn of(error: &Error) -> Self {
        if error.is(Code::Internal) {
            tracing::error!(%error, "a request failed");
            return Self::new(ApiCode::Internal, error.message.clone());
        }
        let status = match error.code.as_str() {
            code if code == Code::ResultTooLarge.as_str() => StatusCode::PAYLOAD_TOO_LARGE,
            code if code == Code::ReplayMismatch.as_str() => StatusCode::CONFLICT,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self {
            status,
            code: error.code.clone(),
            title: "What was sent cannot be used".to_owned(),
            detail: error.message.clone(),
            extra: Map::new(),
            headers: Vec::new(),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::of(&error)
    }
}

/// The code of what the store refused.
fn code_of(error: &StoreError) -> ApiCode {
    match error {
        StoreError::Finished { .. } => ApiCode::RunFinished,
        StoreError::ModuleNeeded(_) => ApiCode::ModuleNeeded,
        StoreError::NoSuchRun(_) | StoreError::NoSuchModule(_) | StoreError::NoSuchToken(_) => ApiCode::NotFound,
        StoreError::NoSuchSchedule(_) => ApiCode::NotFound,
        StoreError::LastToken(_) => ApiCode::LastAdmin,
        StoreError::EventDiffers => ApiCode::KeyReuse,
        // What stopped the run's writes stopped this one.
        StoreError::Stopped { cause, .. } => code_of(cause),
        error if error.is_of_the_disk() => ApiCode::StorageFailed,
        _ => ApiCode::Internal,
    }
}

impl From<StoreError> for Problem {
    /// What the store refused. Handlers turn the refusals that have a meaning of their own there into problems before this.
    fn from(error: StoreError) -> Self {
        let code = code_of(&error);
        if matches!(code, ApiCode::StorageFailed | ApiCode::Internal) {
            tracing::error!(%error, "the store failed");
        }
        let detail = match &error {
            StoreError::Finished { status, .. } => format!("the run has {status} and takes nothing more"),
            other => other.to_string(),
        };
        Self::new(code, detail)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = self.to_json().to_string();
        let mut response = (self.status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        for (name, value) in self.headers {
            headers.insert(name, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_page() {
        let pages = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors/api");
        for code in ApiCode::ALL {
            let page = pages.join(format!("{}.md", code.as_str()));
            let text = std::fs::read_to_string(&page).unwrap_or_default();
            assert!(text.contains(code.as_str()) && text.contains(code.status().as_str()), "{}", page.display());
        }
    }

    #[test]
    fn a_refusal_of_the_disk_is_no_fault_of_the_client() {
        let problem = Problem::from(StoreError::DiskFull("no room".into()));
        assert_eq!(problem.status(), StatusCode::SERVICE_UNAVAILABLE);
        let behind = StoreError::Stopped { run: 1, cause: Box::new(StoreError::DiskFull("no room".into())) };
        assert_eq!(Problem::from(behind).status(), StatusCode::SERVICE_UNAVAILABLE);
        let finished = StoreError::Finished { run: 1, status: stepwell_engine::store::Status::Failed };
        assert_eq!(Problem::from(finished).status(), StatusCode::CONFLICT);
    }
}
