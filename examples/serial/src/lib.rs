//! A transport for devices with a serial line and no network. Requests and responses are sent in frames, and a program
//! at the other end of the line sends the requests to the API server.
//!
//! The line may lose, change and insert bytes. A frame has a checksum, and a frame with a wrong checksum is ignored.
//! The device requests every piece by number, and repeats the request until the piece arrives:
//!
//! ```text
//! device                                         host
//! ASK  7, 0  /api/v1/pods?limit=32 …  ──────>    sends the request
//!                                     <──────    NOTHING 7, 0   (received; it takes a while)
//!                                     <──────    HEAD 7, 0  200
//! MORE 7, 1                           ──────>
//!                                     <──x───    DATA 7, 1  {"kind":"PodLi…     (lost)
//! MORE 7, 1   after a second          ──────>
//!                                     <──────    DATA 7, 1  {"kind":"PodLi…
//! MORE 7, 2                           ──────>
//!                                     <──────    END  7, 2
//! ```
//!
//! So the host stores one piece and has only one timer, a device that reads slowly applies backpressure to the server,
//! and either end detects a restart of the other one: it responds to unknown numbers with GONE.
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

pub use device::{SerialBody, SerialError, SerialLine, SerialProblem, SerialTransport};
