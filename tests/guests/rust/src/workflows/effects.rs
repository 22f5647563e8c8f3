//! Requests of steps.

use serde_json::{Value, json};

use crate::contract::{AttemptRef, Error, Response, StepOptions, commands};
use crate::http;
use crate::run::{Run, expected};
use crate::step::{Here, attempts, effect, options};

fn charging(input: &Value) -> StepOptions {
    StepOptions { effect: effect(input["effect"].as_str().unwrap_or_default()), ..attempts(100) }
}

async fn charge(here: &Here, url: &str) -> Result<Response, Error> {
    http::ok(here.post(&format!("{url}/charges"), &json!({ "orderId": "o1", "amountCents": 5 })).await?)
}

fn told(here: &Here, response: &Response) -> Value {
    json!({ "attempt": here.number(), "recorded": response.recorded, "text": http::text(response) })
}

/// One POST under the class that the input names.
pub(crate) async fn posts(run: Run, input: Value) -> Result<Value, Error> {
    let url = expected(input["url"].as_str(), "a URL")?.to_owned();
    run.step("charge", &charging(&input), move |here| {
        let url = url.clone();
        async move {
            let response = charge(&here, &url).await?;
            Ok(told(&here, &response))
        }
    })
    .await
}

/// The same; the first attempt does not end once its POST is answered.
pub(crate) async fn lingers(run: Run, input: Value) -> Result<Value, Error> {
    let url = expected(input["url"].as_str(), "a URL")?.to_owned();
    run.step("charge", &charging(&input), move |here| {
        let url = url.clone();
        async move {
            let response = charge(&here, &url).await?;
            if here.number() == 1 {
                here.delay(600_000).await?;
            }
            Ok(told(&here, &response))
        }
    })
    .await
}

/// The codes with which commands are refused where they must not be: an operation in a body, a request of a closed attempt, and one
/// to a destination that the module does not declare. A second answer's is the run's status.
pub(crate) async fn misplaced(run: Run, _: Value) -> Result<Value, Error> {
    let inside = run.step("inside", &attempts(1), |here| async move {
        let begun = [commands::sleep(1), commands::wait_event("x", None), commands::step_begin("y", &options())];
        let elsewhere = here.get("http://example.com/").await;
        let begun = begun.map(|begun| begun.err().map(|error| error.code));
        let codes = json!({ "begun": begun, "elsewhere": elsewhere.err().map(|error| error.code) }).to_string();
        commands::step_finish(here.attempt.id, Ok(&codes))?;
        let late = commands::step_finish(here.attempt.id, Ok("\"late\""));
        commands::set_status(&late.err().map(|error| error.code).unwrap_or_default());
        std::future::pending().await
    });
    let result = inside.await?;
    let outside =
        commands::http_send(AttemptRef { operation: 0, number: 1 }, &http::request("GET", "http://127.0.0.1:1/"));
    Ok(json!({ "result": result, "outside": outside.err().map(|error| error.code) }))
}
