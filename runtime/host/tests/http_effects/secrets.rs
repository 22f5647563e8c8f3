//! Secrets reach the server they are bound to, and nothing else.

use std::io::Write;

use stepwell_core::contract::Evidence;
use stepwell_core::error::{Code, Retryability};
use stepwell_host::http::{HttpClient, HttpSettings, SecretError, SecretFlag, Secrets, Teardown};

use crate::server::{Server, ok};
use crate::{request, settings, with_header};

const VALUE: &str = "sk_live_\"quoted\"/and+more";

/// The secret `pay`, bound to these destinations.
fn secrets(bound_to: &str) -> Secrets {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    writeln!(file, "{VALUE}").unwrap();
    let flag: SecretFlag = format!("pay=file:{}@{bound_to}", file.path().display()).parse().unwrap();
    Secrets::load(&[flag]).unwrap()
}

fn client(bound_to: &str) -> HttpClient {
    HttpClient::new(HttpSettings { secrets: secrets(bound_to), ..settings() })
}

#[tokio::test]
async fn a_secret_is_put_in_when_it_is_sent_and_struck_from_the_answer() {
    let server = Server::answering(|seen| {
        let echoed = seen.header("authorization").unwrap();
        let json = echoed.replace('"', "\\\"");
        let percent = "sk_live_%22quoted%22%2Fand%2Bmore";
        let body = format!("{{\"you sent\":\"{json}\"}} {echoed}{echoed} {percent}");
        format!("HTTP/1.1 200 OK\r\nx-echo: {echoed}\r\ncontent-length: {}\r\n\r\n{body}", body.len()).into_bytes()
    })
    .await;
    let client = client(&server.address.to_string());
    let outbound = with_header(request("POST", server.url("/")), "Authorization", "Bearer ${secret:pay}!${secret:pay}");
    client.check(&outbound).unwrap();
    let response = client.send(outbound, Teardown::never()).await.answer.unwrap();
    assert_eq!(server.requests()[0].header("authorization"), Some(format!("Bearer {VALUE}!{VALUE}").as_str()));
    let struck = "Bearer [secret:pay]![secret:pay]";
    assert_eq!(response.headers[0], ("x-echo".to_owned(), struck.to_owned()));
    let body = String::from_utf8(response.body).unwrap();
    assert_eq!(body, format!("{{\"you sent\":\"{struck}\"}} {struck}{struck} [secret:pay]"));
}

#[tokio::test]
async fn a_secret_is_struck_from_answers_to_requests_without_it() {
    let server = Server::answering(|_| ok(VALUE)).await;
    let answer = client("pay.example").send(request("GET", server.url("/")), Teardown::never()).await.answer;
    assert_eq!(answer.unwrap().body, b"[secret:pay]");
}

#[tokio::test]
async fn a_secret_that_may_not_go_there_is_refused() {
    let server = Server::answering(|_| ok("")).await;
    for (bound_to, url, header, word) in [
        ("pay.example", server.url("/"), "${secret:pay}", "not bound"),
        ("pay.example", "https://pay.example:8443/".into(), "${secret:pay}", "not bound"),
        ("pay.example", "http://pay.example/".into(), "${secret:pay}", "unencrypted"),
        ("*:*", server.url("/"), "${secret:other}", "--secret other=env:"),
        ("*:*", server.url("/"), "${secret:pay", "no `}`"),
        ("*:*", server.url("/"), "${secret:}", "name"),
        ("*:*", server.url("/"), "${secret:p y}", "name"),
        ("*:*", server.url("/?${secret:pay}"), "", "URL"),
    ] {
        let client = client(bound_to);
        let outbound = with_header(request("POST", url), "x", header);
        let error = client.check(&outbound).unwrap_err();
        assert!(error.is(Code::SecretRefused) && error.retryability == Retryability::Never, "{error}");
        assert!(error.message.contains(word) && !error.message.contains(VALUE), "{error}");
        let outcome = client.send(outbound, Teardown::never()).await;
        assert_eq!((outcome.evidence, outcome.answer), (Evidence::NotSent, Err(error)));
    }
    assert_eq!(server.connections(), 0);
    client("http://pay.example,*:*")
        .check(&with_header(request("GET", "http://pay.example/"), "x", "${secret:pay}"))
        .unwrap();
}

