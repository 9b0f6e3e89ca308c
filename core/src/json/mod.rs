//! JSON without building it: a resumable scanner for bytes as they arrive, and cheap views of bytes already scanned.
//!
//! - `scan`: validates a stream split at any place, and finds where values begin and end.
//! - `text`: what is between the quotes of a string.
//! - `members`: the members of one object, the elements of one array.
//! - `error`: what is wrong with input that is not JSON.

mod block;
#[cfg(feature = "serde_json")]
pub(crate) mod de;
mod error;
pub(crate) mod members;
#[cfg(feature = "alloc")]
pub(crate) mod prune;
pub(crate) mod scan;
mod text;

pub use error::{ScanError, ScanErrorKind};
pub use members::{Elements, Members, as_str, as_u64, value_at};
#[cfg(feature = "alloc")]
pub use prune::Prune;
pub use scan::{DEPTH_LIMIT, Scanner, Step};
pub use text::{JsonChars, JsonStr};
