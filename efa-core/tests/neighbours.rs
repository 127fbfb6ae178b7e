//! Endpoints of one process that go while others still know them, over every provider at hand.
//!
//! The shm provider uses the memory of a peer of the same process directly, and does not notice when the peer
//! closes: each of these tests ended in a segmentation fault before such endpoints were kept open.

mod common;

use std::time::{Duration, Instant};

use common::{A, B, DEADLINE, Pair, SHM, Spec, offer, unless_valgrind};
use efa_core::*;

on_each_provider!(
    either_of_two_may_go_first,
    both_may_know_each_other_and_go_in_any_order,
    one_that_was_only_written_to_may_outlive_the_writer,
    a_chain_may_lose_its_middle_and_its_ends,
    an_endpoint_that_knows_itself_goes_at_once,
    closing_returns_what_has_drained_and_the_rest_comes_back_later,
    a_forgotten_neighbour_keeps_the_other_alive,
    endpoints_of_two_domains_are_neighbours_too,
    neighbours_may_go_in_other_threads,
    the_address_of_an_endpoint_that_is_gone_is_harmless,
);

const SLOTS: usize = 32;

/// Endpoints of one domain with one pool.
struct Group {
    domain: Domain,
    info: Info,
    pool: BufPool,
}

impl Group {
    fn open(provider: &str) -> Option<Group> {
        let info = offer(provider, Caps::MSG | Caps::TAGGED)?;
        let domain = Domain::open(&Fabric::open(&info).expect("fabric"), &info).expect("domain");
        let pool = domain.buffers(&PoolSpec::new(4096, SLOTS)).expect("pool");
        Some(Group { domain, info, pool })
    }

    fn endpoint(&self) -> Endpoint {
        self.domain.endpoint(&self.info, &EndpointConfig::new()).expect("endpoint")
    }

    /// Uses an endpoint: whether messages arrive is up to the peer; the call has to come back.
    fn use_it(&self, endpoint: &mut Endpoint, peer: Peer) {
        let mut batch = Batch::new();
        for token in 0..4 {
            if let Some(buf) = self.pool.take() {
                let _ = endpoint.send(peer, buf, Token(token));
            }
            let _ = endpoint.inject(peer, &[7; 8]);
            (0..20).for_each(|_| {
                let _ = endpoint.poll(&mut batch);
            });
        }
    }

    /// Whether every buffer is free again.
    fn whole(&self) -> bool {
        self.pool.available() == SLOTS
    }
}

fn introduce(from: &mut Endpoint, to: &Endpoint) -> Peer {
    from.insert(&to.address().expect("address")).expect("peer")
}

fn either_of_two_may_go_first(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    for peer_first in [true, false] {
        let (mut a, b) = (group.endpoint(), group.endpoint());
        let to_b = introduce(&mut a, &b);
        group.use_it(&mut a, to_b);
        if peer_first {
            drop(b);
            group.use_it(&mut a, to_b);
            drop(a);
        } else {
            drop(a);
            drop(b);
        }
        assert!(group.whole(), "{:?}", group.pool);
    }
}

fn both_may_know_each_other_and_go_in_any_order(provider: &str) {
    for first in [A, B] {
        let Some(pair) = Pair::connected(provider, &Spec::new(4096, SLOTS)) else { return };
        let Pair { sides, pool, domain, info } = pair;
        let group = Group { domain, info, pool };
        let [a, b] = sides;
        let (gone, mut left) = if first == A { (a, b) } else { (b, a) };
        drop(gone);
        group.use_it(&mut left.ep, left.peer);
        drop(left);
        assert!(group.whole(), "{:?}", group.pool);
    }
}

/// The peer maps the memory of whoever writes to it, without having been introduced.
fn one_that_was_only_written_to_may_outlive_the_writer(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    let (mut a, mut b) = (group.endpoint(), group.endpoint());
    let to_b = introduce(&mut a, &b);
    let mut batch = Batch::new();
    for token in 0..4 {
        b.recv(None, group.pool.take().expect("a buffer"), Token(token)).expect("recv");
    }
    // Until something has arrived, so that the connection is there; and then more, that B has not seen.
    let started = Instant::now();
    let mut arrived = 0;
    while arrived == 0 {
        group.use_it(&mut a, to_b);
        arrived += b.poll(&mut batch).expect("poll");
        assert!(started.elapsed() < DEADLINE);
    }
    group.use_it(&mut a, to_b);
    drop(a);
    for _ in 0..200 {
        let _ = b.poll(&mut batch);
    }
    drop((b, batch));
    assert!(group.whole(), "{:?}", group.pool);
}

