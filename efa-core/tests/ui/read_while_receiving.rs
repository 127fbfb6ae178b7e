//# E0382
//! A buffer that is being received into cannot be read either.
use efa_core::*;

fn post(endpoint: &mut Endpoint, buf: Buf) -> u8 {
    endpoint.recv(None, buf, Token(1)).unwrap();
    #[cfg(offence)]
    return buf[0];
    #[cfg(not(offence))]
    0
}

fn main() {
    let _ = post;
}
