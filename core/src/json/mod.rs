//! JSON without a tree: a resumable scanner for bytes as they arrive, and views of bytes that were scanned.
//!
//! - `scan`: validates a stream that is split at any byte, and finds where values begin and end.
//! - `text`: the content of a string.
//! - `members`: the members of one object, and the elements of one array.
//! - `error`: errors for invalid JSON.

mod block;
#[cfg(feature = "serde_json")]
pub(crate) mod de;
mod error;
pub(crate) mod members;
#[cfg(feature = "alloc")]
pub(crate) mod prune;
pub(crate) mod scan;
mod text;

pub use error::ScanError;
pub(crate) use error::ScanErrorKind;
pub use members::{Elements, Fields, as_str, as_u64, value_at};
#[cfg(feature = "alloc")]
pub use prune::Prune;
pub use scan::Scanner;
pub(crate) use scan::Stop;
pub use text::JsonStr;
