//! Reliable datagram endpoints, their peers, operations and completions.

mod address;
mod batch;
mod completion;
mod config;
mod handles;
mod message;
mod neighbours;
mod parts;
mod slots;
mod tagged;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::{NonZeroU32, NonZeroU64};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

pub use address::Address;
pub use batch::Batch;
pub use completion::{Completion, OpKind};
pub use config::EndpointConfig;

use crate::domain::Domain;
use crate::error::{Errno, Error, OpError, OpErrorDetail, Result};
use crate::info::Info;
use crate::mem::{Payload, Region};
use crate::number;
use handles::{Av, Cq, Ep};
use neighbours::{Leaver, Member};
use parts::Parts;
use slots::SlotTable;

/// The caller's name for an operation; it comes back in the completion. Unique only if the caller makes it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Token(pub u64);

/// A peer that an endpoint has been introduced to with [`Endpoint::insert`].
///
/// It is good for that endpoint only; another one refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer {
    address: u64,
    owner: Owner,
}

/// An endpoint of a domain, by their numbers; one word, so that one comparison checks both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Owner(NonZeroU64);

impl Owner {
    #[inline]
    fn new(endpoint: NonZeroU32, domain: NonZeroU32) -> Owner {
        Owner(NonZeroU64::from(domain) | u64::from(endpoint.get()) << 32)
    }

    /// Whether the endpoint is of this domain.
    #[inline]
    fn is_of(self, domain: NonZeroU32) -> bool {
        self.0.get() as u32 == domain.get()
    }

    // Neither half is ever zero.

    #[inline]
    fn endpoint(self) -> NonZeroU32 {
        NonZeroU32::new((self.0.get() >> 32) as u32).unwrap_or(NonZeroU32::MIN)
    }

    #[inline]
    fn domain(self) -> NonZeroU32 {
        NonZeroU32::new(self.0.get() as u32).unwrap_or(NonZeroU32::MIN)
    }
}

/// Why an operation was not posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostErrorKind {
    /// A queue is full: poll, then try again. Either the provider said `FI_EAGAIN`, or as many operations are
    /// in flight as the completion queue has room for.
    WouldBlock,
    /// The provider or this crate refused it; trying again will not help.
    Fabric(Errno),
}

impl fmt::Display for PostErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PostErrorKind::WouldBlock => f.write_str("the queue is full for now"),
            PostErrorKind::Fabric(errno) => write!(f, "refused: {errno}"),
        }
    }
}

/// An operation that was not posted, with the buffer that it would have owned.
#[must_use = "it holds the buffer"]
pub struct Rejected<B> {
    /// The buffer, as it was.
    pub buf: B,
    /// Why.
    pub kind: PostErrorKind,
}

impl<B> fmt::Debug for Rejected<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rejected({:?})", self.kind)
    }
}

impl<B> fmt::Display for Rejected<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)
    }
}

impl<B> std::error::Error for Rejected<B> {}

/// An endpoint with a completion queue and an address vector of its own.
///
/// Every operation moves its buffer in, and its completion moves it out again. All data-path methods take
/// `&mut self`: that is the serialisation which `FI_THREAD_COMPLETION` demands, proved by the compiler. An
/// endpoint may move to another thread; it cannot be used from two at once:
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<efa_core::Endpoint>();
/// ```
///
/// Forgetting an endpoint leaks its memory, buffers in flight included, and is safe. Dropping it closes
/// the libfabric endpoint first and only then gives the buffers back.
///
/// Where the provider lets endpoints of one process use each other's memory (`shm`, `sm2`, `lnx`, `efa`), an
/// endpoint that is dropped or closed stays open behind the scenes, with its buffers in flight and its share of
/// /dev/shm, until those of this process that it was introduced to, in either direction, are dropped as well.
pub struct Endpoint {
    /// Moved out once, when the endpoint is dropped or closed.
    parts: ManuallyDrop<Parts>,
    member: Member,
    id: Owner,
    tagged: bool,
    directed: bool,
    source: bool,
    inject_bytes: usize,
    max_message_bytes: usize,
    not_sync: PhantomData<Cell<()>>,
}

