//! Access to the server with HTTP/1.1, over TCP and the network card.

use embassy_executor::Spawner;
use embassy_net::tcp::TcpSocket;
use embassy_net::{IpEndpoint, Ipv4Address, Ipv4Cidr, StackResources, StaticConfigV4};
use embassy_time::Duration;
use informer_embassy::{Anonymous, Connection, HttpTransport, TcpLink};
use static_cell::StaticCell;

use crate::board;

/// The buffer for requests and responses has 512 bytes. A token would need more.
type Server = Connection<TcpLink<'static>, Anonymous, 512>;

/// Starts the network, and returns a transport to the server.
pub fn transport(
    spawner: Spawner,
    seed: u64,
) -> Option<HttpTransport<'static, TcpLink<'static>, Anonymous, 512, 4>> {
    static SOCKETS: StaticCell<StackResources<2>> = StaticCell::new();
    static RECEIVE: StaticCell<[u8; 4096]> = StaticCell::new();
    static SEND: StaticCell<[u8; 1024]> = StaticCell::new();
    static SERVER: StaticCell<Server> = StaticCell::new();

    // The address of the host in the emulator's network.
    let host = Ipv4Address::new(10, 0, 2, 2);
    let address = embassy_net::Config::ipv4_static(StaticConfigV4 {
        address: Ipv4Cidr::new(Ipv4Address::new(10, 0, 2, 15), 24),
        gateway: Some(host),
        dns_servers: heapless::Vec::new(),
    });
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
    // A lost reset is detected when the next probe is rejected or gets no response.
    socket.set_keep_alive(Some(Duration::from_secs(10)));
    socket.set_timeout(Some(Duration::from_secs(20)));
    let link = TcpLink::new(
        socket,
        IpEndpoint::new(host.into(), board::port_from_command_line()),
    );
    SERVER
        .init_with(|| Connection::new(link, "10.0.2.2", Anonymous))
        .transport()
}

#[embassy_executor::task]
async fn run_network(mut network: embassy_net::Runner<'static, board::Ethernet>) {
    network.run().await;
}
