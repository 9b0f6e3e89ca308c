//! A transport for devices that have a serial line and no network: requests go out in frames, answers come back in
//! frames, and a program at the other end of the line asks the API server.
//!
//! The line may lose bytes, change them and invent some. A frame has a checksum, and what does not fit is as if it had
//! not come. Everything is asked for by the device, by number, and asked for again until it is there:
//!
//! ```text
//! device                                         host
//! ASK  7, 0  /api/v1/pods?limit=32 …  ──────>    sends the request
//!                                     <──────    NOTHING 7, 0   (heard; it takes a while)
//!                                     <──────    HEAD 7, 0  200
//! MORE 7, 1                           ──────>
//!                                     <──x───    DATA 7, 1  {"kind":"PodLi…     (lost)
//! MORE 7, 1   after a second          ──────>
//!                                     <──────    DATA 7, 1  {"kind":"PodLi…
//! MORE 7, 2                           ──────>
//!                                     <──────    END  7, 2
//! ```
//!
//! So the host keeps one piece and has no timer but one, a device that reads slowly holds the server back, and whichever
//! end begins anew, the other one notices: numbers that it does not know are answered by GONE.
//!
//! - [`frame`]: bytes to frames and back.
//! - [`message`]: what is in a frame.
//! - [`device`]: the transport. It has no allocator, and one request at a time: a line is one informer's.
//! - [`host`] (feature `host`): the other end, over any other transport. The program `serial_proxy` is one over HTTP.
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
