//! Black-box tests: the programs as their users have them.

mod effects;
mod kill;
