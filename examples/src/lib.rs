//! The examples are in `examples/`; this crate itself is empty.
