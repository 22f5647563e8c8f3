//! Entries as they are written: what is written is read back, and what is no entry is refused.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use stepwell_core::contract::{EffectClass, Evidence};
use stepwell_core::error::{Cause, Code, Error, Retryability};
use stepwell_core::ids::{Digest, RunId, StepId};
use stepwell_core::journal::codec::{decode, encode};
use stepwell_core::journal::entry::{
    Asked, AttemptOutcome, ChildBegun, Dispatched, Entry, Next, Parent, Record, RecordedAnswer, Reply, Reran,
    Resolution, Restored, RunOutcome, Started, StepBegun,
};
use stepwell_core::journal::print::{Printer, Times};
use stepwell_core::json::Json;
use stepwell_core::policy::retry::RetryPolicy;

/// Texts that have broken writers and readers before, and any others.
fn texts() -> impl Strategy<Value = String> {
    const STRANGE: &[&str] =
        &["", "\u{0}", "a\u{0}b", "\"", "\\", "\\u0000", "😀", "\u{feff}", "\u{2028}", "\r\n", "null", "{}", "é"];
    prop_oneof![proptest::sample::select(STRANGE).prop_map(String::from), any::<String>(), "[ -~]{0,40}"]
}

/// JSON texts; `null` is left out where an absent value could not be told from it.
fn jsons() -> impl Strategy<Value = Json> {
    const RAW: &[&str] = &[
        "1e400",
        "-0",
        "0.10",
        "1E+2",
        "9007199254740993",
        "12345678901234567890123",
        "\"\\u0000\"",
        "[ 1 , 2 ]",
        "{\n \"a\" : 1 }",
        "\"\\ud83d\\ude00\"",
        "{\"a\":1,\"a\":2}",
        "true",
        "[]",
        "{}",
        "\"null\"",
    ];
    let raw = proptest::sample::select(RAW).prop_map(|text| Json::parse(text).unwrap());
    let text = texts().prop_map(|text| Json::from(&serde_json::Value::String(text)));
    let deep = (1..400_usize).prop_map(|n| Json::parse(&format!("{}{}", "[".repeat(n), "]".repeat(n))).unwrap());
    prop_oneof![4 => raw, 4 => text, 1 => deep]
}

fn errors() -> impl Strategy<Value = Error> {
    let causes = vec((option::of(texts()), texts()).prop_map(|(name, message)| Cause { name, message }), 0..3);
    let flag =
        prop_oneof![Just(Retryability::Retry), Just(Retryability::Never), any::<u64>().prop_map(Retryability::AfterMs)];
    (texts(), option::of(texts()), texts(), option::of(jsons()), causes, flag, any::<bool>()).prop_map(
        |(code, name, message, details, causes, retryability, outcome_unknown)| Error {
            code,
            name,
            message,
            details,
            causes,
            retryability,
            outcome_unknown,
        },
    )
}

fn policies() -> impl Strategy<Value = RetryPolicy> {
    (1..=100_u32, any::<u64>(), 1..=86_400_000_u64, 1.0..=10.0_f64, 0.0..=1.0_f64).prop_map(
        |(max_attempts, initial_ms, max_ms, multiplier, jitter)| RetryPolicy {
            max_attempts,
            initial_ms,
            max_ms,
            multiplier,
            jitter,
        },
    )
}

fn classes() -> impl Strategy<Value = EffectClass> {
    proptest::sample::select(&[EffectClass::Repeatable, EffectClass::Keyed, EffectClass::Once][..])
}

