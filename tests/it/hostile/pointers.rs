//! Addresses, lengths and texts that are none, in every place of every command where one can be given.

use super::guest::{Guest, doing};

/// A call of a command with a text at `PTR LEN`, and whether it is a text: bytes and lists have no encoding.
const TEXTS: &[(&str, &str, bool)] = &[
    ("the name of a step", "(drop (call $begin PTR LEN))", true),
    (
        "an operation key",
        "(i32.store8 (i32.const 1144) (i32.const 1)) (i32.store (i32.const 1148) PTR) (i32.store (i32.const 1152) LEN) \
         (drop (call $begin (i32.const 2072) (i32.const 1)))",
        true,
    ),
    (
        "the reason of an approval",
        "(i32.store8 (i32.const 1160) (i32.const 1)) (i32.store (i32.const 1168) PTR) (i32.store (i32.const 1172) LEN) \
         (drop (call $begin (i32.const 2072) (i32.const 1)))",
        true,
    ),
    (
        "the name of what a step reserves",
        "(i32.store8 (i32.const 1192) (i32.const 1)) (i32.store (i32.const 1200) PTR) (i32.store (i32.const 1204) LEN) \
         (drop (call $begin (i32.const 2072) (i32.const 1)))",
        true,
    ),
    ("the name of an event", "(call $wait-event PTR LEN (i32.const 0) (i64.const 0) (i32.const 256))", true),
    ("the workflow of a child", "(call $start-run PTR LEN NULL NONE (i32.const 256))", true),
    ("the input of a child", "(call $start-run NULL PTR LEN NONE (i32.const 256))", true),
    (
        "the run key of a child",
        "(call $start-run NULL NULL (i32.const 1) PTR LEN (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) \
         (i32.const 256))",
        true,
    ),
    ("the tags of a child", "(call $starts-tagged PTR LEN)", false),
    (
        "the name of a tag of a child",
        "(call $pair PTR LEN (i32.const 2072) (i32.const 1)) (call $starts-tagged (i32.const 8192) (i32.const 1))",
        true,
    ),
    (
        "a tag of a child",
        "(call $pair (i32.const 2072) (i32.const 1) PTR LEN) (call $starts-tagged (i32.const 8192) (i32.const 1))",
        true,
    ),
    ("the run of an event", "(call $send-event PTR LEN NULL NULL (i32.const 256))", true),
    ("the name of an event to a run", "(call $send-event NULL PTR LEN NULL (i32.const 256))", true),
    ("the payload of an event", "(call $send-event NULL NULL PTR LEN (i32.const 256))", true),
    ("the input to go on with", "(call $continue-as-new PTR LEN (i32.const 256))", true),
    ("a step's result", "(drop (call $finish-of (i32.const 0) (i32.const 1) PTR LEN))", true),
    ("the code of a step's error", "(call $fails-with (i32.const 1552) PTR LEN)", true),
    ("the message of a step's error", "(call $fails-with (i32.const 1572) PTR LEN)", true),
    (
        "the name of a step's error",
        "(i32.store8 (i32.const 1560) (i32.const 1)) (call $fails-with (i32.const 1564) PTR LEN)",
        true,
    ),
    (
        "the details of a step's error",
        "(i32.store8 (i32.const 1580) (i32.const 1)) (call $fails-with (i32.const 1584) PTR LEN)",
        true,
    ),
    (
        "the name of a cause",
        "(i32.store8 (i32.const 8192) (i32.const 1)) (i32.store (i32.const 8196) PTR) (i32.store (i32.const 8200) LEN) \
         (call $fails-with (i32.const 1592) (i32.const 8192) (i32.const 1))",
        true,
    ),
    (
        "the message of a cause",
        "(i32.store (i32.const 8204) PTR) (i32.store (i32.const 8208) LEN) \
         (call $fails-with (i32.const 1592) (i32.const 8192) (i32.const 1))",
        true,
    ),
    ("the causes of a step's error", "(call $fails-with (i32.const 1592) PTR LEN)", false),
    ("the method of a request", "(call $sends-with (i32.const 1544) PTR LEN)", true),
    ("the URL of a request", "(call $sends-with (i32.const 1552) PTR LEN)", true),
    ("the headers of a request", "(call $sends-with (i32.const 1560) PTR LEN)", false),
    (
        "the name of a header",
        "(call $pair PTR LEN (i32.const 2072) (i32.const 1)) (call $sends-with (i32.const 1560) (i32.const 8192) (i32.const 1))",
        true,
    ),
    (
        "the value of a header",
        "(call $pair (i32.const 2072) (i32.const 1) PTR LEN) (call $sends-with (i32.const 1560) (i32.const 8192) (i32.const 1))",
        true,
    ),
    (
        "the body of a request",
        "(i32.store8 (i32.const 1568) (i32.const 1)) (call $sends-with (i32.const 1572) PTR LEN)",
        false,
    ),
    (
        "the key of a request",
        "(i32.store8 (i32.const 1600) (i32.const 4)) (call $sends-with (i32.const 1604) PTR LEN)",
        true,
    ),
    (
        "the label of a request",
        "(i32.store8 (i32.const 1612) (i32.const 1)) (call $sends-with (i32.const 1616) PTR LEN)",
        true,
    ),
    ("the statuses of a request", "(call $sends-with (i32.const 1624) PTR LEN)", false),
    ("a line", "(call $log (i32.const 2) PTR LEN (i32.const 0) (i32.const 0) (i32.const 0))", true),
    ("a line's data", "(call $log (i32.const 2) (i32.const 2072) (i32.const 1) (i32.const 1) PTR LEN)", true),
    ("a status text", "(call $set-status PTR LEN)", true),
];

