//! Names of algorithms, and which of them a provider has.

use core::fmt::Write as _;

use rustls::crypto::CryptoProvider;

use crate::tls::der::{Tag, bits, expect};

/// What a client's key may be, with ring as with aws-lc-rs.
pub(super) const FOR_CLIENTS: &str =
    "RSA of 2048, 3072 or 4096 bits, ECDSA on P-256 or P-384, or Ed25519";

/// What certificates of servers may be signed with, with ring as with aws-lc-rs.
pub(super) const FOR_SERVERS: &str =
    "RSA of 2048 to 8192 bits, ECDSA on P-256 or P-384 (both with SHA-2), or Ed25519";

/// The sizes of RSA keys by which a signature can be verified, in bits.
pub(super) const RSA_BITS: core::ops::RangeInclusive<usize> = 2048..=8192;

pub(super) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
pub(super) const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
pub(super) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
pub(super) const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];

/// Object identifiers, as the contents of their DER.
const NAMES: &[(&[u8], &str)] = &[
    (RSA, "RSA"),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x04],
        "RSA with MD5",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05],
        "RSA with SHA-1",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a],
        "RSA-PSS",
    ),
    (
        &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0e],
        "RSA with SHA-224",
    ),
    (EC, "ECDSA"),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01],
        "ECDSA with SHA-1",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x01],
        "ECDSA with SHA-224",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02],
        "ECDSA with SHA-256",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03],
        "ECDSA with SHA-384",
    ),
    (
        &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x04],
        "ECDSA with SHA-512",
    ),
    (P256, "ECDSA on P-256"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x22], "ECDSA on P-384"),
    (P521, "ECDSA on P-521"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x21], "ECDSA on P-224"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x0a], "ECDSA on secp256k1"),
    (
        &[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x07],
        "ECDSA on brainpoolP256r1",
    ),
    (
        &[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0b],
        "ECDSA on brainpoolP384r1",
    ),
    (
        &[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0d],
        "ECDSA on brainpoolP512r1",
    ),
    (&[0x2a, 0x81, 0x1c, 0xcf, 0x55, 0x01, 0x82, 0x2d], "SM2"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01], "DSA"),
    (&[0x2b, 0x65, 0x70], "Ed25519"),
    (&[0x2b, 0x65, 0x71], "Ed448"),
    (&[0x2b, 0x65, 0x6e], "X25519, which cannot sign,"),
    (
        &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x11],
        "ML-DSA-44",
    ),
    (
        &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x12],
        "ML-DSA-65",
    ),
    (
        &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x13],
        "ML-DSA-87",
    ),
];

/// Names an object identifier, or writes it as numbers.
pub(super) fn name(object: &[u8]) -> String {
    let known = NAMES.iter().find(|(known, _)| *known == object);
    if let Some((_, name)) = known {
        return (*name).to_owned();
    }
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in object {
        number = number.wrapping_mul(0x80) | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(core::mem::take(&mut number));
        }
    }
    let mut text = "the algorithm".to_owned();
    for (place, number) in numbers.into_iter().enumerate() {
        // The first two numbers are one in DER.
        let _ = match place {
            0 => {
                let first = (number / 40).min(2);
                write!(text, " {first}.{}", number - 40 * first)
            }
            _ => write!(text, ".{number}"),
        };
    }
    text
}

/// Returns the algorithm in the content of an `AlgorithmIdentifier`. That of an EC key is its curve, if it has a name.
pub(super) fn object(identifier: &[u8]) -> Option<&[u8]> {
    let (object, parameters) = expect(Tag::ObjectIdentifier, identifier)?;
    match expect(Tag::ObjectIdentifier, parameters) {
        Some((curve, _)) if object == EC => Some(curve),
        _ => Some(object),
    }
}

/// Returns whether a provider has signatures by keys of this algorithm, or on this curve.
pub(super) fn is_supported(provider: &CryptoProvider, algorithm: &[u8]) -> bool {
    let algorithms = provider.signature_verification_algorithms.all;
    let mut keys = algorithms.iter().map(|known| known.public_key_alg_id());
    keys.any(|key| object(&key) == Some(algorithm))
}

/// Returns the size of the RSA key in the content of a `SubjectPublicKeyInfo`; `None` if it is another key.
pub(super) fn rsa_bits(public_key: &[u8]) -> Option<usize> {
    let (identifier, rest) = expect(Tag::Sequence, public_key)?;
    if object(identifier)? != RSA {
        return None;
    }
    let (key, _) = expect(Tag::BitString, rest)?;
    let (key, _) = expect(Tag::Sequence, key.get(1..)?)?;
    let (modulus, _) = expect(Tag::Integer, key)?;
    Some(bits(modulus))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_algorithm_without_a_name_is_its_numbers() {
        assert_eq!(name(P521), "ECDSA on P-521");
        assert_eq!(name(&[0x2a, 0x86, 0x48, 0x01]), "the algorithm 1.2.840.1");
        assert_eq!(name(&[0x88, 0x37, 0x03]), "the algorithm 2.999.3");
        assert_eq!(name(&[]), "the algorithm");
    }
}
