//! One side of a pair over a fabric: an endpoint, its peer, and the buffers of a ping-pong.

use efa_core::{Batch, Buf, BufPool, Domain, Endpoint, OpKind, Peer, PostErrorKind, Rejected, Token};

use super::RunError;
use crate::args::Mode;

/// Buffers that each side registers: one that is sent, two that are posted for receiving, so that one is
/// posted whenever the peer may send.
pub const BUFFERS_PER_SIDE: u64 = 3;

const SEND: Token = Token(0);
const RECEIVE: Token = Token(1);
/// Tag of tagged messages; every bit of it is compared.
const TAG: u64 = 0x00ef_a000;

/// How a link is made.
#[derive(Clone, Copy, Debug)]
pub struct LinkConfig {
    /// Kind of message.
    pub mode: Mode,
    /// The largest message in bytes.
    pub max_bytes: usize,
    /// The largest message in bytes that is injected; `None` injects none.
    pub inject: Option<usize>,
}

/// An endpoint with one peer.
pub struct Link {
    endpoint: Endpoint,
    peer: Peer,
    batch: Batch,
    mode: Mode,
    inject_up_to: Option<usize>,
    size: usize,
    /// `None` while it is being sent.
    outgoing: Option<Buf>,
    /// The message that arrived and was not yet taken, with its length.
    arrived: Option<(Buf, usize)>,
    /// The one behind it. A peer that has the answer sends its next message, which can arrive here before the
    /// answer's own completion does: shm of libfabric 2.x completes a long send when it is next polled.
    behind: Option<(Buf, usize)>,
    posts: u64,
    completions: u64,
    messages_sent: u64,
    messages_received: u64,
    pool: BufPool,
}

impl Link {
    /// Registers the buffers and posts both receives, so that the peer may send as soon as it is told.
    ///
    /// # Errors
    /// What registration or the first receive reported.
    pub fn open(domain: &Domain, endpoint: Endpoint, peer: Peer, config: LinkConfig) -> Result<Link, RunError> {
        let spec = efa_core::PoolSpec::new(config.max_bytes.max(1), BUFFERS_PER_SIDE as usize).alignment(4096);
        let pool = domain.buffers(&spec)?;
        let mut link = Link {
            endpoint,
            peer,
            batch: Batch::new(),
            mode: config.mode,
            inject_up_to: config.inject,
            size: 0,
            outgoing: pool.take(),
            arrived: None,
            behind: None,
            posts: 0,
            completions: 0,
            messages_sent: 0,
            messages_received: 0,
            pool,
        };
        while let Some(buf) = link.pool.take() {
            link.post_receive(buf)?;
        }
        Ok(link)
    }

    /// Sets the size of the messages that follow.
    pub fn set_size(&mut self, size: usize) {
        self.size = size;
        if let Some(buf) = &mut self.outgoing {
            buf.set_len(size);
        }
    }

    /// Size of the messages in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The bytes of the next message; empty while it is being sent.
    pub fn outgoing(&mut self) -> &mut [u8] {
        self.outgoing.as_deref_mut().unwrap_or_default()
    }

    /// Whether the last send has completed, so that its buffer may be written again.
    #[inline]
    pub fn sent(&self) -> bool {
        self.outgoing.is_some()
    }

    /// Whether a message has arrived.
    #[inline]
    pub fn arrived(&self) -> bool {
        self.arrived.is_some()
    }

    /// Completions so far: of sends and receives, not of injects, which have none.
    #[inline]
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// Operations posted so far that have a completion.
    pub fn posts(&self) -> u64 {
        self.posts
    }

    /// Messages sent so far, injected ones among them.
    pub fn messages_sent(&self) -> u64 {
        self.messages_sent
    }

    /// Messages that were received and taken so far.
    pub fn messages_received(&self) -> u64 {
        self.messages_received
    }