static LAST_NUMBER: AtomicU32 = AtomicU32::new(0);

impl Endpoint {
    pub(crate) fn open(domain: &Domain, info: &Info, config: &EndpointConfig) -> Result<Endpoint> {
        let id = Owner::new(number::next(&LAST_NUMBER, "number of endpoints")?, domain.0.number);
        let info = config.tailor(info)?;
        let domain = domain.0.clone();
        let depth = config.depth(&info);
        let av = Av::open(&domain, &info, config.peers)?;
        let cq = Cq::open(&domain, depth)?;
        let ep = Ep::open(&domain, &info, &av, &cq)?;
        let parts = Parts { ep, cq, av, ops: SlotTable::new(depth), domain, provider: info.provider() };
        let member = neighbours::join(&parts.provider, || parts.ep.address())?;
        Ok(Endpoint {
            tagged: parts.ep.has_tagged() && info.caps().contains(crate::Caps::TAGGED),
            directed: config.directed_receive,
            source: config.source,
            inject_bytes: info.inject_bytes(),
            max_message_bytes: info.max_message_bytes(),
            parts: ManuallyDrop::new(parts),
            member,
            id,
            not_sync: PhantomData,
        })
    }

    /// The address by which peers reach this endpoint.
    ///
    /// # Errors
    ///
    /// The code of `fi_getname`.
    pub fn address(&self) -> Result<Address> {
        self.parts.ep.address()
    }

    /// Introduces a peer by the address that its own [`address`](Endpoint::address) returned.
    ///
    /// # Errors
    ///
    /// The code of `fi_av_insert`; [`Error::Invalid`] for an address that is empty or too long, or of an endpoint
    /// of this process that is gone, where the provider would use the memory that it had.
    pub fn insert(&mut self, address: &Address) -> Result<Peer> {
        let Parts { av, domain, provider, .. } = &mut *self.parts;
        neighbours::meet(self.member, provider, address)?;
        let _guard = domain.control();
        Ok(Peer { address: av.insert(address)?, owner: self.id })
    }

    /// Operations in flight: posted, completion not yet polled.
    pub fn in_flight(&self) -> usize {
        self.parts.ops.filled()
    }

    /// The most operations that can be in flight, which is the depth of the completion queue.
    pub fn depth(&self) -> usize {
        self.parts.ops.capacity()
    }

    /// The longest message, in bytes, that [`inject`](Endpoint::inject) takes.
    pub fn inject_bytes(&self) -> usize {
        self.inject_bytes
    }

    /// The longest message in bytes.
    pub fn max_message_bytes(&self) -> usize {
        self.max_message_bytes
    }

    /// The provider's address of a peer, if it is this endpoint's peer.
    #[inline]
    fn resolve(&self, peer: Peer) -> Result<u64, PostErrorKind> {
        if peer.owner == self.id { Ok(peer.address) } else { Err(PostErrorKind::Fabric(Errno::INVAL)) }
    }

    /// As [`resolve`](Endpoint::resolve), if the memory is registered with this endpoint's domain as well: to
    /// another one its descriptor may be an object of another kind.
    #[inline]
    fn resolve_for(&self, peer: Peer, region: &Region) -> Result<u64, PostErrorKind> {
        if peer.owner != self.id {
            return Err(PostErrorKind::Fabric(Errno::INVAL));
        }
        // In this order the compiler has the owner in a register already.
        if !self.id.is_of(region.domain) {
            return Err(PostErrorKind::Fabric(Errno::INVAL));
        }
        Ok(peer.address)
    }

    /// The address to receive from: anybody, or one peer where directed receives are on; the memory as above.
    #[inline]
    fn resolve_source(&self, from: Option<Peer>, region: &Region) -> Result<u64, PostErrorKind> {
        match from {
            None if !self.id.is_of(region.domain) => Err(PostErrorKind::Fabric(Errno::INVAL)),
            None => Ok(efa_sys::FI_ADDR_UNSPEC),
            Some(_) if !self.directed => Err(UNSUPPORTED),
            Some(peer) => self.resolve_for(peer, region),
        }
    }

