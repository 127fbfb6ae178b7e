//! Two endpoints in one process, introduced to each other and driven together.

#![allow(dead_code, reason = "each test binary uses its part of this module")]

use std::io::Write;
use std::time::{Duration, Instant};

use efa_core::*;

/// The providers that every message test runs over.
pub(crate) const TCP: &str = "tcp;ofi_rxm";
pub(crate) const SHM: &str = "shm";

/// Long enough for valgrind on a busy machine; a wait that needs it has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// `full`, or `light` where everything takes twenty times as long: under valgrind, which the caller announces.
pub(crate) fn unless_valgrind(full: u64, light: u64) -> u64 {
    if std::env::var_os("EFA_TEST_VALGRIND").is_some() { light } else { full }
}

/// The two ends of a [`Pair`].
pub(crate) const A: usize = 0;
pub(crate) const B: usize = 1;

/// One test function for each provider, in a module named after it.
#[macro_export]
macro_rules! on_each_provider {
    ($($name:ident),* $(,)?) => {
        mod tcp_ofi_rxm { $( #[test] fn $name() { super::$name($crate::common::TCP); } )* }
        mod shm { $( #[test] fn $name() { super::$name($crate::common::SHM); } )* }
    };
}

/// Says on the process's own standard error, which libtest does not capture, that a test did not run.
pub(crate) fn skipped(reason: &str) {
    let thread = std::thread::current();
    let line = format!("SKIPPED: {}: {reason}\n", thread.name().unwrap_or("test"));
    // A test must not fail because nobody reads its standard error.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The first offer of a provider on this host, or `None` after saying why the test is skipped.
pub(crate) fn offer(provider: &str, caps: Caps) -> Option<Info> {
    let mut hints = Hints::new(caps).provider(provider);
    if provider != SHM {
        hints = hints.source([127, 0, 0, 1].into());
    }
    match get_info(&hints) {
        Ok(mut offers) => Some(offers.swap_remove(0)),
        Err(error) => {
            skipped(&error.to_string());
            None
        }
    }
}

/// What a [`Pair`] is opened with.
pub(crate) struct Spec {
    pub(crate) caps: Caps,
    pub(crate) config: EndpointConfig,
    pub(crate) slot_bytes: usize,
    pub(crate) slots: usize,
}

impl Spec {
    /// Tagged and untagged messages in `slots` buffers of `slot_bytes`.
    pub(crate) fn new(slot_bytes: usize, slots: usize) -> Spec {
        Spec { caps: Caps::MSG | Caps::TAGGED, config: EndpointConfig::new(), slot_bytes, slots }
    }
}

/// An endpoint, its peer, and what it has completed so far.
pub(crate) struct Side {
    pub(crate) ep: Endpoint,
    pub(crate) peer: Peer,
    pub(crate) done: Vec<Completion>,
    pub(crate) completed: u64,
    batch: Batch,
}

impl Side {
    pub(crate) fn new(ep: Endpoint, peer: Peer) -> Side {
        Side { ep, peer, done: Vec::new(), completed: 0, batch: Batch::new() }
    }

    /// One poll; completions go to `done`.
    pub(crate) fn poll(&mut self) {
        let count = self.ep.poll(&mut self.batch).expect("poll");
        assert_eq!(count, self.batch.len());
        self.completed += count as u64;
        self.done.extend(self.batch.by_ref());
    }

    pub(crate) fn has(&self, token: u64) -> bool {
        self.done.iter().any(|c| c.token == Token(token))
    }

    /// The completion of a token, which must be there.
    pub(crate) fn take(&mut self, token: u64) -> Completion {
        let index = self.done.iter().position(|c| c.token == Token(token));
        self.done.swap_remove(index.unwrap_or_else(|| panic!("no completion of token {token}: {:?}", self.done)))
    }
}

/// Two endpoints of one domain with one pool.
pub(crate) struct Pair {
    pub(crate) sides: [Side; 2],
    pub(crate) pool: BufPool,
    pub(crate) domain: Domain,
    pub(crate) info: Info,
}

impl Pair {
    /// Opens both ends, or says why not and gives `None` where the provider is missing.
    pub(crate) fn open(provider: &str, spec: &Spec) -> Option<Pair> {
        let info = offer(provider, spec.caps)?;
        let domain = Domain::open(&Fabric::open(&info).unwrap(), &info).unwrap();
        let pool = domain.buffers(&PoolSpec::new(spec.slot_bytes, spec.slots)).unwrap();
        let mut a = domain.endpoint(&info, &spec.config).unwrap();
        let mut b = domain.endpoint(&info, &spec.config).unwrap();
        let to_b = a.insert(&b.address().unwrap()).unwrap();
        let to_a = b.insert(&a.address().unwrap()).unwrap();
        Some(Pair { sides: [Side::new(a, to_b), Side::new(b, to_a)], pool, domain, info })
    }

    /// Opens both ends and exchanges one message each way, so that connections exist.
    pub(crate) fn connected(provider: &str, spec: &Spec) -> Option<Pair> {
        let mut pair = Pair::open(provider, spec)?;
        for (from, to) in [(A, B), (B, A)] {
            pair.recv(to, 1);
            pair.send(from, 1, 2);
            pair.until("the first message", |sides| sides[to].has(1) && sides[from].has(2));
        }
        for side in &mut pair.sides {
            side.done.clear();
        }
        Some(pair)
    }

    /// Polls both ends until `finished`, with a deadline.
    pub(crate) fn until(&mut self, what: &str, mut finished: impl FnMut(&mut [Side; 2]) -> bool) {
        let started = Instant::now();
        while !finished(&mut self.sides) {
            self.poll();
            let [a, b] = &self.sides;
            assert!(started.elapsed() < DEADLINE, "waited in vain for {what}: {:?}, {:?}", a.ep, b.ep);
            std::thread::yield_now();
        }
    }

    /// One poll of each end.
    pub(crate) fn poll(&mut self) {
        self.sides.iter_mut().for_each(Side::poll);
    }

    /// Posts until the queue has room; `post` gets the payload and gives it back when it is refused.
    pub(crate) fn post<P>(
        &mut self,
        end: usize,
        payload: P,
        mut post: impl FnMut(&mut Endpoint, Peer, P) -> Result<(), Rejected<P>>,
    ) {
        let started = Instant::now();
        let mut payload = payload;
        loop {
            let side = &mut self.sides[end];
            match post(&mut side.ep, side.peer, payload) {
                Ok(()) => return,
                Err(Rejected { buf, kind: PostErrorKind::WouldBlock }) => payload = buf,
                Err(rejected) => panic!("post: {rejected}"),
            }
            self.poll();
            assert!(started.elapsed() < DEADLINE, "no room to post within {DEADLINE:?}");
            std::thread::yield_now();
        }
    }

    /// A buffer of the pool, `len` long.
    pub(crate) fn buf(&self, len: usize) -> Buf {
        let mut buf = self.pool.take().expect("a free buffer");
        buf.set_len(len);
        buf
    }

    /// A buffer filled with the pattern of `seed`.
    pub(crate) fn filled(&self, len: usize, seed: u8) -> Buf {
        let mut buf = self.buf(len);
        fill(&mut buf, seed);
        buf
    }

    /// Posts a receive of a full buffer that is known to differ from any pattern sent next.
    pub(crate) fn recv(&mut self, end: usize, token: u64) {
        let mut buf = self.pool.take().expect("a free buffer");
        let scrap = buf.len().min(256);
        buf[..scrap].fill(0xEE);
        self.post(end, buf, |ep, _, buf| ep.recv(None, buf, Token(token)));
    }

    /// Sends one pattern byte.
    pub(crate) fn send(&mut self, end: usize, seed: u8, token: u64) {
        let buf = self.filled(1, seed);
        self.send_buf(end, buf, token);
    }

    /// Sends a payload.
    pub(crate) fn send_buf(&mut self, end: usize, buf: impl Into<Payload>, token: u64) {
        self.post(end, buf.into(), |ep, peer, buf| ep.send(peer, buf, Token(token)));
    }
}

/// Bytes that depend on position and message.
pub(crate) fn pattern(seed: u8, index: usize) -> u8 {
    (index as u64).wrapping_mul(0x9E37_79B9).rotate_right(11) as u8 ^ seed
}

pub(crate) fn fill(bytes: &mut [u8], seed: u8) {
    bytes.iter_mut().enumerate().for_each(|(index, byte)| *byte = pattern(seed, index));
}

/// Fails with the first byte that is not as sent.
pub(crate) fn check(bytes: &[u8], seed: u8) {
    let wrong = bytes.iter().enumerate().find(|(index, byte)| **byte != pattern(seed, *index));
    assert_eq!(wrong.map(|(index, byte)| (index, *byte, pattern(seed, index))), None, "(offset, found, sent)");
}
