//! A running device: the model with its lock, its sockets and its clock.
//!
//! One lock is around everything. A program that polls a completion queue drives the device itself,
//! with no thread in between: it receives, lets the model work, and sends. While nobody polls, the
//! helper thread ([`crate::helper`]) does the same.

use std::io;
use std::mem::MaybeUninit;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};

use crate::config::Config;
use crate::control;
use crate::counter_files::CounterFiles;
use crate::helper::Helper;
use crate::memory::ProcessMemory;
use crate::model::link::Link;
use crate::model::{
    AhNumber, Completion, Counters, Cqn, Device, DeviceConfig, DeviceError, Features, Gid, MrConfig, MrKey, Pd,
    QpChange, QpConfig, QpInfo, QpKind, Qpn, RecvWr, SendWr, Transmit,
};
use crate::net::{BATCH, QpSocket, RecvBatch, SendBatch};

/// Completions that one poll of a queue takes at most.
const POLL_BATCH: usize = 32;

/// Sockets of destroyed queue pairs that stay bound, to tell late packets that the queue pair is gone.
const GRAVES: usize = 16;

/// Polls of an application between two looks at those sockets.
const GRAVE_POLLS: u64 = 256;

/// Sockets that are each asked for packets; of more, the kernel is first asked which have some.
const FEW_SOCKETS: usize = 2;

/// Full batches that one turn receives from one socket at most, so that sending gets its turn.
const TURNS: usize = 4;

/// Why a call was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The model refused it.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The system refused a socket, a descriptor or a thread.
    #[error("{what}: {source}")]
    System {
        /// What was asked for.
        what: &'static str,
        /// The system's answer.
        source: io::Error,
    },
}

/// What a queue pair is to be like; its number is the runtime's to choose.
#[derive(Clone, Copy, Debug)]
pub struct QpRequest {
    /// Its protection domain.
    pub pd: Pd,
    /// Its protocol.
    pub kind: QpKind,
    /// Where sends complete.
    pub send_cq: Cqn,
    /// Where receives complete.
    pub recv_cq: Cqn,
    /// Entries of the send queue.
    pub sq_depth: u32,
    /// Entries of the receive queue.
    pub rq_depth: u32,
    /// Writes with immediate data take no receive.
    pub unsolicited_writes: bool,
}

/// Told once that a completion queue has something, after it was armed.
pub trait Notify: Send + Sync {
    /// Called with the device's lock held: must not call the device.
    fn notify(&self);
}

/// Completions taken from a queue, oldest last, so that taking one is cheap.
#[derive(Debug, Default)]
pub struct Completions {
    list: Vec<Completion>,
}

impl Completions {
    /// Room for one poll.
    pub fn new() -> Self {
        Completions { list: Vec::with_capacity(POLL_BATCH) }
    }

    /// Takes the oldest.
    pub fn take_oldest(&mut self) -> Option<Completion> {
        self.list.pop()
    }

