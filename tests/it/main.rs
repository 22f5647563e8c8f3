//! Black-box tests: the programs as their users have them.

mod cli;
mod determinism;
mod effects;
mod interrupts;
mod journals;
mod kill;
mod layers;
mod limits;
mod replay;
mod runs;
mod steps;
mod time;
