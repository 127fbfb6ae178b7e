//# E0308
//! A shared buffer is read-only, so it cannot be received into.
use efa_core::*;

fn post(endpoint: &mut Endpoint, buf: Buf, shared: SharedBuf) {
    let _ = &shared;
    endpoint.recv(None, buf, Token(1)).unwrap();
    #[cfg(offence)]
    endpoint.recv(None, shared, Token(2)).unwrap();
}

fn main() {
    let _ = post;
}