    /// Drops those of a queue pair that is gone.
    pub fn forget(&mut self, qpn: Qpn) {
        self.list.retain(|completion| completion.qpn != qpn);
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

/// Where a device shows itself in the file system.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    /// The directory of the counters' files.
    pub counters: Option<PathBuf>,
    /// The socket on which the device takes commands.
    pub control: Option<PathBuf>,
}

/// A device that is open.
pub struct Runtime {
    ip: IpAddr,
    core: Mutex<Core>,
    /// Polls by the application, so that the helper knows whether it is needed.
    polls: AtomicU64,
    /// Whether the helper sleeps without looking at sockets, and so must be woken for an armed queue.
    helper_dozes: AtomicBool,
    helper: Mutex<Option<Helper>>,
    /// Wakes the helper.
    wake: OwnedFd,
    /// All sockets, for the helper to wait on.
    epoll: OwnedFd,
    counter_files: CounterFiles,
    /// The socket on which the device takes commands.
    control: Option<PathBuf>,
}

/// What the lock is around.
pub(crate) struct Core {
    pub(crate) device: Device,
    memory: ProcessMemory,
    /// Sockets by queue pair, the living ones first.
    sockets: Vec<QpSocket>,
    living: usize,
    /// Sockets to send from where there are several flows.
    flows: Vec<QpSocket>,
    next_flow: usize,
    sends: SendBatch,
    receives: RecvBatch,
    pub(crate) link: Link,
    armed: Vec<(Cqn, Arc<dyn Notify>)>,
    /// When the helper wakes by itself, if it sleeps: an earlier wish of the model must wake it.
    helper_wakes_ns: Option<u64>,
}

impl Runtime {
    /// Opens the device bound to `ip`. No socket and no thread is made before the first queue pair.
    ///
    /// `memory` is what its registrations reach; `seed` decides packet numbers and the link's faults.
    ///
    /// # Errors
    ///
    /// The system has no descriptors left.
    pub fn open(
        config: &Config,
        key: u128,
        ip: IpAddr,
        seed: u64,
        memory: ProcessMemory,
        paths: Paths,
    ) -> Result<Arc<Self>, RuntimeError> {
        let mut device_config = DeviceConfig::new(Gid::from(ip), key.to_le_bytes(), seed);
        device_config.mtu = config.mtu;
        device_config.max_qp = 1 << 16;
        device_config.timeout_ns = config.timeout.as_nanos() as u64;
        device_config.features = Features {
            read: config.generation.rdma_read(),
            write: config.generation.rdma_write(),
            unsolicited_writes: config.generation.unsolicited_write(),
        };
        device_config.flows = config.flows;
        let mut device = Device::new(device_config);
        device.faults.drop_egress = config.drops.egress.clone();
        device.faults.drop_ingress = config.drops.ingress.clone();
        let slot_len = device.datagram_len();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("epoll"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(system("eventfd"))?;
        Ok(Arc::new(Runtime {
            ip,
            core: Mutex::new(Core {
                device,
                memory,
                sockets: Vec::new(),
                living: 0,
                flows: Vec::new(),
                next_flow: 0,
                sends: SendBatch::new(slot_len),
                receives: RecvBatch::new(slot_len),
                link: Link::new(config.link.to_model(), seed),
                armed: Vec::new(),
                helper_wakes_ns: None,
            }),
            polls: AtomicU64::new(0),
            helper_dozes: AtomicBool::new(false),
            helper: Mutex::new(None),
            wake,
            epoll,
            counter_files: CounterFiles::new(paths.counters),
            control: paths.control,
        }))
    }

    /// Makes a completion queue.
    ///
    /// # Errors
    ///
    /// As for [`Device::create_cq`].
    pub fn create_cq(&self, depth: usize) -> Result<Cqn, RuntimeError> {
        Ok(self.lock().device.create_cq(depth)?)
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    ///
    /// As for [`Device::destroy_cq`].
    pub fn destroy_cq(&self, cqn: Cqn) -> Result<(), RuntimeError> {
        let mut core = self.lock();
        core.device.destroy_cq(cqn)?;
        core.armed.retain(|(armed, _)| *armed != cqn);
        Ok(())
    }

    /// Makes a queue pair on a free port, and starts the helper thread with the first.
    ///
    /// # Errors
    ///
    /// No port is free, the address is not of this host, or the model refuses.
    pub fn create_qp(self: &Arc<Self>, request: QpRequest) -> Result<Qpn, RuntimeError> {
        let socket = QpSocket::bind(self.ip).map_err(system("UDP socket"))?;
        let qpn = Qpn(u32::from(socket.port()));
        {
            let mut core = self.lock();
            for _ in core.flows.len()..usize::from(core.device.config().flows).saturating_sub(1) {
                let flow = QpSocket::bind(self.ip).map_err(system("UDP socket"))?;
                core.flows.push(flow);
            }
            core.device.create_qp(QpConfig {
                qpn,
                pd: request.pd,
                kind: request.kind,
                send_cq: request.send_cq,
                recv_cq: request.recv_cq,
                sq_depth: request.sq_depth,
                rq_depth: request.rq_depth,
                unsolicited_writes: request.unsolicited_writes,
            })?;
            let data = epoll::EventData::new_u64(u64::from(socket.port()));
            if let Err(error) = epoll::add(&self.epoll, socket.as_fd(), data, epoll::EventFlags::IN) {
                core.device.destroy_qp(qpn)?;
                return Err(system("epoll")(error));
            }
            let at = core.living;
            core.sockets.insert(at, socket);
            core.living += 1;
        }
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if helper.is_none() {
            *helper = Some(Helper::start(self).map_err(system("helper thread"))?);
        }
        Ok(qpn)
    }

    /// Destroys a queue pair; its port stays taken for a while, so that late packets are answered.
    ///
    /// # Errors
    ///
    /// As for [`Device::destroy_qp`].
    pub fn destroy_qp(&self, qpn: Qpn) -> Result<(), RuntimeError> {
        let mut core = self.lock();
        core.device.destroy_qp(qpn)?;
        core.transmit(now());
        core.bury(qpn);
        drop(core);
        self.show_counters();
        Ok(())
    }

    /// Changes a queue pair.
    ///
    /// # Errors
    ///
    /// As for [`Device::modify_qp`].
    pub fn modify_qp(&self, qpn: Qpn, change: QpChange) -> Result<(), RuntimeError> {
        let mut core = self.lock();
        core.device.modify_qp(qpn, change)?;
        core.notify();
        Ok(())
    }

    /// The state of a queue pair.
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpInfo> {
        self.lock().device.query_qp(qpn)
    }

    /// Registers memory.
    ///
    /// # Errors
    ///
    /// As for [`Device::register`].
    pub fn register(&self, mr: MrConfig) -> Result<MrKey, RuntimeError> {
        Ok(self.lock().device.register(mr)?)
    }

    /// Takes a registration back; when this returns, nothing of it is touched any more.
    ///
    /// # Errors
    ///
    /// As for [`Device::deregister`].
    pub fn deregister(&self, key: MrKey) -> Result<(), RuntimeError> {
        Ok(self.lock().device.deregister(key)?)
    }

    /// Makes an address handle.
    ///
    /// # Errors
    ///
    /// As for [`Device::create_ah`].
    pub fn create_ah(&self, gid: Gid) -> Result<AhNumber, RuntimeError> {
        Ok(self.lock().device.create_ah(gid)?)
    }

    /// Destroys an address handle.
    ///
    /// # Errors
    ///
    /// As for [`Device::destroy_ah`].
    pub fn destroy_ah(&self, ah: AhNumber) -> Result<(), RuntimeError> {
        Ok(self.lock().device.destroy_ah(ah)?)
    }

    /// Starts posting: the lock is held until the result is dropped, which sends.
    pub fn post(&self) -> Poster<'_> {
        Poster { runtime: self, core: self.lock(), now: now() }
    }

    /// Takes completions of a queue into `out`, which must be empty, after a turn of the device if there
    /// are none yet.
    pub fn poll(&self, cqn: Cqn, out: &mut Completions) -> bool {
        let polls = self.polls.fetch_add(1, Ordering::Relaxed);
        let mut core = self.lock();
        core.take(cqn, out);
        if out.is_empty() {
            let now = now();
            core.receive(now, polls.is_multiple_of(GRAVE_POLLS), &self.epoll);
            core.take(cqn, out);
            core.due(now);
            core.transmit(now);
            core.notify();
            if core.helper_oversleeps() {
                self.wake_helper();
            }
        }
        !out.is_empty()
    }

    /// Asks for one notification as soon as a queue has something.
    pub fn arm(&self, cqn: Cqn, notify: Arc<dyn Notify>) {
        let mut core = self.lock();
        core.armed.retain(|(armed, _)| *armed != cqn);
        core.armed.push((cqn, notify));
        core.notify();
        if core.helper_oversleeps() || self.helper_dozes.load(Ordering::SeqCst) {
            self.wake_helper();
        }
    }

    /// What the device counted.
    pub fn counters(&self) -> Counters {
        *self.lock().device.counters()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic while the lock was held leaves a device that is at worst stuck, never unsound.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn polls(&self) -> u64 {
        self.polls.load(Ordering::Relaxed)
    }

    pub(crate) fn set_dozing(&self, dozes: bool) {
        self.helper_dozes.store(dozes, Ordering::SeqCst);
    }

    pub(crate) fn wake_helper(&self) {
        // It fails only where the counter is full, and then the helper is being woken anyway.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    pub(crate) fn wake_fd(&self) -> &OwnedFd {
        &self.wake
    }

    pub(crate) fn epoll_fd(&self) -> &OwnedFd {
        &self.epoll
    }

    /// Where the helper listens for commands.
    pub(crate) fn control_path(&self) -> Option<&Path> {
        self.control.as_deref()
    }

    /// Brings the files of the counters up to date.
    pub(crate) fn show_counters(&self) -> Counters {
        let counters = self.counters();
        self.counter_files.show(&counters);
        counters
    }

    /// Stops the helper thread; the device works on, driven by polls alone.
    pub fn close(&self) {
        let helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(helper) = helper {
            helper.stop(self);
        }
        self.show_counters();
    }
}

/// Posts to work queues under one lock, and sends when it is dropped.
pub struct Poster<'a> {
    runtime: &'a Runtime,
    core: MutexGuard<'a, Core>,
    now: u64,
}

impl Poster<'_> {
    /// Posts a send, write or read.
    ///
    /// # Errors
    ///
    /// As for [`Device::post_send`].
    pub fn send(&mut self, qpn: Qpn, wr: SendWr<'_>) -> Result<(), DeviceError> {
        self.core.device.post_send(self.now, qpn, wr)
    }

