//# E0382
//! A buffer that is in flight belongs to its operation: its owner cannot write it.
use efa_core::*;

fn post(endpoint: &mut Endpoint, peer: Peer, mut buf: Buf) {
    buf[0] = 1;
    endpoint.send(peer, buf, Token(1)).unwrap();
    #[cfg(offence)]
    {
        buf[0] = 2;
    }
}

fn main() {
    let _ = post;
}