    /// Drives progress and moves finished operations into `out`, at most a batch of them; returns how many.
    ///
    /// Completions that `out` still held are dropped. An operation that failed is a [`Completion`] whose
    /// status is an error; nothing to report gives 0.
    ///
    /// # Errors
    ///
    /// The queue itself failed: [`Error::Unattributed`] for an error outside of any operation (a failed
    /// inject), [`Error::Spurious`] when the provider breaks its contract, otherwise the code of `fi_cq_read`.
    /// Completions read together with it are in `out`.
    #[inline]
    pub fn poll(&mut self, out: &mut Batch) -> Result<usize> {
        // One branch for both.
        if out.remaining() | isize::from(self.source) != 0 {
            return self.poll_anew(out).map_err(|error| *error);
        }
        let ret = self.parts.cq.read(out);
        // One completion is what a latency is made of: it and none are all that is worth having in line.
        if ret == 1 {
            // SAFETY: the provider says that it wrote one entry.
            let context = unsafe { out.first_context() };
            let Some(held) = self.parts.ops.take(context) else {
                return self.poll_spurious(out).map_err(|error| *error);
            };
            out.hold_first(held);
            return Ok(1);
        }
        none_finished();
        if ret == -(efa_sys::FI_EAGAIN as isize) {
            return Ok(0);
        }
        // Boxed, so that the usual result stays in registers.
        self.poll_rest(ret, out).map_err(|error| *error)
    }

    /// [`poll`](Endpoint::poll) of one completion that belongs to no operation.
    #[cold]
    #[inline(never)]
    fn poll_spurious(&mut self, out: &mut Batch) -> Result<usize, Box<Error>> {
        self.poll_rest(1, out)
    }

    /// [`poll`](Endpoint::poll) where sources are read, or completions are left to be dropped.
    #[inline(never)]
    fn poll_anew(&mut self, out: &mut Batch) -> Result<usize, Box<Error>> {
        out.clear();
        let ret = if self.source { self.parts.cq.read_from(out) } else { self.parts.cq.read(out) };
        self.poll_rest(ret, out)
    }

    /// What [`poll`](Endpoint::poll) leaves out of line: what is rare, or shared by several completions.
    #[inline(never)]
    fn poll_rest(&mut self, ret: isize, out: &mut Batch) -> Result<usize, Box<Error>> {
        if ret == -(efa_sys::FI_EAGAIN as isize) {
            return Ok(0);
        }
        if !(1..=Batch::CAPACITY as isize).contains(&ret) {
            return self.poll_error(ret, out).map_err(Box::new);
        }
        let owner = self.source.then_some(self.id);
        let ops = &mut self.parts.ops;
        // SAFETY: the batch was cleared, the provider says that it wrote `ret` entries, with sources where those
        // were asked for, and `ret` is within the capacity.
        match unsafe { out.adopt(ret as usize, owner, |entry| ops.take(entry.op_context)) } {
            None => Ok(ret as usize),
            Some(entry) => Err(Box::new(spurious(&entry))),
        }
    }

    /// The slow half of `poll`: reads the error entry behind `FI_EAVAIL`.
    #[cold]
    fn poll_error(&mut self, ret: isize, out: &mut Batch) -> Result<usize> {
        if ret == 0 {
            return Ok(0);
        }
        if ret != -(efa_sys::FI_EAVAIL as isize) {
            return Err(Error::call("fi_cq_read", self.parts.domain.label(), ret as i64));
        }
        let Some((entry, prov_text)) = self.parts.cq.read_error()? else { return Ok(0) };
        let error = OpError::new(OpErrorDetail {
            // Positive by the man page; some providers (shm of 1.17) write it negated.
            errno: Errno::of_return(entry.err.into()),
            prov_errno: entry.prov_errno,
            prov_text,
            overflow: entry.olen,
        });
        match self.parts.ops.take(entry.op_context) {
            Some(held) => {
                out.fail(Completion::failed(&entry, held, error));
                Ok(1)
            }
            None => Err(Error::Unattributed(error)),
        }
    }

