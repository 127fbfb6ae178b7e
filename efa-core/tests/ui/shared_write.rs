//# E0594
//! A shared buffer may be in flight, so it cannot be written.
use efa_core::*;

fn write(buf: Buf) -> u8 {
    let mut shared = buf.into_shared();
    let _ = &mut shared;
    #[cfg(offence)]
    {
        shared[0] = 1;
    }
    shared[0]
}

fn main() {
    let _ = write;
}
