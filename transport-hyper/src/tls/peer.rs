//! Whose certificate is verified.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Peer {
    Server,
    Proxy,
}
