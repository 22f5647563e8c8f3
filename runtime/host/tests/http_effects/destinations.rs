//! Where requests may go: by name before they are sent, by address when they are.

use stepwell_core::contract::Evidence;
use stepwell_core::error::{Code, Retryability};
use stepwell_host::http::{AddressPolicy, Destinations, HttpClient, HttpSettings, Outbound, Teardown};

use crate::server::{Server, ok};
use crate::{client, request, settings};

fn to(url: &str, destinations: &[&str]) -> Outbound {
    Outbound { destinations: Destinations::parse(destinations).unwrap(), ..request("GET", url) }
}

#[test]
fn both_the_workflow_and_the_operator_have_to_allow_it() {
    let operator = HttpSettings { allow: Destinations::parse(&["*.example", "*.example:8443"]).unwrap(), ..settings() };
    let client = HttpClient::new(operator);
    client.check(&to("https://pay.example/", &["pay.example"])).unwrap();
    for (url, destinations) in [
        ("https://pay.example/", &[][..]),
        ("https://pay.example/", &["other.example"]),
        ("https://pay.example:8443/", &["pay.example"]),
        ("https://pay.test/", &["pay.test"]),
    ] {
        let error = client.check(&to(url, destinations)).unwrap_err();
        assert!(error.is(Code::DestinationRefused) && error.retryability == Retryability::Never, "{error}");
        assert!(error.message.contains("https://pay."), "{error}");
    }
    let nowhere = Outbound { destinations: Destinations::default(), ..request("GET", "https://pay.example/") };
    assert!(client.check(&nowhere).unwrap_err().is(Code::DestinationRefused));
}

#[test]
fn addresses_that_are_not_public_are_refused_in_every_spelling() {
    let client = HttpClient::new(HttpSettings::default());
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "１２７.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "[::]",
        "10.0.0.1",
        "172.16.5.4",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "[fe80::1]",
        "[fd00::1]",
        "[fd00:ec2::254]",
        "255.255.255.255",
        "224.0.0.1",
        "198.18.0.1",
    ] {
        let error = client.check(&request("GET", format!("http://{host}/"))).unwrap_err();
        assert!(error.is(Code::DestinationRefused), "{host}: {error}");
    }
    client.check(&request("GET", "http://93.184.215.14/")).unwrap();
}

#[tokio::test]
async fn a_name_is_judged_by_the_addresses_it_resolves_to() {
    let server = Server::answering(|_| ok("")).await;
    let url = format!("http://localhost:{}/", server.address.port());
    let client_with = |addresses| HttpClient::new(HttpSettings { addresses, ..HttpSettings::default() });
    let closed = client_with(AddressPolicy::default());
    closed.check(&request("POST", url.clone())).unwrap();
    let outcome = closed.send(request("POST", url.clone()), Teardown::never()).await;
    assert_eq!(outcome.evidence, Evidence::NotSent);
    let error = outcome.answer.unwrap_err();
    assert!(error.is(Code::DestinationRefused) && error.message.contains("loopback"), "{error}");
    assert_eq!(server.connections(), 0);

    for named in ["127.0.0.0/8".to_owned(), "127.0.0.1".into(), format!("localhost:{}", server.address.port())] {
        let open = client_with(AddressPolicy { allow_net: vec![named.parse().unwrap()], ..AddressPolicy::default() });
        assert!(open.send(request("POST", url.clone()), Teardown::never()).await.answer.is_ok(), "{named}");
    }
}

#[tokio::test]
async fn loopback_is_open_where_the_operator_says_so() {
    let server = Server::answering(|_| ok("")).await;
    for host in ["127.0.0.1", "localhost", "2130706433"] {
        let url = format!("http://{host}:{}/", server.address.port());
        client().send(request("GET", url), Teardown::never()).await.answer.unwrap();
    }
    assert!(client().check(&request("GET", "http://10.0.0.1/")).unwrap_err().is(Code::DestinationRefused));
}
