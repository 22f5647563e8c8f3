//! Black-box tests: the programs as their users have them.

mod api_access;
mod api_asks;
mod api_connections;
mod api_faults;
mod api_keys;
mod api_kill;
mod api_modules;
mod api_runs;
mod api_tokens;
mod api_values;
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
mod steps;
mod time;
