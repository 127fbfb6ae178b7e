//! Completion channels: a descriptor that becomes readable when an armed queue has something.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use efa_sim::Notify;

use crate::abi::{CompChannel, Context, Cq};
use crate::errno;

/// A channel: rdma-core's structure, and what the queues that use it share.
#[repr(C)]
pub(crate) struct SimChannel {
    base: CompChannel,
    pub(crate) events: Arc<Events>,
}

/// Events that wait to be taken, one for each count of the descriptor.
pub(crate) struct Events {
    /// An eventfd that counts down by one for each read.
    fd: OwnedFd,
    /// Queues by address: only compared and handed back to the application.
    waiting: Mutex<VecDeque<usize>>,
}

impl Events {
    /// Drops what a queue that goes away has waiting.
    pub(crate) fn forget(&self, cq: *mut Cq) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        waiting.retain(|addr| *addr != cq.addr());
        for _ in waiting.len()..before {
            self.count_down();
        }
    }

    fn add(&self, cq: usize) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(cq);
        let one = 1u64;
        // SAFETY: the descriptor is open, the value has 8 bytes. It fails only where the count is full.
        unsafe { libc::write(self.fd.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Waits for a count, unless the application made the descriptor one that does not block.
    fn count_down(&self) -> bool {
        let mut count = 0u64;
        // SAFETY: the descriptor is open, the value has 8 bytes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), size_of::<u64>()) };
        read == size_of::<u64>() as isize
    }
}

/// The notification of one queue.
pub(crate) struct CqNotify {
    pub(crate) events: Arc<Events>,
    pub(crate) cq: usize,
}

impl Notify for CqNotify {
    fn notify(&self) {
        self.events.add(self.cq);
    }
}

verb! { "IBVERBS_1.0", ibv_create_comp_channel,
/// Makes a channel.
///
/// # Safety
///
/// `context` is open.
unsafe fn sim_ibv_create_comp_channel(context: *mut Context) -> *mut CompChannel {
    // SAFETY: the call has no preconditions.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
    if fd < 0 {
        return std::ptr::null_mut();
    }
    // SAFETY: the descriptor was made just now, and nobody else has it.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    Box::into_raw(Box::new(SimChannel {
        base: CompChannel { context, fd, refcnt: 0 },
        events: Arc::new(Events { fd: owned, waiting: Mutex::new(VecDeque::new()) }),
    }))
    .cast()
}}

verb! { "IBVERBS_1.0", ibv_destroy_comp_channel,
/// Frees a channel.
///
/// # Safety
///
/// `channel` came from `ibv_create_comp_channel`, and no queue uses it any more.
unsafe fn sim_ibv_destroy_comp_channel(channel: *mut CompChannel) -> c_int {
    // SAFETY: the allocation was made as a box of the larger structure, and the caller gives it up.
    drop(unsafe { Box::from_raw(channel.cast::<SimChannel>()) });
    0
}}

/// What the queues of a channel share; none without a channel.
///
/// # Safety
///
/// `channel` is null or came from `ibv_create_comp_channel` and was not freed.
pub(crate) unsafe fn events_of(channel: *mut CompChannel) -> Option<Arc<Events>> {
    if channel.is_null() {
        return None;
    }
    // SAFETY: as the caller promises.
    let channel = unsafe { &*channel.cast::<SimChannel>() };
    Some(Arc::clone(&channel.events))
}

verb! { "IBVERBS_1.1", ibv_get_cq_event,
/// Takes an event, waiting for one unless the descriptor does not block.
///
/// # Safety
///
/// `channel` is a channel; the other pointers are valid for writes.
unsafe fn sim_ibv_get_cq_event(
    channel: *mut CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: as the caller promises.
    let Some(events) = (unsafe { events_of(channel) }) else {
        errno::set(libc::EINVAL);
        return -1;
    };
    if !events.count_down() {
        return -1;
    }
    let addr = events.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let Some(addr) = addr else {
        errno::set(libc::EAGAIN);
        return -1;
    };
    let found = std::ptr::with_exposed_provenance_mut::<Cq>(addr);
    // SAFETY: queues that are destroyed take their events with them, so this one exists.
    let context = unsafe { (*found).cq_context };
    // SAFETY: as the caller promises.
    unsafe { cq.write(found) };
    // SAFETY: as the caller promises.
    unsafe { cq_context.write(context) };
    0
}}

verb! { "IBVERBS_1.1", ibv_ack_cq_events,
/// Says that events were handled. Queues do not wait for that here.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_ack_cq_events(_cq: *mut Cq, _count: c_uint) {
}}