fn commands() -> impl Strategy<Value = Record> {
    let started = (texts(), texts(), texts(), jsons(), policies(), option::of(any::<u64>()), option::of(any::<u64>()));
    let begun = (any::<u32>(), texts(), any::<u32>(), policies(), any::<u64>(), classes(), any::<u64>());
    prop_oneof![
        (started, option::of((texts(), any::<u32>())), option::of(texts())).prop_map(|(started, parent, continues)| {
            let (run, workflow, digest, input, retry, step_timeout_ms, deadline_ms) = started;
            let (run, digest) = (RunId::new(run), Digest::of(digest.as_bytes()));
            let parent = parent.map(|(run, depth)| Parent { run: RunId::new(run), depth });
            let continues = continues.map(RunId::new);
            Record::Started(Started {
                run,
                workflow,
                digest,
                input,
                retry,
                step_timeout_ms,
                deadline_ms,
                parent,
                continues,
            })
        }),
        begun.prop_map(|(op, name, occurrence, retry, timeout_ms, effect, key_ttl_ms)| {
            let step = StepId { name, occurrence };
            Record::StepBegun(StepBegun { op, step, retry, timeout_ms, effect, key_ttl_ms })
        }),
        any::<(u32, u64, u64)>().prop_map(|(op, ms, due_ms)| Record::SleepBegun { op, ms, due_ms }),
        (any::<u32>(), texts(), option::of(any::<u64>())).prop_map(|(op, name, due_ms)| Record::WaitBegun {
            op,
            name,
            due_ms
        }),
        (any::<u32>(), texts(), texts(), jsons()).prop_map(|(op, to, name, payload)| Record::SendBegun {
            op,
            to: RunId::new(to),
            name,
            payload
        }),
        (any::<(u32, bool, bool)>(), texts(), texts(), jsons(), option::of(texts()), vec((texts(), texts()), 0..2))
            .prop_map(|((op, detached, abandoned), run, workflow, input, run_key, tags)| {
                let run = RunId::new(run);
                let child = ChildBegun { op, run, workflow, input, detached, abandoned, run_key, tags };
                Record::ChildBegun(Box::new(child))
            }),
        (any::<u32>(), texts()).prop_map(|(op, run)| Record::ChildBegunAgain { op, run: RunId::new(run) }),
        jsons().prop_map(|input| Record::ContinuedAsNew { input }),
        any::<u32>().prop_map(|op| Record::Closed { op }),
    ]
}

fn deliveries() -> impl Strategy<Value = Record> {
    prop_oneof![
        any::<u32>().prop_map(|op| Record::Delivered { op }),
        Just(Record::CancelDelivered),
        any::<u32>().prop_map(|op| Record::TimerFired { op }),
        any::<u32>().prop_map(|op| Record::WaitExpired { op }),
        (any::<u64>(), texts(), jsons()).prop_map(|(id, name, payload)| Record::EventArrived { id, name, payload }),
        (any::<u64>(), any::<u32>(), replies()).prop_map(|(id, op, reply)| Record::ReplyArrived { id, op, reply }),
        Just(Record::Resumed),
        texts().prop_map(|text| Record::Repinned { digest: Digest::of(text.as_bytes()) }),
    ]
}

fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![jsons().prop_map(Reply::Succeeded), errors().prop_map(Reply::Failed)]
}

fn resolutions() -> impl Strategy<Value = Resolution> {
    prop_oneof![
        jsons().prop_map(Resolution::Succeeded),
        errors().prop_map(Resolution::Failed),
        vec(any::<u32>(), 0..3).prop_map(|renewed| Resolution::Retry { renewed }),
    ]
}