    /// Posts a receive.
    ///
    /// # Errors
    ///
    /// As for [`Device::post_recv`].
    pub fn receive(&mut self, qpn: Qpn, wr: RecvWr<'_>) -> Result<(), DeviceError> {
        self.core.device.post_recv(qpn, wr)
    }
}

impl Drop for Poster<'_> {
    fn drop(&mut self) {
        self.core.transmit(self.now);
        self.core.notify();
        if self.core.helper_oversleeps() {
            self.runtime.wake_helper();
        }
    }
}

impl Core {
    /// Everything that can be done now.
    pub(crate) fn turn(&mut self, now: u64, epoll: &OwnedFd) {
        self.receive(now, true, epoll);
        self.due(now);
        self.transmit(now);
        self.notify();
    }

    /// How long the helper may sleep from `now` on; noted, so that others know whether to wake it.
    pub(crate) fn sleep_until_turn(&mut self, now: u64, longest: Duration) -> Duration {
        let longest = self.next_turn().map_or(longest, |at| longest.min(Duration::from_nanos(at.saturating_sub(now))));
        self.helper_wakes_ns = Some(now.saturating_add(longest.as_nanos() as u64));
        longest
    }

    /// Whether the helper sleeps past the next turn; asked once, for the caller wakes it.
    fn helper_oversleeps(&mut self) -> bool {
        let oversleeps = match (self.helper_wakes_ns, self.next_turn()) {
            (Some(wakes), Some(turn)) => turn < wakes,
            _ => false,
        };
        if oversleeps {
            self.helper_wakes_ns = None;
        }
        oversleeps
    }

