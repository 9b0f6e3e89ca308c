//! What the API server sends: lists, watch events, object metadata and errors.
//!
//! - `frame`: finds the items of a list and the events of a watch in a response body.
//! - `identity`: what identifies an object that is too large for a frame.
//! - `message`: what an answer with an error says.
//! - `object`: identity of one object, type of one event.
//! - `status`: the `Status` kind, and what an error means to a list-watch client.

mod frame;
mod identity;
mod message;
mod object;
mod status;

pub use frame::{FrameBuffer, FrameProblem, Framer, FramerMode, ListMember, Piece};
pub use identity::Identity;
pub(crate) use message::message;
pub use object::{EventType, ObjectHead, WatchEvent};
pub use status::{Cause, ErrorClass, Status, classify};
