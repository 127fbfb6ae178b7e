//! What single calls of the safe objects cost, on one endpoint that talks to itself.
//!
//! `EFA_BENCH_PROVIDER` and `EFA_BENCH_FABRIC` choose what is measured; `tcp;ofi_rxm` on 127.0.0.1 otherwise:
//!
//! ```text
//! cargo bench --bench endpoint
//! EFA_BENCH_PROVIDER=shm cargo bench --bench endpoint -- 'round trip'
//! ```
//!
//! One thread plays both sides, so a round trip here is neither half nor whole that of two processes: the
//! figures are for comparing one version of this code with another on one machine.
#![allow(missing_docs, reason = "criterion's macro makes the function that it says that of")]

use std::env;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use efa::{
    Batch, Buf, BufPool, Caps, Domain, Endpoint, EndpointConfig, Fabric, Hints, Info, Payload, Peer, PoolSpec,
    PostErrorKind, Rejected, Token, get_info,
};

const SEND: Token = Token(1);
const RECEIVE: Token = Token(2);
const SMALL: usize = 8;
const LARGE: usize = 64 << 10;
/// No completion for so long is a failure, not a figure.
const SILENCE: Duration = Duration::from_secs(10);

fn data_path(c: &mut Criterion) {
    let Some(mut own) = SelfTalk::open() else { return };
    let mut group = c.benchmark_group(own.provider.clone());
    group.bench_function("poll of an empty queue", |b| b.iter(|| own.poll()));
    for bytes in [SMALL, LARGE] {
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(format!("send and receive, {bytes} bytes"), |b| b.iter(|| own.round_trip(bytes)));
    }
    group.throughput(Throughput::Elements(1));
    if own.endpoint.inject_bytes() >= SMALL {
        // The call alone: what arrives is taken from the queue off the clock.
        group.bench_function(format!("inject, {SMALL} bytes"), |b| {
            b.iter_custom(|iterations| (0..iterations).map(|_| own.inject()).sum());
        });
    }
    group.finish();
}

fn control_path(c: &mut Criterion) {
    let Some(own) = SelfTalk::open() else { return };
    let (domain, info, pool) = (&own.domain, &own.info, &own.pool);
    let mut group = c.benchmark_group(own.provider.clone());
    group.bench_function("take a buffer and give it back", |b| b.iter(|| pool.take()));
    group.sample_size(20);
    group.bench_function("map, register and release 1 MiB", |b| {
        b.iter(|| domain.buffers(&PoolSpec::new(1 << 20, 1)).expect("a registered pool"));
    });
    group.bench_function("insert the first address", |b| {
        let address = own.endpoint.address().expect("an address");
        // A fresh endpoint each time: an address that is known already costs less.
        let open = || domain.endpoint(info, &EndpointConfig::new().depth_limit(16)).expect("an endpoint");
        b.iter_batched_ref(open, |other| other.insert(&address).expect("a peer"), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group!(calls, data_path, control_path);
criterion_main!(calls);

/// An endpoint whose only peer is itself.
struct SelfTalk {
    provider: String,
    endpoint: Endpoint,
    peer: Peer,
    batch: Batch,
    /// `None` while it is in flight.
    outgoing: Option<Buf>,
    incoming: Option<Buf>,
    pool: BufPool,
    domain: Domain,
    info: Info,
}

impl SelfTalk {
    /// Opens it over the provider that was asked for; where that is missing, says so.
    fn open() -> Option<SelfTalk> {
        let hints = hints();
        let info = match get_info(&hints) {
            Ok(mut offers) => offers.swap_remove(0),
            Err(error) => {
                eprintln!("SKIPPED: benchmarks of an endpoint: {error}");
                return None;
            }
        };
        let domain = Domain::open(&Fabric::open(&info).expect("a fabric"), &info).expect("a domain");
        let pool = domain.buffers(&PoolSpec::new(LARGE, 3)).expect("a registered pool");
        let mut endpoint = domain.endpoint(&info, &EndpointConfig::new()).expect("an endpoint");
        let address = endpoint.address().expect("an address");
        let mut own = SelfTalk {
            provider: info.provider(),
            peer: endpoint.insert(&address).expect("a peer"),
            endpoint,
            batch: Batch::new(),
            outgoing: pool.take(),
            incoming: pool.take(),
            pool,
            domain,
            info,
        };
        // The first message sets up the connection.
        own.round_trip(SMALL);
        Some(own)
    }

    /// Posts a receive and a send, and polls until both buffers are back.
    fn round_trip(&mut self, bytes: usize) {
        self.post_receive();
        let mut buf = self.outgoing.take().expect("the last send is over");
        buf.set_len(bytes);
        let mut waiting = Payload::from(buf);
        while let Err(Rejected { buf, kind }) = self.endpoint.send(self.peer, waiting, SEND) {
            assert_eq!(kind, PostErrorKind::WouldBlock);
            waiting = buf;
            self.poll();
        }
        self.poll_until(|own| own.outgoing.is_some() && own.incoming.is_some());
    }

    /// Injects one message; returns how long the call took, and receives the message afterwards.
    fn inject(&mut self) -> Duration {
        self.post_receive();
        let start = Instant::now();
        while let Err(kind) = self.endpoint.inject(self.peer, &[0; SMALL]) {
            assert_eq!(kind, PostErrorKind::WouldBlock);
            self.poll();
        }
        let took = start.elapsed();
        self.poll_until(|own| own.incoming.is_some());
        took
    }

    fn post_receive(&mut self) {
        let mut buf = self.incoming.take().expect("the last receive is over");
        buf.set_len(LARGE);
        self.endpoint.recv(None, buf, RECEIVE).expect("room for one receive");
    }

    fn poll_until(&mut self, done: impl Fn(&SelfTalk) -> bool) {
        let mut since = None;
        for turn in 1_u32.. {
            self.poll();
            if done(self) {
                return;
            }
            // The clock is read only after many empty turns.
            if turn.is_multiple_of(1 << 16) {
                assert!(since.get_or_insert_with(Instant::now).elapsed() < SILENCE, "no completion in {SILENCE:?}");
            }
        }
    }

    fn poll(&mut self) {
        self.endpoint.poll(&mut self.batch).expect("a working queue");
        for done in self.batch.by_ref() {
            done.status.expect("a finished operation");
            let buf = done.buf.into_buf().ok();
            if done.token == SEND { self.outgoing = buf } else { self.incoming = buf }
        }
    }
}

/// What the environment asks for.
fn hints() -> Hints {
    let hints = Hints::new(Caps::MSG);
    let hints = match env::var("EFA_BENCH_PROVIDER") {
        Ok(provider) => hints.provider(provider),
        Err(_) => hints.provider("tcp;ofi_rxm").source(IpAddr::V4(Ipv4Addr::LOCALHOST)),
    };
    match env::var("EFA_BENCH_FABRIC") {
        Ok(fabric) => hints.fabric(fabric),
        Err(_) => hints,
    }
}
