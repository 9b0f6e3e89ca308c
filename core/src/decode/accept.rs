//! The `Accept` header: what a decoder can read.

/// The formats and the parts of objects that a decoder reads. The reflector requests these.
///
/// ```
/// use informer_core::decode::Accept;
///
/// // Complete objects in JSON.
/// let accept = Accept::default();
/// // Metadata alone.
/// let metadata = Accept::metadata();
/// assert_ne!(accept, metadata);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Accept {
    metadata: bool,
    protobuf: Protobuf,
    /// managedFields need not be sent.
    drops_managed_fields: bool,
}

/// Whether protobuf is requested.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Protobuf {
    #[default]
    No,
    Preferred,
    Only,
}

impl Accept {
    /// Requests only the metadata of objects. Old and aggregated API servers may send complete objects nevertheless.
    #[must_use]
    pub const fn metadata() -> Self {
        Self {
            metadata: true,
            protobuf: Protobuf::No,
            drops_managed_fields: false,
        }
    }

    /// Prefers protobuf, and accepts JSON, in which custom resources are served.
    #[cfg(feature = "protobuf")]
    #[must_use]
    pub const fn protobuf(self) -> Self {
        Self {
            protobuf: Protobuf::Preferred,
            ..self
        }
    }

    /// Accepts nothing but protobuf.
    #[cfg(feature = "protobuf")]
    #[must_use]
    pub const fn only_protobuf(self) -> Self {
        Self {
            protobuf: Protobuf::Only,
            ..self
        }
    }

    /// Sets whether the server may omit managedFields. Servers before Kubernetes 1.38 send them nevertheless.
    pub(crate) const fn drop_managed_fields(self, drops_managed_fields: bool) -> Self {
        Self {
            drops_managed_fields,
            ..self
        }
    }

    /// Returns the same without protobuf and without parameters, as client-go requests it.
    pub(crate) const fn plain(self) -> Self {
        Self {
            metadata: self.metadata,
            protobuf: match self.protobuf {
                Protobuf::Only => Protobuf::Only,
                Protobuf::No | Protobuf::Preferred => Protobuf::No,
            },
            drops_managed_fields: false,
        }
    }

    pub(crate) fn accepts_protobuf(self) -> bool {
        self.protobuf != Protobuf::No
    }

    pub(crate) fn accepts_json(self) -> bool {
        self.protobuf != Protobuf::Only
    }

    /// Returns what to request after the server rejected this with the HTTP status `status`: the same without the
    /// parameter or without protobuf. `None` if neither may be the cause.
    pub(crate) fn simpler(self, status: u16) -> Option<Self> {
        if self.drops_managed_fields && matches!(status, 400 | 406) {
            Some(self.drop_managed_fields(false))
        } else if self.protobuf == Protobuf::Preferred && matches!(status, 406 | 415) {
            Some(Self {
                protobuf: Protobuf::No,
                ..self
            })
        } else {
            None
        }
    }

    /// Returns the header for a list or for a watch.
    pub(crate) const fn header(self, watch: bool) -> &'static str {
        macro_rules! clauses {
            ($parameters:literal, $json:literal) => {
                match self.protobuf {
                    Protobuf::No => concat!("application/json", $parameters, $json),
                    Protobuf::Preferred => concat!(
                        "application/vnd.kubernetes.protobuf",
                        $parameters,
                        ",application/json",
                        $parameters,
                        $json
                    ),
                    Protobuf::Only => concat!("application/vnd.kubernetes.protobuf", $parameters),
                }
            };
        }
        match (self.metadata, watch, self.drops_managed_fields) {
            (false, _, false) => clauses!("", ""),
            (false, _, true) => clauses!(";drop=metadata.managedFields", ""),
            (true, false, false) => clauses!(
                ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
                ",application/json"
            ),
            (true, false, true) => clauses!(
                ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields",
                ",application/json"
            ),
            (true, true, false) => clauses!(
                ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                ",application/json"
            ),
            (true, true, true) => clauses!(
                ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1;drop=metadata.managedFields",
                ",application/json"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_last() {
        let accept = Accept::default();
        assert_eq!(accept.header(false), "application/json");
        assert_eq!(
            Accept::metadata().header(true),
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        );
        #[cfg(feature = "protobuf")]
        {
            assert_eq!(
                accept.protobuf().drop_managed_fields(true).header(true),
                "application/vnd.kubernetes.protobuf;drop=metadata.managedFields,application/json;drop=metadata.managedFields"
            );
            assert_eq!(
                accept.only_protobuf().header(false),
                "application/vnd.kubernetes.protobuf"
            );
        }
    }

    #[test]
    fn a_rejected_request_becomes_simpler_until_nothing_is_left_to_remove() {
        let accept = Accept::metadata().drop_managed_fields(true);
        #[cfg(feature = "protobuf")]
        let accept = accept.protobuf();
        for status in [400, 406, 415] {
            let mut accept = accept;
            let mut steps = 0;
            while let Some(simpler) = accept.simpler(status) {
                accept = simpler;
                steps += 1;
            }
            let expected = match status {
                406 if cfg!(feature = "protobuf") => 2,
                415 if !cfg!(feature = "protobuf") => 0,
                _ => 1,
            };
            assert_eq!(steps, expected, "{status}");
        }
        assert_eq!(accept.simpler(404), None);
    }
}
