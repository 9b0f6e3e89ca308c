//! What the tests in `tests/` share.