fn asked() -> impl Strategy<Value = Record> {
    prop_oneof![
        (errors(), option::of(texts())).prop_map(|(error, by)| Record::CancelRequested { error, by }),
        (errors(), texts()).prop_map(|(error, by)| Record::TerminateRequested { error, by }),
        (texts(), texts()).prop_map(|(reason, by)| Record::Paused { reason, by }),
        texts().prop_map(|by| Record::Unpaused { by }),
        (any::<u64>(), texts(), texts()).prop_map(|(to, reason, by)| Record::Rewound { to, reason, by }),
        (texts(), texts(), any::<u64>(), option::of(any::<u64>()), texts()).prop_map(
            |(of, name, to, deadline_ms, by)| {
                let step = StepId { name, occurrence: 2 };
                let (of, digest, reason) = (RunId::new(of), Digest::of(b"m"), by.clone());
                Record::Reran(Box::new(Reran { of, step, to, digest, deadline_ms, reason, by }))
            }
        ),
        (texts(), any::<bool>(), texts()).prop_map(|(epoch, in_doubt, by)| Record::Restored(Restored {
            epoch,
            in_doubt,
            by
        })),
        (texts(), texts()).prop_map(|(evidence, by)| Record::NothingFollowed { evidence, by }),
        (any::<u32>(), resolutions(), texts(), texts()).prop_map(|(op, resolution, evidence, by)| Record::Resolved {
            op,
            resolution,
            evidence,
            by
        }),
    ]
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![texts().prop_map(String::into_bytes), vec(any::<u8>(), 0..64), Just(b"\0AAAA".to_vec())]
}

fn dispatches() -> impl Strategy<Value = Record> {
    let asked = (texts(), texts(), option::of(texts()), option::of(texts())).prop_map(|(method, url, label, body)| {
        Asked { method, url, label, body: body.map(|body| Digest::of(body.as_bytes())) }
    });
    (any::<(u32, u32, u32)>(), option::of(texts()), asked, vec(any::<u16>(), 0..3)).prop_map(
        |((op, n, effect), key, what, renew_on)| Record::Dispatched(Dispatched { op, n, effect, key, what, renew_on }),
    )
}

fn attempts() -> impl Strategy<Value = Record> {
    let evidence =
        prop_oneof![Just(Evidence::NotSent), Just(Evidence::Sent), any::<u16>().prop_map(Evidence::Answered)];
    let answer = (vec((texts(), texts()), 0..3), bodies()).prop_map(|(headers, body)| RecordedAnswer { headers, body });
    let next = prop_oneof![
        any::<(u64, bool)>().prop_map(|(due_ms, alone)| Next::Retry { due_ms, alone }),
        Just(Next::GiveUp),
        Just(Next::Unknown)
    ];
    let outcome = prop_oneof![
        jsons().prop_map(AttemptOutcome::Succeeded),
        Just(AttemptOutcome::Succeeded(Json::null())),
        (errors(), next).prop_map(|(error, next)| AttemptOutcome::Failed { error, next }),
    ];
    let run = prop_oneof![
        jsons().prop_map(RunOutcome::Succeeded),
        errors().prop_map(RunOutcome::Failed),
        errors().prop_map(RunOutcome::Cancelled),
        errors().prop_map(RunOutcome::Terminated),
        texts().prop_map(|run| RunOutcome::Continued(RunId::new(run)))
    ];
    prop_oneof![
        any::<(u32, u32, u64)>().prop_map(|(op, n, deadline_ms)| Record::AttemptStarted { op, n, deadline_ms }),
        (any::<(u32, u32)>(), outcome).prop_map(|((op, n), outcome)| Record::AttemptEnded { op, n, outcome }),
        (any::<(u32, u32)>(), evidence, option::of(answer))
            .prop_map(|((op, effect), evidence, answer)| Record::Settled { op, effect, evidence, answer }),
        (run, any::<bool>()).prop_map(|(outcome, returned)| Record::Ended { outcome, returned }),
    ]
}

