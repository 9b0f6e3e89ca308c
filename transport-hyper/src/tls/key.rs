//! The private key of a client.

use alloc::sync::Arc;
use core::iter;

use rustls::crypto::CryptoProvider;
use rustls::sign::SigningKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use crate::build_error::BuildError;
use crate::tls::algorithm::{self, FOR_CLIENTS};
use crate::tls::der::{FIRST, SECOND, Tag, any, bits, expect};
use crate::tls::is_pem;

/// Reads a private key. The errors contain no part of it.
pub(super) fn signing_key(
    bytes: &[u8],
    provider: &CryptoProvider,
) -> Result<Arc<dyn SigningKey>, BuildError> {
    let wrong = |why: String| BuildError(format!("client key: {why}"));
    let key = private_key(bytes).map_err(|why| wrong(why.to_owned()))?;
    let loaded = provider.key_provider.load_private_key(key.clone_key());
    loaded.map_err(|_| wrong(refusal(&key, provider)))
}

/// Finds the key as [Go](https://pkg.go.dev/crypto/tls#X509KeyPair) does: the first block whose label ends in
/// `PRIVATE KEY` has it, and the content of the block tells its format.
fn private_key(bytes: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    if !is_pem(bytes) {
        return parse(bytes.to_vec());
    }
    for block in blocks(bytes) {
        if !block.label.ends_with(b"PRIVATE KEY") {
            continue;
        }
        if block.is_encrypted() {
            return Err(ENCRYPTED);
        }
        if block.label == b"OPENSSH PRIVATE KEY" {
            return Err(OPENSSH);
        }
        // Go passes over a block that is not base64.
        if let Some(der) = block.decode() {
            return parse(der);
        }
    }
    Err(NONE)
}

fn parse(der: Vec<u8>) -> Result<PrivateKeyDer<'static>, &'static str> {
    if is_encrypted(&der) == Some(true) {
        return Err(ENCRYPTED);
    }
    PrivateKeyDer::try_from(der).map_err(|_| NONE)
}

const NONE: &str = "no private key in PKCS#8, PKCS#1 or SEC1, as PEM text or DER";
const ENCRYPTED: &str = "it is encrypted; decrypt it (openssl pkey -in OLD -out NEW)";
const OPENSSH: &str =
    "it has the format of OpenSSH; convert a copy of it (ssh-keygen -p -m PKCS8 -f COPY)";

/// Returns whether this is an `EncryptedPrivateKeyInfo`
/// ([RFC 5958 section 3](https://www.rfc-editor.org/rfc/rfc5958#section-3)).
fn is_encrypted(der: &[u8]) -> Option<bool> {
    let (fields, _) = expect(Tag::Sequence, der)?;
    let (algorithm, rest) = expect(Tag::Sequence, fields)?;
    expect(Tag::ObjectIdentifier, algorithm)?;
    expect(Tag::OctetString, rest)?;
    Some(true)
}

/// A block of PEM text.
struct Block<'a> {
    label: &'a [u8],
    lines: Vec<&'a [u8]>,
}

/// Finds the blocks of a PEM text. A block without an end is left out.
fn blocks(pem: &[u8]) -> impl Iterator<Item = Block<'_>> {
    let mut lines = pem
        .split(|byte| b"\r\n".contains(byte))
        .map(<[u8]>::trim_ascii_end);
    let mut open: Option<Block<'_>> = None;
    let between = |line: &'_ [u8], prefix| -> Option<usize> {
        let label = line.strip_prefix(prefix)?.strip_suffix(b"-----")?;
        Some(label.len())
    };
    iter::from_fn(move || {
        for line in lines.by_ref() {
            if let Some(length) = between(line, b"-----BEGIN ".as_slice()) {
                open = Some(Block {
                    label: &line[11..11 + length],
                    lines: Vec::new(),
                });
            } else if let Some(length) = between(line, b"-----END ".as_slice()) {
                let ended = open.take();
                if let Some(block) = ended.filter(|block| block.label == &line[9..9 + length]) {
                    return Some(block);
                }
            } else if let Some(block) = &mut open {
                block.lines.push(line);
            }
        }
        None
    })
}

