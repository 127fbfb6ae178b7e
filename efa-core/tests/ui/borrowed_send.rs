//# E0277
//! Nor can it be sent.
use efa_core::*;

fn post(endpoint: &mut Endpoint, peer: Peer, buf: Buf, bytes: &[u8]) {
    let _ = bytes;
    endpoint.send(peer, buf, Token(1)).unwrap();
    #[cfg(offence)]
    endpoint.send(peer, bytes, Token(2)).unwrap();
}

fn main() {
    let _ = post;
}
