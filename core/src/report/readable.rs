//! Errors with a readable `Debug`.

/// Implements `Debug` with the text of `Display`.
///
/// A `main` that returns an error prints it with `Debug`, and so do `unwrap` and `expect`. Every public error type of
/// the workspace is listed in such a call, so that all of them print one line with the problem and advice.
#[doc(hidden)]
#[macro_export]
macro_rules! readable_errors {
    ($($error:ty),+ $(,)?) => {$(
        impl ::core::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                ::core::fmt::Display::fmt(self, f)
            }
        }
    )+};
}