fn entries() -> impl Strategy<Value = Entry> {
    let records = prop_oneof![commands(), deliveries(), asked(), dispatches(), attempts()];
    (any::<u64>(), records).prop_map(|(at_ms, record)| Entry { at_ms, record })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_is_written_is_read_back(entry in entries()) {
        let bytes = encode(&entry);
        prop_assert_eq!(bytes[0], b'1');
        prop_assert!(std::str::from_utf8(&bytes).is_ok());
        let read = decode(3, &bytes).map_err(|e| TestCaseError::fail(e.to_string()))?;
        prop_assert_eq!(&read, &entry);
        prop_assert_eq!(encode(&read), bytes);
    }

    #[test]
    fn a_torn_entry_is_refused(entry in entries(), at: prop::sample::Index) {
        let bytes = encode(&entry);
        let error = decode(7, &bytes[..at.index(bytes.len())]).expect_err("a part of an entry");
        prop_assert_eq!(error.seq, 7);
        prop_assert!(error.to_string().contains("entry 7"));
    }

    #[test]
    fn an_entry_with_something_behind_it_is_refused(entry in entries(), behind in "[0-9a-z{\"]{1,8}") {
        let mut bytes = encode(&entry);
        bytes.extend(behind.as_bytes());
        prop_assert!(decode(0, &bytes).is_err());
    }

    #[test]
    fn bytes_that_are_no_entry_are_refused(bytes in vec(any::<u8>(), 0..64), behind in vec(any::<u8>(), 0..64)) {
        prop_assert!(decode(0, &bytes).is_err());
        let mut versioned = b"1".to_vec();
        versioned.extend(behind);
        prop_assert!(decode(0, &versioned).is_err());
    }

    #[test]
    fn a_changed_byte_is_no_panic(entry in entries(), at: prop::sample::Index, byte: u8) {
        let mut bytes = encode(&entry);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(read) = decode(0, &bytes) {
            let again = encode(&read);
            prop_assert_eq!(encode(&decode(0, &again).unwrap()), again);
        }
    }

    #[test]
    fn another_version_is_refused_by_name(entry in entries(), version: u8) {
        prop_assume!(version != b'1');
        let mut bytes = encode(&entry);
        bytes[0] = version;
        prop_assert!(decode(0, &bytes).unwrap_err().reason.contains("version"));
    }

    #[test]
    fn an_entry_is_one_line_for_people(entries in vec(entries(), 1..8)) {
        for times in [Times::Relative, Times::Hidden] {
            let text = Printer::print(&entries, times);
            prop_assert_eq!(text.lines().count(), entries.len());
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}

#[test]
fn numbers_keep_their_spelling_in_the_journal() {
    for text in ["1e400", "-0", "0.10", "9007199254740993", "[1.0,1.00]", "{\"b\":1,\"a\":2}"] {
        let outcome = AttemptOutcome::Succeeded(Json::parse(text).unwrap());
        let entry = Entry { at_ms: 1, record: Record::AttemptEnded { op: 0, n: 1, outcome } };
        let bytes = encode(&entry);
        assert!(std::str::from_utf8(&bytes).unwrap().contains(text), "{text}");
        assert_eq!(decode(0, &bytes).unwrap(), entry);
    }
}

/// What a released version has written is read for ever.
#[test]
fn a_rerun_is_written_like_this() {
    let reran = Reran {
        of: RunId::new("run_1"),
        step: StepId { name: "charge".into(), occurrence: 2 },
        to: 4,
        digest: Digest::from_text("d"),
        deadline_ms: Some(9),
        reason: "again".into(),
        by: "ana".into(),
    };
    let entry = Entry { at_ms: 5, record: Record::Reran(Box::new(reran)) };
    let text = r#"1{"t":5,"e":{"reran":{"of":"run_1","step":{"name":"charge","occurrence":2},"to":4,"digest":"d","deadline_ms":9,"reason":"again","by":"ana"}}}"#;
    assert_eq!(String::from_utf8(encode(&entry)).unwrap(), text);
    assert_eq!(decode(0, text.as_bytes()).unwrap(), entry);
}

/// What a released version has written is read for ever.
#[test]
fn what_is_done_on_other_runs_is_written_like_this() {
    let payload = Json::parse("{\"n\":1}").unwrap();
    let sent = Record::SendBegun { op: 3, to: RunId::new("run_2"), name: "paid".into(), payload };
    let child = ChildBegun {
        op: 3,
        run: RunId::new("run_2"),
        workflow: "ship".into(),
        input: Json::parse("[1]").unwrap(),
        detached: false,
        abandoned: false,
        run_key: None,
        tags: Vec::new(),
    };
    let detached = ChildBegun {
        detached: true,
        abandoned: true,
        run_key: Some("k".into()),
        tags: vec![("a".into(), "b".into())],
        ..child.clone()
    };
    let gone = Reply::Failed(Error::new(Code::RunEnded, "too late").never_retried());
    for (record, text) in [
        (sent, r#"1{"t":5,"e":{"send_begun":{"op":3,"to":"run_2","name":"paid","payload":{"n":1}}}}"#),
        (
            Record::ChildBegun(Box::new(child)),
            r#"1{"t":5,"e":{"child_begun":{"op":3,"run":"run_2","workflow":"ship","input":[1]}}}"#,
        ),
        (
            Record::ChildBegun(Box::new(detached)),
            r#"1{"t":5,"e":{"child_begun":{"op":3,"run":"run_2","workflow":"ship","input":[1],"detached":true,"abandoned":true,"run_key":"k","tags":[["a","b"]]}}}"#,
        ),
        (
            Record::ChildBegunAgain { op: 3, run: RunId::new("run_4") },
            r#"1{"t":5,"e":{"child_begun_again":{"op":3,"run":"run_4"}}}"#,
        ),
        (
            Record::ContinuedAsNew { input: Json::parse("[2]").unwrap() },
            r#"1{"t":5,"e":{"continued_as_new":{"input":[2]}}}"#,
        ),
        (
            Record::Ended { outcome: RunOutcome::Continued(RunId::new("run_3")), returned: true },
            r#"1{"t":5,"e":{"ended":{"outcome":{"continued":"run_3"},"returned":true}}}"#,
        ),
        (
            Record::ReplyArrived { id: 7, op: 3, reply: Reply::Succeeded(Json::null()) },
            r#"1{"t":5,"e":{"reply_arrived":{"id":7,"op":3,"reply":{"succeeded":null}}}}"#,
        ),
        (
            Record::ReplyArrived { id: 7, op: 3, reply: gone },
            r#"1{"t":5,"e":{"reply_arrived":{"id":7,"op":3,"reply":{"failed":{"code":"workflows.run_ended","message":"too late","retryability":"never"}}}}}"#,
        ),
    ] {
        let entry = Entry { at_ms: 5, record };
        assert_eq!(String::from_utf8(encode(&entry)).unwrap(), text);
        assert_eq!(decode(0, text.as_bytes()).unwrap(), entry);
    }
}

#[test]
fn a_field_of_a_later_program_is_passed_over() {
    let entry = decode(0, br#"1{"t":5,"e":{"timer_fired":{"op":3,"why":"late"}},"x":null}"#).unwrap();
    assert_eq!(entry, Entry { at_ms: 5, record: Record::TimerFired { op: 3 } });
}

#[test]
fn what_is_no_entry_is_refused_with_a_reason() {
    for (bytes, reason) in [
        (&b""[..], "empty"),
        (b"1", "EOF"),
        (b"1{}", "missing field"),
        (b"1null", "invalid type"),
        (b"2{\"t\":1,\"e\":\"resumed\"}", "version '2'"),
        (b"{\"t\":1,\"e\":\"resumed\"}", "version"),
        (b"1{\"t\":1,\"e\":\"unheard_of\"}", "unknown variant"),
        (b"1{\"t\":-1,\"e\":\"resumed\"}", "invalid value"),
        (b"1{\"t\":1,\"e\":{\"closed\":{\"op\":4294967296}}}", "invalid value"),
        (b"1{\"t\":1,\"t\":2,\"e\":\"resumed\"}", "duplicate field"),
    ] {
        let error = decode(9, bytes).unwrap_err();
        assert!(error.reason.contains(reason), "{error}");
        assert!(error.to_string().contains("entry 9"), "{error}");
    }
}
