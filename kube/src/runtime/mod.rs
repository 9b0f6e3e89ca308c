//! Replacements for items of `kube::runtime`, at the same paths: a program changes the beginning of its imports.
//!
//! The watcher of this crate has kube's signatures, events and errors, and is correct where kube's is not.

#[cfg(feature = "controller")]
mod controller;
pub mod reflector;
pub mod watcher;

#[cfg(feature = "controller")]
pub use controller::Controller;
pub use reflector::reflector;
pub use watcher::{metadata_watcher, watcher};
