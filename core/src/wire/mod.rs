//! The wire format of the API server: lists, watch events, object metadata and errors.
//!
//! - `buffer`: buffers of fixed or growing size.
//! - `format`: JSON or protobuf.
//! - `frame`: finds the items of a list and the events of a watch in a response body.
//! - `identity`: the identity of an object that is too large for a frame.
//! - `message`: the message of an error response.
//! - `object`: the identity of one object, and the type of one event.
//! - `problem`: the reasons why a frame is unusable.
//! - `protobuf`: the same for Kubernetes' protobuf.
//! - `prune`: removing parts of an object.
//! - `status`: the `Status` kind, and the class of an error for a list-watch client.

mod buffer;
mod format;
mod frame;
mod identity;
mod message;
mod object;
mod problem;
#[cfg(feature = "protobuf")]
pub mod protobuf;
#[cfg(feature = "alloc")]
mod prune;
mod status;

pub(crate) use buffer::Appender;
pub use buffer::FrameBuffer;
pub use format::Format;
pub use frame::{Framer, FramerMode, ListMember, Piece};
pub use identity::ObjectIdentity;
pub(crate) use message::message;
pub use object::WatchEvent;
pub(crate) use object::{EventType, ObjectHead};
pub use problem::FrameProblem;
pub use status::ErrorClass;
pub(crate) use status::{Status, classify};
