//# E0596
//! Polling is a data-path call like any other: it wants the endpoint alone.
use efa_core::*;

fn poll(endpoint: &Endpoint, batch: &mut Batch) {
    let _ = (endpoint.in_flight(), batch.len());
    #[cfg(offence)]
    let _ = endpoint.poll(batch);
}

fn main() {
    let _ = poll;
}