    /// Asks the provider to cancel the operation in flight with this token; its completion still arrives,
    /// either cancelled (`FI_ECANCELED`) or as if nothing had been asked. Returns whether there was one.
    ///
    /// Providers cancel receives; most let sends run.
    ///
    /// # Errors
    ///
    /// The code of `fi_cancel`; an operation that has just finished is no error.
    pub fn cancel(&mut self, token: Token) -> Result<bool> {
        match self.parts.ops.find(token) {
            Some(context) => self.parts.ep.cancel(context).map(|()| true),
            None => Ok(false),
        }
    }

    /// Cancels what is in flight, waits up to `drain` for it to finish, closes, and returns the payloads.
    ///
    /// Providers cancel receives; most let sends run, and those that are cancelled fail. A send that has completed here
    /// may still be on its way: agree with the peer before closing. Where endpoints
    /// of one process share memory, what is still in flight while another one may use this one's comes back to the
    /// pool when that is gone, and is not returned.
    ///
    /// # Errors
    ///
    /// The code of `fi_close`; buffers still in flight are then leaked, because the provider may reach them.
    pub fn close(mut self, drain: Duration) -> Result<Vec<Payload>> {
        let mut payloads = Vec::new();
        let contexts: Vec<_> = self.parts.ops.contexts().collect();
        for context in contexts {
            // A provider without cancel keeps the operation, and the wait below ends at its deadline.
            let _ = self.parts.ep.cancel(context);
        }
        let started = Instant::now();
        let mut batch = Batch::new();
        while self.parts.ops.filled() > 0 {
            let polled = self.poll(&mut batch);
            // A poll that fails may have completions all the same.
            payloads.extend(batch.by_ref().map(|done| done.buf));
            let working = matches!(polled, Ok(_) | Err(Error::Unattributed(_)));
            if !working || started.elapsed() >= drain {
                break;
            }
        }
        let mut closed = Ok(());
        // The parts are all that has to be dropped.
        for mut leaver in ManuallyDrop::new(self).leave() {
            if leaver.own {
                closed = leaver.parts.close_endpoint();
                payloads.append(&mut leaver.parts.ops.drain());
            }
        }
        closed.map(|()| payloads)
    }

    /// Moves the parts out, to where they are kept as long as neighbours need them; what comes back is to be dropped
    /// one by one.
    fn leave(&mut self) -> Vec<Leaver<Parts>> {
        // SAFETY: called once: by Drop, or by `close`, which prevents that.
        let parts = unsafe { ManuallyDrop::take(&mut self.parts) };
        neighbours::leave(self.member, parts)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Endpoint({}, {} of {} in flight)",
            self.parts.domain.label(),
            self.parts.ops.filled(),
            self.parts.ops.capacity()
        )
    }
}

const UNSUPPORTED: PostErrorKind = PostErrorKind::Fabric(Errno::OPNOTSUPP);

/// Tells the compiler that time spent on finding nothing is less of a loss than time spent on a completion.
#[cold]
fn none_finished() {}

#[cold]
fn spurious(entry: &efa_sys::fi_cq_tagged_entry) -> Error {
    Error::Spurious { context: entry.op_context as usize, flags: entry.flags }
}

// Three ways to refuse a post, each out of line and by itself: merged, they would cost the posts that succeed.

/// A post that this crate refuses.
#[cold]
#[inline(never)]
fn rejected<B>(buf: B, kind: PostErrorKind) -> Result<(), Rejected<B>> {
    Err(Rejected { buf, kind })
}

/// A post for which there is no slot.
#[cold]
#[inline(never)]
fn no_slot<B>(buf: B) -> Result<(), Rejected<B>> {
    Err(Rejected { buf, kind: PostErrorKind::WouldBlock })
}

/// A post that the provider refused.
#[cold]
#[inline(never)]
fn not_posted<B>(buf: B, ret: isize) -> Result<(), Rejected<B>> {
    Err(Rejected { buf, kind: refused(ret) })
}

/// The kind of a failed post.
#[cold]
fn refused(ret: isize) -> PostErrorKind {
    if ret == -(efa_sys::FI_EAGAIN as isize) {
        PostErrorKind::WouldBlock
    } else {
        PostErrorKind::Fabric(Errno::of_return(ret as i64))
    }
}
