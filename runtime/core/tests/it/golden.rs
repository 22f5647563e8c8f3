//! Runs played by hand, each compared with a journal that a person has read. One test, one rule.

mod asked;
mod charge;
mod effects;
mod ends;
mod events;
mod mismatch;
mod order;
mod others;
mod recovery;
mod reran;
mod resolved;
mod restored;
mod restored_retried;
mod retried;
mod retried_others;
mod retried_resolved;
mod steps;
mod unknown;
