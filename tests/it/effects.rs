//! Effects.
