//! The members of a list other than its items.

use super::listed::{ListKind, is_group_version};
use super::run::Run;
use crate::json::{as_str, value_at};
use crate::object::ResourceVersion;
use crate::resource::Resource;
use crate::storage::Storage;
#[cfg(feature = "protobuf")]
use crate::wire::protobuf;
use crate::wire::{Appender, Format, FrameBuffer as _, ListMember};

impl<S: Storage> Run<S> {
    /// Reads a member of a list other than its items. Fails if a token is too long: a truncated token would request
    /// another page, or none.
    pub(super) fn envelope(
        &mut self,
        resource: &Resource<'_>,
        name: ListMember,
        format: Format,
        json: &[u8],
    ) -> core::fmt::Result {
        #[cfg(feature = "protobuf")]
        if format == Format::Protobuf {
            return self.envelope_in_protobuf(resource, name, json);
        }
        #[cfg(not(feature = "protobuf"))]
        let _ = format;
        match name {
            ListMember::Kind => {
                let kind = as_str(json).unwrap_or_default();
                self.list.kind = ListKind::of(resource, kind);
            }
            ListMember::ApiVersion => {
                let version = as_str(json).and_then(|version| version.as_plain());
                self.list.is_of_resource =
                    version.is_some_and(|version| is_group_version(resource, version));
            }
            ListMember::Metadata => {
                let text = |name| value_at(json, &[name]).and_then(as_str).unwrap_or_default();
                self.list.is_unnamed = text("name").is_empty();
                if self.pages == 0 {
                    self.version = ResourceVersion::from_json(text("resourceVersion"));
                }
                self.token.clear();
                text("continue").write_to(&mut Appender(&mut self.token))?;
            }
            ListMember::Status
            | ListMember::Message
            | ListMember::Reason
            | ListMember::Code
            | ListMember::Details
            | ListMember::TypeMeta => {}
        }
        Ok(())
    }

    #[cfg(feature = "protobuf")]
    fn envelope_in_protobuf(
        &mut self,
        resource: &Resource<'_>,
        name: ListMember,
        message: &[u8],
    ) -> core::fmt::Result {
        if name == ListMember::TypeMeta {
            let types = protobuf::TypeMeta::parse(message);
            self.list.kind = ListKind::of(resource, types.kind);
            let version = types.api_version.as_plain();
            self.list.is_of_resource =
                version.is_some_and(|version| is_group_version(resource, version));
            // A single object has no items, and an unnamed list is certain only by its kind.
            self.list.is_unnamed = true;
            return Ok(());
        }
        let listed = protobuf::Listed::parse(message);
        if self.pages == 0 {
            self.version = ResourceVersion::from_json(listed.version);
        }
        self.token.clear();
        listed.token.write_to(&mut Appender(&mut self.token))
    }
}
