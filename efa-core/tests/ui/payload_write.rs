//# E0594
//! What comes back with a completion may still be shared: it has to be asked for as a buffer before it is written.
use efa_core::*;

fn write(mut done: Completion) {
    done.len = 0;
    #[cfg(offence)]
    {
        done.buf[0] = 1;
    }
    if let Ok(mut buf) = done.buf.into_buf() {
        buf[0] = 1;
    }
}

fn main() {
    let _ = write;
}