impl Block<'_> {
    /// Returns whether a passphrase protects the block, by its label or in the way of old versions of openssl
    /// ([RFC 1421 section 4.6.1.1](https://www.rfc-editor.org/rfc/rfc1421#section-4.6.1.1)).
    fn is_encrypted(&self) -> bool {
        let is_said =
            |line: &&[u8]| line.starts_with(b"Proc-Type:") && line.ends_with(b"ENCRYPTED");
        self.label.starts_with(b"ENCRYPTED") || self.lines.iter().any(is_said)
    }

    fn decode(&self) -> Option<Vec<u8>> {
        let is_data = |line: &&&[u8]| !line.contains(&b':');
        let data = self.lines.iter().filter(is_data).copied();
        let text: Vec<&[u8]> = iter::once(b"-----BEGIN PRIVATE KEY-----".as_slice())
            .chain(data)
            .chain([b"-----END PRIVATE KEY-----".as_slice()])
            .collect();
        let key = PrivatePkcs8KeyDer::from_pem_slice(&text.join(&b'\n')).ok()?;
        Some(key.secret_pkcs8_der().to_vec())
    }
}

/// Explains why a provider does not take a key.
fn refusal(key: &PrivateKeyDer<'_>, provider: &CryptoProvider) -> String {
    let kind = match key {
        PrivateKeyDer::Pkcs1(key) => rsa(key.secret_pkcs1_der()),
        PrivateKeyDer::Sec1(key) => ec(None, key.secret_sec1_der(), provider),
        PrivateKeyDer::Pkcs8(key) => of_pkcs8(key.secret_pkcs8_der(), provider),
        _ => None,
    };
    match kind {
        None | Some(KeyProblem::Damaged) => "it is damaged".to_owned(),
        Some(KeyProblem::Unsupported(what)) => {
            format!("{what} is not supported; use a key of {FOR_CLIENTS}")
        }
        Some(KeyProblem::Unusual(what)) => {
            format!("{what} is not supported, or it is damaged; use a key of {FOR_CLIENTS}")
        }
        Some(KeyProblem::Explicit) => {
            "its curve is described by parameters instead of a name; name it (openssl ec -in OLD -param_enc named_curve \
             -out NEW)"
                .to_owned()
        }
        Some(KeyProblem::WithoutPublicKey) => {
            "it lacks the public key; add it (openssl ec -in OLD -out NEW)".to_owned()
        }
    }
}

/// What is unusual in a key.
enum KeyProblem {
    Unsupported(String),
    /// Some providers support it.
    Unusual(String),
    Explicit,
    WithoutPublicKey,
    Damaged,
}

fn of_pkcs8(der: &[u8], provider: &CryptoProvider) -> Option<KeyProblem> {
    let (fields, _) = expect(Tag::Sequence, der)?;
    let (_version, rest) = expect(Tag::Integer, fields)?;
    let (identifier, rest) = expect(Tag::Sequence, rest)?;
    let (key, _) = expect(Tag::OctetString, rest)?;
    let (object, parameters) = expect(Tag::ObjectIdentifier, identifier)?;
    Some(match object {
        algorithm::RSA => rsa(key)?,
        algorithm::EC => ec(Some(parameters), key, provider)?,
        other if algorithm::is_supported(provider, other) => KeyProblem::Damaged,
        other => KeyProblem::Unsupported(algorithm::name(other)),
    })
}

/// Looks at an `RSAPrivateKey` ([RFC 8017](https://www.rfc-editor.org/rfc/rfc8017#appendix-A.1.2)).
fn rsa(der: &[u8]) -> Option<KeyProblem> {
    let (fields, _) = expect(Tag::Sequence, der)?;
    let (_version, rest) = expect(Tag::Integer, fields)?;
    let (modulus, rest) = expect(Tag::Integer, rest)?;
    let (exponent, _) = expect(Tag::Integer, rest)?;
    let size = bits(modulus);
    Some(if !(2048..=8192).contains(&size) {
        KeyProblem::Unsupported(format!("RSA of {size} bits"))
    } else if ![2048, 3072, 4096].contains(&size) {
        KeyProblem::Unusual(format!("RSA of {size} bits"))
    } else if bits(exponent) < 17 {
        KeyProblem::Unusual("RSA with a public exponent below 65537".to_owned())
    } else {
        KeyProblem::Damaged
    })
}

