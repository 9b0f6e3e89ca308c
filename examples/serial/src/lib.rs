//! A transport for devices with a serial line and no network. Requests and responses are sent in frames, and a program
//! at the other end of the line sends the requests to the API server.
//!
//! The device sends a numbered frame, and the host answers it with one frame of the same number. Nothing else is sent,
//! so the device gets the next part of a response when it has room for it, and the server is held back until then:
//!
//! ```text
//! device                                         host
//! ASK  7  /api/v1/pods?limit=32 …  ──────>       sends the request
//!                                  <──────       NOTHING 7   (the server takes more than a second)
//! MORE 8                           ──────>
//!                                  <──────       HEAD 8  200
//! MORE 9                           ──────>
//!                                  <──────       DATA 9  {"kind":"PodLi…
//! MORE 10                          ──────>
//!                                  <──────       END 10
//! ```
//!
//! The line may lose, change and insert bytes. A frame with a wrong checksum is ignored, like an answer with another
//! number. Nothing is sent twice: if the answer to a frame does not arrive within five seconds, the request has failed,
//! and the informer repeats it or resumes its watch. The host continues a response only with the next number, and
//! refuses any other, also after its restart. It abandons a response when the device asks for another one, stops it, or
//! is silent for a minute.
//!
//! - [`frame`]: converts between bytes and frames.
//! - [`message`]: the content of a frame.
//! - [`device`]: the transport. It has no allocator and one request at a time, so a line serves one informer.
//! - [`host`] (feature `host`): the other end, over any other transport. The program `serial_proxy` uses HTTP.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "host", test))]
extern crate std;

pub mod device;
pub mod frame;
#[cfg(feature = "host")]
pub mod host;
pub mod message;

pub use device::{SerialBody, SerialError, SerialLine, SerialTransport};