/// A call of a command whose answer, or whose arguments, are at `AT`.
const PLACES: &[(&str, &str)] = &[
    ("the answer to a step", "(call $step-begin (i32.const 1024) AT)"),
    ("the options of a step", "(call $step-begin AT (i32.const 256))"),
    ("the answer to a sleep", "(call $sleep (i64.const 1) AT)"),
    ("the answer to a wait", "(call $wait-event (i32.const 2072) (i32.const 1) (i32.const 0) (i64.const 0) AT)"),
    ("the answer to a child", "(call $start-run (i32.const 2072) (i32.const 1) NULL NONE AT)"),
    (
        "the answer to an event",
        "(call $send-event (i32.const 2072) (i32.const 1) (i32.const 2072) (i32.const 1) NULL AT)",
    ),
    ("the answer to going on", "(call $continue-as-new NULL AT)"),
    ("the answer to a close", "(call $close (i32.const 0) AT)"),
    ("the answer to a finish", "(call $step-finish (i32.const 1536) AT)"),
    ("what finishes an attempt", "(call $step-finish AT (i32.const 256))"),
    ("the answer to a request", "(call $http-send (i32.const 1536) AT)"),
    ("a request", "(call $http-send AT (i32.const 256))"),
    ("the answer to a delay", "(call $delay (i32.const 0) (i32.const 1) (i64.const 1) AT)"),
    ("the run's id", "(call $run-id AT)"),
    (
        "an event",
        "(call $sleep (i64.const 0) (i32.const 256)) (call $delay (i32.const 0) (i32.load (i32.const 524)) (i64.const 0) (i32.const 256)) \
         (call $blocking-next AT)",
    ),
];

/// What those need beside.
const WORDS: &str = r#"
(data (i32.const 4000) "\ff\fe")
(data (i32.const 4008) "a\80")
(func $fails-with (param $at i32) (param $text i32) (param $length i32)
  (i32.store8 (i32.const 1544) (i32.const 1))
  (i32.store (local.get $at) (local.get $text))
  (i32.store offset=4 (local.get $at) (local.get $length))
  (call $step-finish (i32.const 1536) (i32.const 256)))
(func $pair (param i32 i32 i32 i32)
  (i32.store (i32.const 8192) (local.get 0))
  (i32.store (i32.const 8196) (local.get 1))
  (i32.store (i32.const 8200) (local.get 2))
  (i32.store (i32.const 8204) (local.get 3)))
(func $starts-tagged (param $list i32) (param $length i32)
  (call $start-run (i32.const 2072) (i32.const 1) (i32.const 2056) (i32.const 4)
    (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (local.get $list) (local.get $length) (i32.const 256)))
(func $sends-with (param $at i32) (param $text i32) (param $length i32)
  (i32.store (local.get $at) (local.get $text))
  (i32.store offset=4 (local.get $at) (local.get $length))
  (call $http-send (i32.const 1536) (i32.const 256)))
"#;

const NULL: &str = "(i32.const 2056) (i32.const 4)";
const NONE: &str = "(i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0)";

/// Both guests of a call: what it leads to is a trap.
fn trapping(what: &str, call: &str) -> [Guest; 2] {
    let evil = format!("{WORDS}\n(func $evil {})", call.replace("NULL", NULL).replace("NONE", NONE));
    let guest = |in_a_body: bool, verdict: &str| Guest {
        name: format!("{what}{}", if in_a_body { " in a body" } else { "" }),
        verdict: verdict.to_owned(),
        also: Vec::new(),
        component: Ok(doing(&evil, in_a_body)),
    };
    [guest(false, "failed workflows.trap"), guest(true, "attempts workflows.trap workflows.trap")]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_and_lists_that_are_not_in_memory() {
    let mut guests = Vec::new();
    for (what, call, _) in TEXTS {
        for (how, text, length) in
            [("beyond the end", -8, 16), ("of 4 GiB", 65_536, -1), ("across the end", 0x3fff0, 64)]
        {
            let (text, length) = (format!("(i32.const {text})"), format!("(i32.const {length})"));
            guests.extend(trapping(&format!("{what}, {how}"), &call.replace("PTR", &text).replace("LEN", &length)));
        }
    }
    super::all_come_to_their_ends(guests).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn texts_that_are_no_utf_8() {
    let mut guests = Vec::new();
    for (what, call, _) in TEXTS.iter().filter(|(_, _, is_text)| *is_text) {
        for at in ["(i32.const 4000)", "(i32.const 4008)"] {
            guests.extend(trapping(&format!("{what}, {at}"), &call.replace("PTR", at).replace("LEN", "(i32.const 2)")));
        }
    }
    super::all_come_to_their_ends(guests).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn arguments_and_answers_that_are_not_in_memory() {
    let mut guests = Vec::new();
    for (what, call) in PLACES {
        for (how, at) in [("beyond the end", -16), ("across the end", 0x3fffc), ("not aligned", 0x10001)] {
            // A text's place is aligned to its address and length alone.
            guests.extend(trapping(&format!("{what}, {how}"), &call.replace("AT", &format!("(i32.const {at})"))));
        }
    }
    super::all_come_to_their_ends(guests).await;
}
