//! An informer on a microcontroller: a Cortex-M3 with 256 kB of flash and 64 kB of RAM, no operating system, no
//! allocator. It is for QEMU's board `lm3s6965evb`.
//!
//! It watches ConfigMaps with memory for 32 of them, stores `data.value` of each, and prints every event with
//! semihosting. It ends, after printing its cache, when there is a ConfigMap named `device/end`. A feature selects the
//! access to the server: `ethernet`, with HTTP/1.1 over the network card, or `uart`, in frames over the serial line. With
//! the feature `protobuf`, it requests protobuf instead of JSON.
//!
//! `examples/device/run` builds it, starts a server on loopback and the emulator, and checks its output; with `--uart`
//! over the serial line, with `--protobuf` in protobuf.
#![no_std]
#![no_main]

mod board;
#[cfg(feature = "protobuf")]
mod config_map;
#[cfg(not(feature = "uart"))]
mod over_ethernet;
#[cfg(feature = "uart")]
mod over_uart;

use core::fmt;

use cortex_m_semihosting::debug::{self, EXIT_SUCCESS};
use cortex_m_semihosting::hprintln;
use embassy_executor::Spawner;
use heapless::String;
#[cfg(feature = "protobuf")]
use informer_embassy::FromProtobuf;
#[cfg(not(feature = "protobuf"))]
use informer_embassy::json;
#[cfg(feature = "protobuf")]
use informer_embassy::protobuf;
use informer_embassy::{
    Inline, Lister, Notification, ObjectNotification, RawObject, Report, Resource, Resources,
    Storage, config,
};
#[cfg(not(feature = "uart"))]
use over_ethernet::transport;
#[cfg(feature = "uart")]
use over_uart::transport;
use panic_semihosting as _;
use static_cell::StaticCell;

/// At most 32 objects, with keys of 64 bytes and objects of 2 KiB as received; changes are applied one at a time. It
/// never grows.
type Memory = Inline<32, 64, 2048, 2, 2>;
type Text = <Memory as Storage>::Text;

/// The stored part of a ConfigMap: `data.value`, of at most 24 bytes.
struct Value(String<24>);

#[cfg(not(feature = "protobuf"))]
fn decode(raw: &RawObject<'_>) -> Result<Value, &'static str> {
    let value = json::value_at(raw.json(), &["data", "value"]).and_then(json::as_str);
    keep(value)
}

#[cfg(feature = "protobuf")]
fn decode(_: &RawObject<'_>, map: protobuf::Message<'_>) -> Result<Value, &'static str> {
    keep(config_map::value_of(map, "value"))
}

fn keep(value: Option<impl fmt::Display>) -> Result<Value, &'static str> {
    let value = value.ok_or("there is no data.value")?;
    let mut kept = String::new();
    let written = fmt::write(&mut kept, format_args!("{value}"));
    written.map_err(|_| "data.value is longer than 24 bytes")?;
    Ok(Value(kept))
}

#[cfg(not(feature = "protobuf"))]
type Decoder = fn(&RawObject<'_>) -> Result<Value, &'static str>;
#[cfg(feature = "protobuf")]
type Decoder =
    FromProtobuf<fn(&RawObject<'_>, protobuf::Message<'_>) -> Result<Value, &'static str>>;

#[embassy_executor::task]
async fn main(spawner: Spawner) {
    static RESOURCES: StaticCell<Resources<Value, Memory>> = StaticCell::new();

    // Nothing here is a secret. A device with a source of randomness should use it.
    let seed = board::cycles();
    let Some(transport) = transport(spawner, seed) else {
        return;
    };

    let maps = Resource::new("", "v1", "configmaps").kind("ConfigMap");
    let resources = RESOURCES.init_with(|| Resources::new(seed));
    #[cfg(not(feature = "protobuf"))]
    let decoder: Decoder = decode;
    #[cfg(feature = "protobuf")]
    let decoder: Decoder = FromProtobuf(decode);
    let (lister, runner) = informer_embassy::new(resources, maps, decoder, config(), seed);
    spawner.spawn(show_and_end(lister).unwrap());
    runner
        .run(
            transport,
            (print, |report: Report<'_>| hprintln!("! {}", report)),
        )
        .await;
}

/// Prints a notification.
fn print(notification: ObjectNotification<'_, Value, Text>) {
    match notification {
        Notification::Added {
            entry: (key, object),
            ..
        } => {
            hprintln!(
                "+ {} {} {}",
                key.as_ref(),
                object.resource_version(),
                object.value().0
            );
        }
        Notification::Updated {
            new: (key, object), ..
        } => {
            hprintln!(
                "~ {} {} {}",
                key.as_ref(),
                object.resource_version(),
                object.value().0
            );
        }
        Notification::Replayed {
            entry: (key, _), ..
        } => hprintln!("= {}", key.as_ref()),
        Notification::Deleted {
            entry: (key, object),
            final_state_unknown,
        } => {
            let how = if final_state_unknown {
                "unseen"
            } else {
                "seen"
            };
            hprintln!("- {} {} {}", key.as_ref(), object.resource_version(), how);
        }
        Notification::Synced => hprintln!("synced"),
        _ => {}
    }
}

/// Waits for the ConfigMap that ends the program, and prints the cache.
#[embassy_executor::task]
async fn show_and_end(lister: Lister<'static, Value, Memory>) {
    while lister.with("device/end", |_| ()) != Ok(Some(())) || !lister.is_synced() {
        if let Err(error) = lister.changed().await {
            hprintln!("{}", error);
            return;
        }
    }
    let printed = lister.for_each(|key, object| {
        hprintln!(
            "cache {} {} {}",
            key.as_ref(),
            object.resource_version(),
            object.value().0
        );
    });
    if printed.is_ok() {
        hprintln!(
            "stack {} of {} bytes were never used",
            board::untouched_stack(),
            board::stack_size()
        );
        debug::exit(EXIT_SUCCESS);
    }
}
