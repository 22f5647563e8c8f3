//! The ordered record of a run: its entries, how they are written, and how people read them.

pub mod codec;
pub mod entry;
pub mod mismatch;
pub mod print;
