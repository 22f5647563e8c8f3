//! Black-box tests: the programs as their users have them.

mod cli;
mod determinism;
mod effects;
mod examples;
mod hostile;
mod interrupts;
mod journals;
mod kill;
mod layers;
mod limits;
mod replay;
mod runs;
mod rust_guests;
mod sdk;
mod time;
