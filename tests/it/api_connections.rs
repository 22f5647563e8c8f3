//! Connections of whoever it is: how many there may be, and how long each may keep its place.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::json;
use stepwell_tests::{Api, Project};

use crate::api_keys::MODULE;
use crate::api_runs::start;

fn connect(api: &Api) -> TcpStream {
    let stream = TcpStream::connect(api.address()).expect("the server takes connections");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a time can be set");
    stream
}

/// Reads until the server closes the connection. Fails where it does not.
fn closed(mut stream: TcpStream) -> String {
    let mut said = Vec::new();
    match stream.read_to_end(&mut said) {
        Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => {
            panic!("the connection stays open: {error}")
        }
        _ => String::from_utf8_lossy(&said).into_owned(),
    }
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let project = Project::new();
    let server = project.serve(&["--idle-timeout-ms", "300"]);
    let silent = connect(&server);
    let mut half = connect(&server);
    half.write_all(b"GET /healthz HT").expect("it is taken");
    let mut other = connect(&server);
    other.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").expect("it is taken");
    let mut idle = connect(&server);
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("it is taken");
    for stream in [silent, half, other] {
        drop(closed(stream));
    }
    assert!(closed(idle).contains("200 OK"), "the first request was answered, and no second one waited for");
}

#[test]
fn beyond_so_many_connections_the_next_waits_for_a_place() {
    let project = Project::new();
    let server = project.serve(&["--max-connections", "2", "--idle-timeout-ms", "1000"]);
    let held: Vec<TcpStream> = (0..2).map(|_| connect(&server)).collect();
    // Answered once one of them has been given up, and not before.
    drop(server.get("/healthz").expect(200));
    let free = held.iter().filter(|stream| stream.set_nonblocking(true).is_ok() && is_closed(stream)).count();
    assert!(free > 0, "a third connection was taken beside the two");
}

fn is_closed(mut stream: &TcpStream) -> bool {
    !matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
}

#[test]
fn who_takes_nothing_of_an_answer_loses_its_place() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    let run = start(&server, "echo", &json!({ "input": "x".repeat(1 << 20) }));
    drop(server.ended(&run));
    drop(server.stop().expect_code(0));
    let server = project.serve(&["--max-connections", "1", "--idle-timeout-ms", "500"]);
    let mut deaf = connect(&server);
    // More than the operating system keeps for a client that reads none of it.
    for _ in 0..64 {
        let request = format!("GET /v1/runs/{run} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        deaf.write_all(request.as_bytes()).expect("it is taken");
    }
    drop(server.get("/healthz").expect(200));
}

#[test]
fn followers_leave_room_for_others() {
    let project = Project::new();
    let server = project.serve_with(&MODULE);
    drop(server.stop().expect_code(0));
    let server = project.serve(&["--max-connections", "4"]);
    let run = start(&server, "waiting", &json!({}));
    let path = format!("/v1/runs/{run}/events");
    let mut followers: Vec<_> = (0..2).map(|_| server.lines(&path)).collect();
    for follower in &mut followers {
        assert!(follower.next().is_some());
    }
    let refused = server.get(&path).problem(503, "too_many_followers");
    assert!(refused.header("retry-after").is_some(), "{refused:#?}");
    drop(server.get(&format!("/v1/runs/{run}")).expect(200));
}

#[test]
fn methods_that_are_made_up_are_counted_as_one() {
    let project = Project::new();
    let server = project.serve(&[]);
    for n in 0..3 {
        let request = format!("MADEUP{n} /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        drop(server.raw(request.as_bytes()).expect("there is an answer").problem(405, "method_not_allowed"));
    }
    let metrics = server.get("/metrics").expect(200).body.to_string();
    assert!(!metrics.contains("MADEUP") && metrics.contains("other"), "{metrics}");
}
