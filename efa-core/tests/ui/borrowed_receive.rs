//# E0308
//! Borrowed memory cannot be received into: the device would outlast the borrow.
use efa_core::*;

fn post(endpoint: &mut Endpoint, buf: Buf, bytes: &mut [u8]) {
    let _ = bytes;
    endpoint.recv(None, buf, Token(1)).unwrap();
    #[cfg(offence)]
    endpoint.recv(None, bytes, Token(2)).unwrap();
}

fn main() {
    let _ = post;
}
