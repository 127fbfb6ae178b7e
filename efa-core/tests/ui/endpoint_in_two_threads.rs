//# E0277
//! Calls on an endpoint are serialised by `&mut`; two threads cannot hold a reference to one.
use efa_core::*;

fn sync<T: Sync>() {}
fn send<T: Send>() {}

fn main() {
    send::<Endpoint>();
    send::<Batch>();
    sync::<BufPool>();
    sync::<Domain>();
    #[cfg(offence)]
    sync::<Endpoint>();
}
