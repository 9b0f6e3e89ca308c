//! Counts the instructions from the bytes of an event to its notification, in the format that the feature `protobuf`
//! selects: a ConfigMap that kube-apiserver sent, once in JSON and once in protobuf.
//!
//! The emulator has to run one instruction in 16 ns of its time (`-icount shift=4`), as `examples/device/run --count`
//! does. SysTick counts every 80 ns, which is every fifth instruction.
#![no_std]
#![no_main]

use cortex_m::Peripherals;
use cortex_m::peripheral::SYST;
use cortex_m::peripheral::syst::SystClkSource;
use cortex_m_rt::entry;
use cortex_m_semihosting::debug::{self, EXIT_SUCCESS};
use cortex_m_semihosting::hprintln;
use heapless::Vec;
use informer_core::{
    End, Head, Inline, Instant, Notification, Output, PolledInformer, ReflectorConfig, RequestId,
    Resource,
};
use panic_semihosting as _;

/// At most 4 objects of 2 KiB as received.
type Memory = Inline<4, 64, 2048, 2, 2>;

const EVENTS: usize = 100;
const INSTRUCTIONS_PER_TICK: u32 = 5;

#[cfg(not(feature = "protobuf"))]
mod format {
    use informer_core::{Decode, RawObject, json};

    pub const NAME: &str = "JSON";
    pub const LIST: &[u8] =
        br#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"100"},"items":[]}"#;
    const CAPTURE: &[u8] = include_bytes!("../../../../transport-mock/tests/captures/watch.json");

    /// Returns the first event of the capture.
    pub fn event() -> &'static [u8] {
        let end = CAPTURE.iter().position(|byte| *byte == b'\n');
        &CAPTURE[..end.unwrap()]
    }

    fn decode(raw: &RawObject<'_>) -> Result<usize, &'static str> {
        let value = json::value_at(raw.json(), &["data", "a"]);
        value.map(<[u8]>::len).ok_or("there is no data.a")
    }

    pub fn decoder() -> impl Decode<Value = usize> {
        decode
    }
}

#[cfg(feature = "protobuf")]
mod format {
    use informer_core::RawObject;
    use informer_core::decode::{Decode, FromProtobuf};
    use informer_core::protobuf::Message;

    pub const NAME: &str = "protobuf";
    pub const LIST: &[u8] =
        b"k8s\0\x0a\x13\x0a\x02v1\x12\x0dConfigMapList\x12\x07\x0a\x05\x12\x03100\x1a\x00\x22\x00";
    const CAPTURE: &[u8] = include_bytes!("../../../../transport-mock/tests/captures/watch.pb");

    /// Returns the first event of the capture, after its length in four bytes.
    pub fn event() -> &'static [u8] {
        let length = u32::from_be_bytes(CAPTURE[..4].try_into().unwrap());
        &CAPTURE[..4 + length as usize]
    }

    fn decode(_: &RawObject<'_>, map: Message<'_>) -> Result<usize, &'static str> {
        crate::value_of(map, "a")
            .map(str::len)
            .ok_or("there is no data.a")
    }

    pub fn decoder() -> impl Decode<Value = usize> {
        FromProtobuf(decode)
    }
}

#[cfg(feature = "protobuf")]
#[path = "../config_map.rs"]
mod config_map;
#[cfg(feature = "protobuf")]
use config_map::value_of;

#[entry]
fn main() -> ! {
    let mut peripherals = Peripherals::take().unwrap();
    let clock = &mut peripherals.SYST;
    clock.set_clock_source(SystClkSource::Core);
    clock.set_reload(0xff_ffff);
    clock.clear_current();
    clock.enable_counter();

    let maps = Resource::new("", "v1", "configmaps").kind("ConfigMap");
    let mut informer: PolledInformer<_, _, Memory> =
        PolledInformer::new(maps, format::decoder(), ReflectorConfig::list(), 1);
    let now = Instant::from_micros(0);
    let mut report = |report: informer_core::Report<'_>| panic!("{report}");

    let list = sent(informer.poll_output(now));
    informer.handle_head(now, list, Head::new(200));
    let taken = informer.handle_data(now, list, format::LIST, &mut report);
    assert_eq!(taken, format::LIST.len());
    while informer.pop().is_some() {}
    informer.handle_end(now, list, End::Clean);
    let watch = sent(informer.poll_output(now));
    informer.handle_head(now, watch, Head::new(200));

    let mut event: Vec<u8, 2048> = Vec::from_slice(format::event()).unwrap();
    let version = event.windows(3).position(|text| text == b"274").unwrap();
    let (mut ticks, mut notified) = (0, 0);
    for number in 0..EVENTS {
        let digits = [b'3', b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        event[version..version + 3].copy_from_slice(&digits);
        let before = SYST::get_current();
        let taken = informer.handle_data(now, watch, &event, &mut report);
        while let Some(notification) = informer.pop() {
            notified += usize::from(!matches!(notification, Notification::Synced));
        }
        // It counts down.
        ticks += before.wrapping_sub(SYST::get_current()) & 0xff_ffff;
        assert_eq!(taken, event.len());
    }
    assert_eq!(notified, EVENTS);
    hprintln!(
        "{}: {} bytes, {} instructions per event",
        format::NAME,
        event.len(),
        ticks * INSTRUCTIONS_PER_TICK / EVENTS as u32
    );
    debug::exit(EXIT_SUCCESS);
    unreachable!("the emulator has ended");
}

fn sent(output: Output<'_>) -> RequestId {
    match output {
        Output::Send(request) => request.id(),
        _ => panic!("a request is due"),
    }
}
