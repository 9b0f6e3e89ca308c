//! Frames: the decoder returns what was encoded, and nothing else after any damage.

use informer_serial::frame::{Decoder, encode};
use proptest::prelude::*;

/// A decoder with room for the contents below.
type Small = Decoder<304>;

fn decode(bytes: impl IntoIterator<Item = u8>) -> Vec<Vec<u8>> {
    let mut decoder = Small::new();
    let mut found = Vec::new();
    for byte in bytes {
        if decoder.push(byte) {
            found.push(decoder.content().to_vec());
        } else {
            assert!(decoder.content().is_empty());
        }
    }
    found
}

fn contents() -> impl Strategy<Value = Vec<Vec<u8>>> {
    // Every third byte has a special meaning in frames.
    let byte = prop_oneof![
        any::<u8>(),
        any::<u8>(),
        prop::sample::select(vec![0xc0, 0xdb, 0xdc, 0xdd])
    ];
    prop::collection::vec(prop::collection::vec(byte, 1..300), 1..8)
}

fn encoded(contents: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for content in contents {
        let (one, other) = content.split_at(content.len() / 2);
        bytes.extend(encode(&[one, other]));
    }
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// And nothing else is a frame, whatever its length.
    #[test]
    fn a_frame_survives_whatever_comes_before_it(noise in prop::collection::vec(any::<u8>(), 0..3000), contents in contents()) {
        prop_assert_eq!(decode(noise.into_iter().chain(encoded(&contents))), contents);
    }

    /// A byte is lost, changed or inserted: each decoded frame is an original one, in order, and at most two are
    /// missing (two if the END between them is damaged).
    #[test]
    fn a_spoilt_byte_costs_its_frame_alone(contents in contents(), place: prop::sample::Index, how in 0..3, byte: u8) {
        let mut bytes = encoded(&contents);
        let at = place.index(bytes.len());
        match how {
            0 => { bytes.remove(at); }
            1 => bytes[at] = byte,
            _ => bytes.insert(at, byte),
        }
        let found = decode(bytes);
        let mut rest = contents.iter();
        for frame in &found {
            prop_assert!(rest.any(|content| content == frame), "nobody sent {frame:?}");
        }
        prop_assert!(found.len() + 2 >= contents.len());
    }
}