/// Looks at an `ECPrivateKey` ([RFC 5915](https://www.rfc-editor.org/rfc/rfc5915#section-3)). Within PKCS#8, its curve is
/// outside of it.
fn ec(parameters: Option<&[u8]>, der: &[u8], provider: &CryptoProvider) -> Option<KeyProblem> {
    let (fields, _) = expect(Tag::Sequence, der)?;
    let (_version, rest) = expect(Tag::Integer, fields)?;
    let (number, rest) = expect(Tag::OctetString, rest)?;
    let (own, rest) = match expect(FIRST, rest) {
        Some((own, rest)) => (Some(own), rest),
        None => (None, rest),
    };
    let curve = match parameters.or(own).and_then(any) {
        Some((Tag::ObjectIdentifier, curve, _)) => curve,
        Some(_) => return Some(KeyProblem::Explicit),
        None if number.len() > 48 => algorithm::P521,
        None => algorithm::P256,
    };
    Some(match curve {
        other if !algorithm::is_supported(provider, other) => {
            KeyProblem::Unsupported(algorithm::name(other))
        }
        _ if expect(SECOND, rest).is_none() => KeyProblem::WithoutPublicKey,
        _ => KeyProblem::Damaged,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    use rustls::crypto::ring;

    fn value(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u16::try_from(content.len()).unwrap().to_be_bytes();
        let length = match length {
            [0, short @ 0..0x80] => vec![short],
            [0, long] => vec![0x81, long],
            [high, low] => vec![0x82, high, low],
        };
        [&[tag], &length[..], content].concat()
    }

    /// The beginning of an RSA key; the rest is missing.
    fn rsa_key(bits: usize, exponent: &[u8]) -> String {
        let mut modulus = vec![0xff; bits / 8];
        modulus.insert(0, 0);
        let fields = [
            value(0x02, &[0]),
            value(0x02, &modulus),
            value(0x02, exponent),
        ];
        let der = value(0x30, &fields.concat());
        refusal(&PrivateKeyDer::Pkcs1(der.into()), &ring::default_provider())
    }

    #[test]
    fn a_size_of_rsa_that_is_not_supported_is_named() {
        let damaged = ", or it is damaged";
        for (size, or) in [(1024, ""), (2560, damaged), (8192, damaged), (16384, "")] {
            let why = rsa_key(size, &[1, 0, 1]);
            let expected =
                format!("RSA of {size} bits is not supported{or}; use a key of RSA of 2048,");
            assert!(why.starts_with(&expected), "{why}");
        }
        assert!(rsa_key(2048, &[3]).starts_with("RSA with a public exponent below 65537"));
        assert_eq!(rsa_key(2048, &[1, 0, 1]), "it is damaged");
    }

    #[test]
    fn a_key_that_is_cut_is_an_error() {
        for pem in [
            include_str!("../../tests/all/fixtures/p521.pem"),
            include_str!("../../tests/all/fixtures/ec-sec1.pem"),
            include_str!("../../tests/all/fixtures/ec-explicit.pem"),
            include_str!("../../tests/all/fixtures/rsa-pkcs1.pem"),
            include_str!("../../tests/all/fixtures/encrypted.pem"),
        ] {
            for cut in 0..pem.len() - 28 {
                assert!(private_key(&pem.as_bytes()[..cut]).is_err(), "{cut}");
            }
            let Some(block) = blocks(pem.as_bytes()).last() else {
                panic!("no block");
            };
            let der = block.decode().unwrap();
            for cut in 0..der.len() {
                if let Ok(key) = parse(der[..cut].to_vec()) {
                    assert!(!refusal(&key, &ring::default_provider()).is_empty());
                }
            }
        }
    }
}