fn a_chain_may_lose_its_middle_and_its_ends(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    for order in [[1, 0, 2], [0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut chain = [Some(group.endpoint()), Some(group.endpoint()), Some(group.endpoint())];
        let addresses: Vec<Address> = chain.iter().flatten().map(|e| e.address().expect("address")).collect();
        let mut peers = Vec::new();
        for (from, to) in [(0, 1), (1, 2)] {
            peers.push((from, chain[from].as_mut().expect("open").insert(&addresses[to]).expect("peer")));
        }
        for gone in order {
            for (from, peer) in &peers {
                if let Some(endpoint) = &mut chain[*from] {
                    group.use_it(endpoint, *peer);
                }
            }
            chain[gone] = None;
        }
        assert!(group.whole(), "{order:?}: {:?}", group.pool);
    }
}

fn an_endpoint_that_knows_itself_goes_at_once(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    let mut a = group.endpoint();
    let me = a.address().expect("address");
    let peer = a.insert(&me).expect("peer");
    a.recv(None, group.pool.take().expect("a buffer"), Token(9)).expect("recv");
    group.use_it(&mut a, peer);
    drop(a);
    assert!(group.whole(), "{:?}", group.pool);
}

fn closing_returns_what_has_drained_and_the_rest_comes_back_later(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    let (mut a, mut b) = (group.endpoint(), group.endpoint());
    let to_b = introduce(&mut a, &b);
    for token in 0..4 {
        b.recv(None, group.pool.take().expect("a buffer"), Token(token)).expect("recv");
    }
    group.use_it(&mut a, to_b);
    let in_flight = b.in_flight();
    let payloads = b.close(Duration::from_millis(1)).expect("close");
    if provider == SHM {
        assert!(payloads.len() <= in_flight);
    } else {
        assert_eq!(payloads.len(), in_flight, "nothing is kept where no memory is shared");
    }
    drop(payloads);
    group.use_it(&mut a, to_b);
    drop(a.close(Duration::from_millis(1)).expect("close"));
    assert!(group.whole(), "{:?}", group.pool);
}

fn a_forgotten_neighbour_keeps_the_other_alive(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    let (mut a, mut b) = (group.endpoint(), group.endpoint());
    let to_b = introduce(&mut a, &b);
    b.recv(None, group.pool.take().expect("a buffer"), Token(1)).expect("recv");
    // Held by a static, so that a leak checker still reaches it.
    static FORGOTTEN: std::sync::Mutex<Vec<Endpoint>> = std::sync::Mutex::new(Vec::new());
    let mut forgotten = FORGOTTEN.lock().expect("no panic while it is held");
    forgotten.push(a);
    drop(b);
    assert_eq!(group.whole(), provider != SHM, "{:?}", group.pool);
    let a = forgotten.last_mut().expect("just put there");
    group.use_it(a, to_b);
}

fn endpoints_of_two_domains_are_neighbours_too(provider: &str) {
    let (Some(one), Some(two)) = (Group::open(provider), Group::open(provider)) else { return };
    let (mut a, b) = (one.endpoint(), two.endpoint());
    let to_b = introduce(&mut a, &b);
    one.use_it(&mut a, to_b);
    drop((b, two));
    one.use_it(&mut a, to_b);
    drop(a);
    assert!(one.whole(), "{:?}", one.pool);
}

fn neighbours_may_go_in_other_threads(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    for _ in 0..unless_valgrind(20, 2) {
        let (mut a, mut b) = (group.endpoint(), group.endpoint());
        let to_b = introduce(&mut a, &b);
        introduce(&mut b, &a);
        b.recv(None, group.pool.take().expect("a buffer"), Token(1)).expect("recv");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                group.use_it(&mut a, to_b);
                drop(a);
            });
            scope.spawn(|| drop(b));
        });
        assert!(group.whole(), "{:?}", group.pool);
    }
}

fn the_address_of_an_endpoint_that_is_gone_is_harmless(provider: &str) {
    let Some(group) = Group::open(provider) else { return };
    let (mut a, b) = (group.endpoint(), group.endpoint());
    let gone = b.address().expect("address");
    drop(b);
    match a.insert(&gone) {
        Ok(peer) => {
            assert_ne!(provider, SHM, "it would use the memory that the endpoint had");
            group.use_it(&mut a, peer);
        }
        Err(error) => assert!(error.to_string().contains("has been closed"), "{error}"),
    }
    drop(a);
    assert!(group.whole(), "{:?}", group.pool);
}
