//! Errors that a person can read wherever they are shown.

/// Has `Debug` write the line that `Display` writes.
///
/// A `main` that returns an error shows it by `Debug`, and so do `unwrap` and `expect`. Every public error type of the
/// workspace is listed in such a call, so that all of them show one line that says what is wrong and what to do.
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
