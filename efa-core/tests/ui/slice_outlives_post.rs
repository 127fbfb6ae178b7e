//# E0505
//! A borrowed part of a buffer keeps it from being posted.
use efa_core::*;

fn post(endpoint: &mut Endpoint, buf: Buf) {
    let part: &[u8] = &buf[..1];
    #[cfg(not(offence))]
    let part = part.to_vec();
    endpoint.recv(None, buf, Token(1)).unwrap();
    println!("{part:?}");
}

fn main() {
    let _ = post;
}
