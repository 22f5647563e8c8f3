//! Redirects: followed by the SDK, where the workflow wants that, and checked like any request.

use std::sync::LazyLock;

use serde_json::{Value, json};
use stepwell_tests::{Module, Project, Reply, Server};

static MODULE: LazyLock<Module> = LazyLock::new(|| {
    Module::build(
        "redirects.ts",
        r#"
import { workflow } from "stepwell";

export const asks = workflow("asks", async ({ input, step }: any) => step.run("ask", async ({ http }: any) => {
  const { url, ...options } = input;
  const response = await http.get(url, options);
  return [response.status, response.redirected, new URL(response.url).pathname, response.headers.get("location")];
}, { retry: { maxAttempts: 1 } }), { destinations: ["127.0.0.1:*"] });
"#,
    )
});

fn server(location: &'static str) -> Server {
    Server::start(move |request| match request.path.as_str() {
        "/from" => Reply::Raw(
            format!("HTTP/1.1 302 x\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                .into_bytes(),
        ),
        _ => Reply::Answer(200, "{}".into()),
    })
}

fn paths(server: &Server) -> Vec<String> {
    server.requests().into_iter().map(|request| request.path).collect()
}

#[test]
fn a_redirect_is_met_as_the_workflow_wants() {
    let asked = |redirect: Option<&str>, code: i32| {
        let (project, server) = (Project::new(), server("/to"));
        let mut input = json!({ "url": format!("{}/from", server.url()) });
        if let Some(redirect) = redirect {
            input["redirect"] = redirect.into();
        }
        (project.run(&MODULE, "asks", &input).wait().expect_code(code), paths(&server))
    };
    for followed in [None, Some("follow")] {
        let (end, paths) = asked(followed, 0);
        assert_eq!(
            (end.result(), paths),
            (&json!([200, true, "/to", Value::Null]), vec!["/from".into(), "/to".into()])
        );
    }
    let (end, paths) = asked(Some("manual"), 0);
    assert_eq!((end.result(), paths), (&json!([302, false, "/from", "/to"]), vec!["/from".to_owned()]));
    let (end, paths) = asked(Some("error"), 1);
    let message = end.error()["message"].as_str().expect("an error has a message");
    assert!(message.ends_with(r#"redirects, and redirect is "error""#), "{message}");
    assert_eq!(paths, ["/from"]);
}

#[test]
fn where_a_redirect_leads_has_to_be_allowed() {
    for (location, code) in [
        ("http://169.254.169.254/latest", "workflows.destination_refused"),
        ("http://user:pw@127.0.0.1/", "workflows.invalid_request"),
        ("file:///etc/passwd", "workflows.step_failed"),
    ] {
        let (project, server) = (Project::new(), server(location));
        let input = json!({ "url": format!("{}/from", server.url()) });
        let end = project.run(&MODULE, "asks", &input).wait().expect_code(1);
        assert_eq!((&end.error()["code"], paths(&server)), (&json!(code), vec!["/from".to_owned()]), "{location}");
    }
}
