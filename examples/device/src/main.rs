//! An informer on a microcontroller: a Cortex-M3 with 256 kB of flash and 64 kB of RAM, no operating system, no
//! allocator. It is for QEMU's board `lm3s6965evb` with its emulated network card.
//!
//! It watches ConfigMaps over HTTP/1.1 with memory for 32 of them, keeps `data.value` of each, prints every event by
//! semihosting, and ends, with its cache printed, when there is a ConfigMap named `device/end`.
//!
//! `examples/device/run` builds it, starts a server on loopback and the emulator, and checks what it prints.
#![no_std]
#![no_main]

mod board;

use core::fmt;

use cortex_m_semihosting::debug::{self, EXIT_SUCCESS};
use cortex_m_semihosting::hprintln;
use embassy_executor::Spawner;
use embassy_net::tcp::TcpSocket;
use embassy_net::{IpEndpoint, Ipv4Address, Ipv4Cidr, StackResources, StaticConfigV4};
use embassy_time::Duration;
use heapless::String;
use informer_embassy::{
    Anonymous, Connection, Inline, Lister, Notification, RawObject, Report, Resource, Resources,
    Storage, TcpLink, Told, config, json,
};
use panic_semihosting as _;
use static_cell::StaticCell;

/// At most 32 objects, keys of 64 bytes, objects of 2 KiB as they come; changes are applied one at a time. Nothing grows, ever.
type Memory = Inline<32, 64, 2048, 2>;
type Text = <Memory as Storage>::Text;
/// Requests and answers go through 512 bytes; a token would want more.
type Server = Connection<TcpLink<'static>, Anonymous, 512>;

/// What is kept of a ConfigMap: `data.value`, of at most 24 bytes.
struct Value(String<24>);

fn decode(raw: &RawObject<'_>) -> Result<Value, &'static str> {
    let value = json::value_at(raw.json(), &["data", "value"]).and_then(json::as_str);
    let mut kept = String::new();
    let written = fmt::write(
        &mut kept,
        format_args!("{}", value.ok_or("there is no data.value")?),
    );
    written.map_err(|_| "data.value is longer than 24 bytes")?;
    Ok(Value(kept))
}

#[embassy_executor::task]
async fn main(spawner: Spawner) {
    static RESOURCES: StaticCell<Resources<Value, Memory>> = StaticCell::new();
    static SOCKETS: StaticCell<StackResources<2>> = StaticCell::new();
    static RECEIVE: StaticCell<[u8; 4096]> = StaticCell::new();
    static SEND: StaticCell<[u8; 1024]> = StaticCell::new();
    static SERVER: StaticCell<Server> = StaticCell::new();

    // Where the host is, as the emulator's network shows it.
    let host = Ipv4Address::new(10, 0, 2, 2);
    let address = embassy_net::Config::ipv4_static(StaticConfigV4 {
        address: Ipv4Cidr::new(Ipv4Address::new(10, 0, 2, 15), 24),
        gateway: Some(host),
        dns_servers: heapless::Vec::new(),
    });
    // Nothing here is a secret; a device with a source of randomness uses it.
    let seed = board::cycles();
    let (stack, network) = embassy_net::new(
        board::Ethernet::start(),
        address,
        SOCKETS.init_with(StackResources::new),
        seed,
    );
    spawner.spawn(run_network(network).unwrap());

    let mut socket = TcpSocket::new(
        stack,
        RECEIVE.init_with(|| [0; _]),
        SEND.init_with(|| [0; _]),
    );
    socket.set_timeout(Some(Duration::from_secs(20)));
    let link = TcpLink::new(
        socket,
        IpEndpoint::new(host.into(), board::port_from_command_line()),
    );
    let server = SERVER.init_with(|| Connection::new(link, "10.0.2.2", Anonymous));
    let Some(transport) = server.transport() else {
        return;
    };

    let maps = Resource::new("", "v1", "configmaps").kind("ConfigMap");
    let resources = RESOURCES.init_with(|| Resources::new(seed));
    let decode: fn(&RawObject<'_>) -> Result<Value, &'static str> = decode;
    let (lister, runner) = informer_embassy::new(resources, maps, decode, config(), seed);
    spawner.spawn(show_and_end(lister).unwrap());
    runner
        .run(
            transport,
            (tell, |report: Report<'_>| hprintln!("! {}", report)),
        )
        .await;
}

#[embassy_executor::task]
async fn run_network(mut network: embassy_net::Runner<'static, board::Ethernet>) {
    network.run().await;
}

/// Prints what the informer tells.
fn tell(told: Told<'_, Value, Text>) {
    match told {
        Notification::Added { key, object, .. } => {
            hprintln!(
                "+ {} {} {}",
                key.as_ref(),
                object.resource_version(),
                object.value().0
            );
        }
        Notification::Updated { key, object, .. } => {
            hprintln!(
                "~ {} {} {}",
                key.as_ref(),
                object.resource_version(),
                object.value().0
            );
        }
        Notification::Replayed { key, .. } => hprintln!("= {}", key.as_ref()),
        Notification::Deleted {
            key,
            object,
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

/// Waits for the ConfigMap that ends it, and prints the cache.
#[embassy_executor::task]
async fn show_and_end(lister: Lister<'static, Value, Memory>) {
    while lister.with("device/end", |_| ()) != Ok(Some(())) || !lister.is_synced() {
        lister.changed().await;
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
