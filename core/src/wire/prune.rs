//! Removing parts of an object in either format.

use alloc::vec::Vec;

use super::Format;
use crate::json::Prune;

impl Prune {
    /// Appends the object, in JSON or protobuf, without the removed parts. It must be well-formed; the rest from an
    /// error on is copied unchanged.
    pub fn copy(&self, object: &[u8], out: &mut Vec<u8>) {
        match Format::of_object(object) {
            #[cfg(feature = "protobuf")]
            Format::Protobuf => self.copy_protobuf(object, out),
            _ => self.copy_json(object, out),
        }
    }

    /// Calls `with` with the object without the removed parts. If nothing is removed, that is `object` itself.
    pub fn lend(&self, object: &[u8], with: &mut dyn FnMut(&[u8])) {
        if self.is_nothing() {
            return with(object);
        }
        let mut kept = Vec::new();
        self.copy(object, &mut kept);
        with(&kept);
    }
}
