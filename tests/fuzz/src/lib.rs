//! Fuzz targets: functions that take bytes and panic where something does not hold.
//!
//! The tests run each for a number of seeded inputs and for every file of its corpus; `fuzz/` runs the same functions under
//! libFuzzer. Nothing here knows which of the two it is. An input is read through `arbitrary`, so that every input is a case.

pub mod entries;
pub mod journal;
pub mod keys;
pub mod machine;
pub mod policy;
pub mod recovery;
pub mod retry;

#[cfg(feature = "host")]
pub mod http;
#[cfg(feature = "host")]
pub mod module;
#[cfg(feature = "host")]
pub mod reach;

/// A target: its name, which is also its corpus's folder and its binary in `fuzz/`, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: &[Target] = &[
    ("journal", journal::journal),
    ("machine", machine::machine),
    ("recovery", recovery::recovery),
    ("retry", retry::retry),
    ("policy", policy::policy),
    ("keys", keys::keys),
    #[cfg(feature = "host")]
    ("http", http::http),
    #[cfg(feature = "host")]
    ("module", module::module),
    #[cfg(feature = "host")]
    ("reach", reach::reach),
];
