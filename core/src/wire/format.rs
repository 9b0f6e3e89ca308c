//! The formats in which an API server sends objects.

/// The format of an object or of a response.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum Format {
    /// JSON.
    #[default]
    Json,
    /// Kubernetes' protobuf.
    Protobuf,
}

impl Format {
    /// Returns the format of an object without an envelope, as [`RawObject::bytes`](crate::RawObject::bytes) returns it.
    ///
    /// The first byte decides. JSON is a brace, without white space before it: a line feed would be the first field of a
    /// message. As the first byte of a message, a brace would begin a group, which no Kubernetes type has, so such a message is
    /// rejected when it is received.
    ///
    /// ```
    /// # #[cfg(feature = "protobuf")] {
    /// use informer_core::wire::Format;
    ///
    /// assert_eq!(Format::of_object(br#"{"metadata":{"name":"web"}}"#), Format::Json);
    /// assert_eq!(Format::of_object(b"\x0a\x05\x0a\x03web"), Format::Protobuf);
    /// # }
    /// ```
    #[must_use]
    pub fn of_object(bytes: &[u8]) -> Self {
        let is_json = !cfg!(feature = "protobuf") || matches!(bytes.first(), None | Some(b'{'));
        if is_json { Self::Json } else { Self::Protobuf }
    }

    /// Returns the format that a `Content-Type` header states. Everything except protobuf is read as JSON.
    pub(crate) fn of_content_type(header: &str) -> Self {
        let media_type = header.split(';').next().unwrap_or_default().trim();
        if media_type.eq_ignore_ascii_case("application/vnd.kubernetes.protobuf") {
            Self::Protobuf
        } else {
            Self::Json
        }
    }

    /// Returns the format of a response that begins with this byte: the magic number of an object, or the length of an
    /// event. JSON begins with neither.
    pub(crate) const fn of_first_byte(byte: u8) -> Self {
        match byte {
            b'k' | 0 => Self::Protobuf,
            _ => Self::Json,
        }
    }

    /// Returns the format as a word for logs and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Protobuf => "protobuf",
        }
    }
}
