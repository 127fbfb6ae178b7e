//# E0382
//! One buffer cannot be in two operations.
use efa_core::*;

fn post(endpoint: &mut Endpoint, peer: Peer, buf: Buf) {
    endpoint.send(peer, buf, Token(1)).unwrap();
    #[cfg(offence)]
    endpoint.recv(None, buf, Token(2)).unwrap();
}

fn main() {
    let _ = post;
}