    /// Operations in flight.
    pub fn in_flight(&self) -> u64 {
        self.endpoint.in_flight() as u64
    }

    /// Sends the outgoing message; `false` when a queue is full.
    #[inline]
    pub(super) fn try_send(&mut self) -> Result<bool, RunError> {
        let Some(buf) = self.outgoing.take() else { return Ok(false) };
        if self.inject_up_to.is_some_and(|limit| self.size <= limit) {
            let sent = match self.mode {
                Mode::Msg => self.endpoint.inject(self.peer, &buf),
                Mode::Tagged => self.endpoint.inject_tagged(self.peer, &buf, TAG),
            };
            self.outgoing = Some(buf);
            return match sent {
                Ok(()) => {
                    self.messages_sent += 1;
                    Ok(true)
                }
                Err(kind) => self.blocked_by("inject", kind),
            };
        }
        let sent = match self.mode {
            Mode::Msg => self.endpoint.send(self.peer, buf, SEND),
            Mode::Tagged => self.endpoint.send_tagged(self.peer, buf, TAG, SEND),
        };
        match sent {
            Ok(()) => {
                self.posts += 1;
                self.messages_sent += 1;
                Ok(true)
            }
            Err(Rejected { buf, kind }) => {
                self.outgoing = buf.into_buf().ok();
                self.blocked_by("send", kind)
            }
        }
    }

    #[cold]
    fn blocked_by(&self, what: &'static str, kind: PostErrorKind) -> Result<bool, RunError> {
        match kind {
            PostErrorKind::WouldBlock => Ok(false),
            kind => Err(RunError::Post { what, kind }),
        }
    }

    /// Posts a receive into this buffer.
    #[inline]
    pub(super) fn post_receive(&mut self, buf: Buf) -> Result<(), RunError> {
        let posted = match self.mode {
            Mode::Msg => self.endpoint.recv(None, buf, RECEIVE),
            Mode::Tagged => self.endpoint.recv_tagged(None, buf, TAG, 0, RECEIVE),
        };
        // A full queue is an error here: only one shorter than two receives can be full.
        posted.map_err(|rejected| RunError::Post { what: "receive", kind: rejected.kind })?;
        self.posts += 1;
        Ok(())
    }

    /// Takes the message that arrived.
    #[inline]
    pub(super) fn take_arrived(&mut self) -> Result<(Buf, usize), RunError> {
        let taken = self.arrived.take().ok_or(RunError::Surplus)?;
        self.arrived = self.behind.take();
        self.messages_received += 1;
        Ok(taken)
    }

    /// Polls once; whether anything completed.
    #[inline]
    pub(super) fn poll(&mut self) -> Result<bool, RunError> {
        let finished = self.endpoint.poll(&mut self.batch)?;
        if finished == 0 {
            return Ok(false);
        }
        self.completions += finished as u64;
        for done in self.batch.by_ref() {
            let what = if done.kind() == OpKind::Receive { "receive" } else { "send" };
            // Every operation here owns its buffer.
            match (done.status, done.token, done.buf.into_buf()) {
                (Err(error), ..) => {
                    let what = if done.token == RECEIVE { "receive" } else { what };
                    return Err(RunError::Operation { what, error });
                }
                (Ok(()), RECEIVE, Ok(buf)) if self.arrived.is_none() => self.arrived = Some((buf, done.len)),
                (Ok(()), RECEIVE, Ok(buf)) if self.behind.is_none() => self.behind = Some((buf, done.len)),
                (Ok(()), SEND, Ok(buf)) => self.outgoing = Some(buf),
                _ => return Err(RunError::Surplus),
            }
        }
        Ok(true)
    }

    /// Closes the endpoint after whatever is in flight, at most `drain`.
    ///
    /// # Errors
    /// The code of `fi_close`.
    pub fn close(self, drain: std::time::Duration) -> Result<(), RunError> {
        self.endpoint.close(drain)?;
        Ok(())
    }
}
