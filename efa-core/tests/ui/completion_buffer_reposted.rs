//# E0382
//! The buffer of a completion is gone from it once it has been posted again.
use efa_core::*;

fn repost(endpoint: &mut Endpoint, peer: Peer, batch: &mut Batch) {
    for done in batch.by_ref() {
        endpoint.send(peer, done.buf, done.token).unwrap();
        #[cfg(offence)]
        println!("{}", done.buf[0]);
    }
}

fn main() {
    let _ = repost;
}
