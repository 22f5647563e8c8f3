//! A small shop over HTTP: it reserves, charges, makes labels and queues e-mails, deduplicated by `Idempotency-Key`.
//!
//! It is there to be talked to by workflows and to behave badly when told: it answers 429, 503 and 504, hangs, drops
//! connections and kills the process under test, each at an exact point of an exchange (`faults`). Everything that it sees is
//! in its record (`record`), which says whether an operation was stored twice. It keeps its state in memory, knows
//! HTTP/1.1 with `Content-Length` only, and is no part of Stepwell's binary.

mod exchange;
mod faults;
mod http;
mod record;
mod server;
mod store;
mod victim;

pub use faults::{Action, Fault, Point};
pub use record::{Entry, Verdict};
pub use server::{Options, serve};