#[test]
fn a_workflow_uses_the_secrets_that_it_declares() {
    let mut outbound = with_header(request("GET", "https://pay.example/"), "x", "${secret:pay}");
    outbound.secrets = Some(vec!["pay".into()]);
    client("pay.example").check(&outbound).unwrap();
    outbound.secrets = Some(vec!["other".into()]);
    assert!(client("pay.example").check(&outbound).unwrap_err().message.contains("declare"));
}

#[tokio::test]
async fn no_error_and_no_debug_text_shows_a_secret() {
    // The answer is a head that cannot be parsed, with the secret in it.
    let server = Server::once(format!("HTTP/1.1 200 {VALUE}\r\n{VALUE}\r\n\r\n")).await;
    let client = client("*:*");
    let outbound = with_header(request("POST", server.url("/")), "x", "${secret:pay}");
    let outcome = client.send(outbound, Teardown::never()).await;
    assert_eq!(outcome.evidence, Evidence::Sent);
    assert!(!format!("{outcome:?}").contains("sk_live"));
    let settings = HttpSettings { secrets: secrets("*"), ..settings() };
    assert!(format!("{settings:?}").contains("pay") && !format!("{settings:?}").contains("sk_live"));
}

#[test]
fn what_is_no_secret_is_told_by_its_type() {
    let parse = |text: &str| text.parse::<SecretFlag>().unwrap_err();
    for text in ["stripe", "stripe=env:KEY", "stripe=env:@api.stripe.com"] {
        assert!(matches!(parse(text), SecretError::Form(_)), "{text}");
    }
    assert!(matches!(parse("a b=env:K@h"), SecretError::Name));
    assert!(matches!(parse("=env:K@h"), SecretError::Name));
    for text in ["stripe=literal:sk_live_1@api.stripe.com", "stripe=sk_live_1@api.stripe.com"] {
        assert!(matches!(parse(text), SecretError::Source(_)), "{text}");
        assert!(!parse(text).to_string().contains("sk_live"));
    }
    assert!(matches!(parse("stripe=env:K@"), SecretError::Destination { .. }));
    assert!(matches!(parse("stripe=env:K@a.example,b.*"), SecretError::Destination { .. }));

    let load = |text: String| Secrets::load(&[text.parse().unwrap()]).unwrap_err();
    assert!(matches!(load("s=env:STEPWELL_NO_SUCH_VARIABLE@h".into()), SecretError::Variable { .. }));
    assert!(matches!(load("s=file:/no/such/file@h".into()), SecretError::File { .. }));
    let file = tempfile::NamedTempFile::new().unwrap();
    let flag = format!("s=file:{}@h", file.path().display());
    for (text, too_short) in [
        ("", true),
        ("short\n", true),
        ("two lines\nof it", false),
        ("with a \u{0} in it", false),
        (" blanks around ", false),
    ] {
        std::fs::write(file.path(), text).unwrap();
        match load(flag.clone()) {
            SecretError::TooShort(_) => assert!(too_short, "{text:?}"),
            SecretError::Value(_) => assert!(!too_short, "{text:?}"),
            other => panic!("{other}"),
        }
    }
    std::fs::write(file.path(), "long enough").unwrap();
    let flag: SecretFlag = flag.parse().unwrap();
    assert!(matches!(Secrets::load(&[flag.clone(), flag]), Err(SecretError::Twice(_))));
}

#[test]
fn an_environment_variable_is_read() {
    // The one variable that every test has.
    let secrets = Secrets::load(&["path=env:PATH@*.example,https://a.example:*".parse().unwrap()]).unwrap();
    let client = HttpClient::new(HttpSettings { secrets, ..settings() });
    client.check(&with_header(request("GET", "https://a.example:8443/"), "x", "${secret:path}")).unwrap();
}