    /// When the device wants its next turn without a packet.
    fn next_turn(&self) -> Option<u64> {
        match (self.device.next_timeout(), self.link.next_due()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether an application waits for a notification.
    pub(crate) fn is_armed(&self) -> bool {
        !self.armed.is_empty()
    }

    /// Runs a command of the control socket, and what follows from it.
    pub(crate) fn execute(&mut self, command: &str, epoll: &OwnedFd) -> String {
        let answer = control::execute(command, &mut self.device, &mut self.link.config);
        self.turn(now(), epoll);
        answer
    }

    fn take(&mut self, cqn: Cqn, out: &mut Completions) {
        while out.list.len() < POLL_BATCH {
            let Some(completion) = self.device.poll_cq(cqn) else {
                break;
            };
            out.list.push(completion);
        }
        out.list.reverse();
    }

    /// Receives what is there for living queue pairs, and for dead ones too if `graves`.
    ///
    /// With more than a few sockets, one call asks which of them have something.
    fn receive(&mut self, now: u64, graves: bool, epoll: &OwnedFd) {
        if graves || self.living <= FEW_SOCKETS {
            let count = if graves { self.sockets.len() } else { self.living };
            for index in 0..count {
                self.receive_from(now, index);
            }
            return;
        }
        let mut events = [MaybeUninit::<epoll::Event>::uninit(); BATCH];
        // Nothing is lost when it fails: the next turn asks again.
        let (ready, _) = epoll::wait(epoll, &mut events, Some(&Timespec::default())).unwrap_or_default();
        for event in ready {
            let port = event.data.u64();
            if let Some(index) = self.sockets.iter().position(|socket| u64::from(socket.port()) == port) {
                self.receive_from(now, index);
            }
        }
    }

    fn receive_from(&mut self, now: u64, index: usize) {
        let Some(socket) = self.sockets.get(index) else {
            return;
        };
        for _ in 0..TURNS {
            let count = socket.receive(&mut self.receives);
            for index in 0..count {
                let packet = self.receives.packet(index);
                self.device.handle_datagram(now, packet, &mut self.memory);
            }
            if self.receives.has_failed() {
                learn(socket, self.sockets.get(..self.living).unwrap_or(&[]), &mut self.device);
            }
            // A single packet is handed over before the next is looked for.
            if count < BATCH {
                break;
            }
        }
    }

    fn due(&mut self, now: u64) {
        if self.device.next_timeout().is_some_and(|due| due <= now) {
            self.device.handle_timeout(now);
        }
    }

    fn transmit(&mut self, now: u64) {
        let direct = self.link.config.is_transparent() && self.link.is_empty();
        loop {
            let Some(slot) = self.sends.slot() else {
                self.flush();
                continue;
            };
            let made = if direct {
                self.device.poll_transmit(now, &self.memory, slot)
            } else {
                while let Some(made) = self.device.poll_transmit(now, &self.memory, slot) {
                    self.link.push(now, made, slot.get(..made.len).unwrap_or(&[]));
                }
                self.link.pop(now, slot)
            };
            let Some(Transmit { dst, dst_qpn, len, .. }) = made else {
                break;
            };
            self.sends.push(len, dst.ip(), dst_qpn.0 as u16);
        }
        self.flush();
    }

    /// Sends the batch, each on the next flow. Which socket does not matter to the peer: packets say
    /// themselves whose they are.
    fn flush(&mut self) {
        if self.sends.is_empty() {
            return;
        }
        let flows = self.flows.len() + 1;
        self.next_flow = (self.next_flow + 1) % flows;
        match self.flows.get(self.next_flow).or(self.sockets.first()) {
            Some(socket) => {
                socket.send(&mut self.sends);
                if self.sends.has_failed() {
                    learn(socket, self.sockets.get(..self.living).unwrap_or(&[]), &mut self.device);
                }
            }
            None => self.sends.clear(),
        }
    }

    fn notify(&mut self) {
        let Core { armed, device, .. } = self;
        armed.retain(|(cqn, notify)| {
            let waits = device.cq_fill(*cqn).is_some_and(|(fill, _)| fill > 0);
            if waits {
                notify.notify();
            }
            !waits
        });
    }

    /// Moves the socket of a queue pair to the graves; the oldest grave is given up for it.
    fn bury(&mut self, qpn: Qpn) {
        let living = self.sockets.get(..self.living).unwrap_or(&[]);
        if let Some(at) = living.iter().position(|socket| u32::from(socket.port()) == qpn.0) {
            let socket = self.sockets.remove(at);
            self.living -= 1;
            self.sockets.insert(self.living, socket);
            self.sockets.truncate(self.living + GRAVES);
        }
    }
}

/// Takes the errors of a socket: a peer whose host says that its port is closed is gone. The packet may have
/// been one of any queue pair, for they all leave from any socket.
fn learn(socket: &QpSocket, living: &[QpSocket], device: &mut Device) {
    while let Some(peer) = socket.next_refused() {
        for local in living {
            let local = Qpn(u32::from(local.port()));
            device.peer_gone(local, Gid::from(peer.ip()), Qpn(u32::from(peer.port())));
        }
    }
}

/// Nanoseconds of the monotonic clock.
///
/// Through the C library: rustix looks for the kernel's shared page by itself, and ends the process under
/// valgrind, which hides that page.
pub(crate) fn now() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is valid for a write; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> RuntimeError {
    move |error| RuntimeError::System { what, source: error.into() }
}
