//! The shop's binary over loopback: deduplication, each fault as its client sees it, and the record of it all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in what its tests share")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use shop::{Entry, Point, Verdict};

const CHARGE: &str = r#"{"orderId":"o1","amountCents":500}"#;

struct Shop {
    process: Child,
    address: String,
    folder: tempfile::TempDir,
}

impl Drop for Shop {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What a client got before the connection closed: everything it asked for has `Connection: close`.
#[derive(Debug)]
struct Got {
    text: String,
}

impl Got {
    fn status(&self) -> u16 {
        self.text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    fn body(&self) -> Value {
        serde_json::from_str(self.text.split_once("\r\n\r\n").expect(&self.text).1).unwrap()
    }
}

impl Shop {
    fn start(faults: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_shop"));
        command.arg("--record").arg(folder.path().join("record"));
        command.arg("--victim-pid-file").arg(folder.path().join("pid"));
        for fault in faults {
            command.args(["--fault", fault]);
        }
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().strip_prefix("shop listening on http://").expect(&line).to_owned();
        Self { process, address, folder }
    }

    /// Sends a request without waiting for what comes of it.
    fn send(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let key = key.map(|key| format!("Idempotency-Key: {key}\r\n")).unwrap_or_default();
        let head = format!("{method} {path} HTTP/1.1\r\nHost: shop\r\nConnection: close\r\n{key}");
        stream.write_all(format!("{head}Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, key: Option<&str>, body: &str) -> Got {
        let mut bytes = Vec::new();
        // A connection that is closed with unread bytes in it is reset: that is one way of getting nothing.
        let _ = self.send(method, path, key, body).read_to_end(&mut bytes);
        Got { text: String::from_utf8(bytes).unwrap() }
    }

    fn charge(&self, key: &str) -> Got {
        self.ask("POST", "/charges", Some(key), CHARGE)
    }

    fn record(&self) -> (Vec<Entry>, Verdict) {
        let body = self.ask("GET", "/_record", None, "").body();
        let requests = serde_json::from_value(body["requests"].clone()).unwrap();
        (requests, serde_json::from_value(body["verdict"].clone()).unwrap())
    }

    /// Waits until the record shows what is looked for; a record that never does is a hanging test.
    fn wait_for(&self, shows: impl Fn(&[Entry]) -> bool) -> Vec<Entry> {
        loop {
            let (entries, _) = self.record();
            if shows(&entries) {
                return entries;
            }
        }
    }
}

#[test]
fn a_repeated_key_is_answered_from_the_record_and_the_record_is_clean() {
    let shop = Shop::start(&[]);
    assert_eq!(shop.ask("GET", "/healthz", None, "").status(), 200);
    let (first, again) = (shop.charge("k"), shop.charge("k"));
    assert_eq!((first.status(), again.status()), (201, 201));
    assert_eq!(first.body(), json!({"id": "ch_o1", "orderId": "o1", "amountCents": 500, "status": "captured"}));
    assert_eq!(first.body(), again.body());
    assert!(!first.text.contains("Idempotent-Replayed") && again.text.contains("Idempotent-Replayed: true"));
    assert_eq!(shop.ask("POST", "/charges", Some("k"), "{}").status(), 422);
    assert_eq!(shop.ask("GET", "/orders/o1", None, "").body()["operations"][0]["id"], "ch_o1");

    let (entries, verdict) = shop.record();
    assert_eq!(verdict, Verdict::default());
    let seen: Vec<_> = entries.iter().map(|e| (e.stored, e.replayed, e.answered)).collect();
    assert_eq!(seen[..3], [(true, false, Some(201)), (false, true, Some(201)), (false, false, Some(422))]);
    let entries = shop.wait_for(|entries| entries.iter().all(|e| e.over));
    let file = std::fs::read_to_string(shop.folder.path().join("record")).unwrap();
    let lines: Vec<Entry> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines, entries);
}

#[test]
fn the_record_shows_a_second_key_and_a_missing_one() {
    let shop = Shop::start(&[]);
    assert_eq!(shop.charge("k").body()["id"], "ch_o1");
    assert_eq!(shop.charge("l").body()["id"], "ch_o1_2");
    assert_eq!(shop.ask("POST", "/labels", None, CHARGE).status(), 400);
    let (_, verdict) = shop.record();
    assert_eq!(verdict.stored_twice, [2].into());
    assert_eq!(verdict.second_keys, [2].into());
    assert_eq!(verdict.without_key, [3].into());
}

#[test]
fn refusals_store_nothing_and_a_gateways_504_hides_what_was_stored() {
    let shop = Shop::start(&["POST /charges#1=429,retry-after:7", "POST /charges#2=status:503"]);
    let refused = shop.charge("k");
    assert_eq!(refused.status(), 429);
    assert!(refused.text.contains("Retry-After: 7\r\n"));
    assert_eq!(shop.charge("k").status(), 503);
    let added = shop.ask("POST", "/_faults", None, r#"{"faults":["POST /charges#1=store-then:504"]}"#);
    assert_eq!(added.body()["faults"].as_array().unwrap().len(), 3);
    assert_eq!(shop.charge("l").status(), 504);
    let again = shop.charge("l");
    assert_eq!(again.status(), 201);
    assert!(again.text.contains("Idempotent-Replayed: true"));
    let stored: Vec<_> = shop.record().0.iter().map(|entry| entry.stored).collect();
    assert_eq!(stored, [false, false, true, false]);
}

#[test]
fn faults_are_added_all_or_none_and_taken_away() {
    let shop = Shop::start(&[]);
    let refused = shop.ask("POST", "/_faults", None, r#"{"faults":["POST /charges=503","nonsense"]}"#);
    assert_eq!(refused.status(), 400);
    assert_eq!(shop.ask("GET", "/_faults", None, "").body(), json!({"faults": []}));
    shop.ask("POST", "/_faults", None, r#"{"faults":["POST /charges=503"]}"#);
    assert_eq!((shop.charge("k").status(), shop.charge("k").status()), (503, 503));
    shop.ask("DELETE", "/_faults", None, "");
    assert_eq!(shop.charge("k").status(), 201);
}

/// Each point: what the client gets, and what is stored afterwards.
const POINTS: [(&str, Point, bool); 5] = [
    ("before-read", Point::BeforeRead, false),
    ("after-read", Point::AfterRead, false),
    ("after-store", Point::AfterStore, true),
    ("mid-answer", Point::MidAnswer, true),
    ("after-answer", Point::AfterAnswer, true),
];

#[test]
fn a_connection_is_dropped_at_each_point_and_the_same_key_goes_on_from_there() {
    for (name, point, stored) in POINTS {
        let shop = Shop::start(&[&format!("POST /charges#1=drop:{name}")]);
        let got = shop.charge("k");
        match point {
            Point::MidAnswer => {
                assert!(got.text.starts_with("HTTP/1.1 201") && !got.text.ends_with('}'), "{name}: {got:?}")
            }
            Point::AfterAnswer => assert_eq!(got.body()["id"], "ch_o1"),
            _ => assert_eq!(got.text, "", "{name}"),
        }
        let again = shop.charge("k");
        assert_eq!(again.body()["id"], "ch_o1", "{name}");
        assert_eq!(again.text.contains("Idempotent-Replayed"), stored, "{name}");

        let (entries, verdict) = shop.record();
        assert_eq!(verdict, Verdict::default(), "{name}");
        assert_eq!((entries[0].ended_at, entries[0].stored), (Some(point), stored), "{name}");
        // Also of a request that nobody read.
        assert_eq!((entries[0].key.as_deref(), entries[0].order_id.as_deref()), (Some("k"), Some("o1")), "{name}");
        assert_eq!(entries[0].body_digest, entries[1].body_digest, "{name}");
    }
}

#[test]
fn the_victim_is_killed_at_each_point() {
    use std::os::unix::process::ExitStatusExt as _;
    for (name, point, stored) in POINTS {
        let shop = Shop::start(&[&format!("POST /charges#1=kill:{name}")]);
        let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
        std::fs::write(shop.folder.path().join("pid"), format!("{}\n", victim.id())).unwrap();
        let _ = shop.charge("k");
        assert_eq!(victim.wait().unwrap().signal(), Some(9), "{name}");
        let (entries, _) = shop.record();
        let entry = &entries[0];
        assert_eq!((entry.killed, entry.ended_at, entry.stored), (Some(victim.id()), Some(point), stored), "{name}");
    }
}

#[test]
fn a_killed_clients_request_can_be_finished_all_the_same() {
    let shop = Shop::start(&["POST /charges#1=kill:before-read,go-on"]);
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    std::fs::write(shop.folder.path().join("pid"), victim.id().to_string()).unwrap();
    assert_eq!(shop.charge("k").status(), 201);
    victim.wait().unwrap();
    assert!(shop.record().0[0].stored);
}

#[test]
fn without_a_victim_the_record_says_so() {
    let shop = Shop::start(&["POST /charges=kill:after-read"]);
    assert_eq!(shop.charge("k").text, "");
    let entry = &shop.record().0[0];
    assert!(entry.killed.is_none() && entry.problem.as_deref().unwrap().contains("pid"), "{entry:?}");
}

#[test]
fn a_hanging_request_holds_its_key_until_its_client_goes() {
    let shop = Shop::start(&["POST /charges#1=hang"]);
    let hanging = shop.send("POST", "/charges", Some("k"), CHARGE);
    shop.wait_for(|entries| entries.first().is_some_and(|e| e.ended_at == Some(Point::AfterRead)));
    assert_eq!(shop.charge("k").status(), 409);
    drop(hanging);
    shop.wait_for(|entries| entries[0].over);
    assert_eq!(shop.charge("k").status(), 201);
}

#[test]
fn work_goes_on_when_the_client_has_gone() {
    let shop = Shop::start(&["POST /charges#1=takes:300"]);
    drop(shop.send("POST", "/charges", Some("k"), CHARGE));
    shop.wait_for(|entries| entries.first().is_some_and(|e| e.stored));
    assert!(shop.charge("k").text.contains("Idempotent-Replayed"));
}

#[test]
fn a_slow_answer_comes_byte_by_byte() {
    let shop = Shop::start(&["POST /charges#1=slow-answer"]);
    let mut stream = shop.send("POST", "/charges", Some("k"), CHARGE);
    let mut some = [0; 64];
    assert_eq!(stream.read(&mut some).unwrap(), 1);
    drop(stream);
    assert!(shop.record().0[0].stored);
}

#[test]
fn a_connection_serves_many_requests() {
    let shop = Shop::start(&[]);
    let mut stream = TcpStream::connect(&shop.address).unwrap();
    for key in ["a", "b"] {
        let body = format!(r#"{{"orderId":"{key}"}}"#);
        write!(
            stream,
            "POST /emails HTTP/1.1\r\nHost: shop\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut reader = BufReader::new(&stream);
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            if let Some(text) = line.strip_prefix("Content-Length: ") {
                length = text.trim().parse().unwrap();
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&body).unwrap()["id"], format!("em_{key}"));
    }
}

#[test]
fn what_is_no_request_is_refused() {
    let shop = Shop::start(&[]);
    let mut stream = TcpStream::connect(&shop.address).unwrap();
    stream.write_all(b"POST /charges HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text);
    assert!(text.starts_with("HTTP/1.1 400 "), "{text}");
    assert!(shop.record().0.is_empty());
}
