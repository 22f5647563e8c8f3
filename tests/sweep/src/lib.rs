//! The crash sweep: Stepwell over the real stack (WebAssembly, SQLite, HTTP over loopback) dies at every point of a run, and the run
//! must come out as if it had not.
//!
//! ```text
//!   first pass: a run without a death ──> its points (`fate`) ──> second pass: a case for each (`sweep`, `case`)
//!   a case: life 1 dies at the point ──> life 2 recovers, may die too ──> ... ──> the end ──> `judge`
//!
//!   engine ──> `mortal` ledger ──> SQLite          points before and after each commit
//!      └─────> `gate` ──> shop or `world`          points at each moment of a request
//! ```
//!
//! The process dies by seams of the engine that the feature `sweep` compiles in. Killed processes (`soak`) and lost power (`power`) need
//! no seam.

pub mod case;
pub mod fate;
pub mod gate;
pub mod judge;
pub mod life;
pub mod mortal;
#[cfg(feature = "sweep")]
pub mod plant;
pub mod power;
pub mod script;
pub mod soak;
pub mod stories;
pub mod subject;
pub mod sweep;
pub mod table;
pub mod wire;
pub mod world;
