//! Open devices, and what they say about themselves.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use efa_sim::model::MAX_SEND_SGES;
use efa_sim::sysfs::{FIRMWARE, VENDOR_ID, device_name};
use efa_sim::{Paths, ProcessMemory, Runtime};

use crate::abi::{
    self, Context, ContextOps, Device, DeviceAttr, DeviceAttrEx, PORT_ATTR_OLDEST, PortAttr, RawGid, VerbsContext,
};
use crate::completion;
use crate::errno;
use crate::host::{self, SimDevice};
use crate::{posting, queue_pair};

/// Limits of every device; those of a queue pair come from the model.
pub(crate) mod limits {
    use std::ffi::c_int;

    /// Entries of a send queue.
    pub(crate) const SQ_WR: u32 = 4096;
    /// Entries of a receive queue.
    pub(crate) const RQ_WR: u32 = 32768;
    /// Entries of a completion queue.
    pub(crate) const CQE: c_int = 1 << 18;
    /// Queue pairs. libfabric sizes a table with it and finds a queue pair by its number modulo that
    /// size; numbers are UDP ports, so that all of them fit.
    pub(crate) const QP: c_int = 1 << 16;
    /// Bytes of one remote read or write.
    pub(crate) const RDMA_SIZE: u32 = 1 << 30;
    /// Vectors for completion events; with a single one libfabric refuses waiting on a descriptor.
    pub(crate) const COMP_VECTORS: c_int = 2;
}

/// An open device: rdma-core's structure, whose last field the application points to, and our part.
#[repr(C)]
pub(crate) struct SimContext {
    verbs: VerbsContext,
    pub(crate) device: &'static SimDevice,
    pub(crate) runtime: Arc<Runtime>,
    /// Keeps `cmd_fd` and `async_fd` valid: never readable, never written.
    _file: File,
}

impl SimContext {
    /// The pointer that the application holds.
    fn as_ptr(self: Box<Self>) -> *mut Context {
        let raw = Box::into_raw(self);
        // SAFETY: a place inside of the allocation just turned into a pointer.
        unsafe { &raw mut (*raw).verbs.context }
    }

    /// Where the allocation starts whose context the application points to.
    fn start(context: *mut Context) -> *mut SimContext {
        let offset = std::mem::offset_of!(VerbsContext, context);
        context.wrapping_byte_sub(offset).cast()
    }

    /// The context behind a pointer of the application.
    ///
    /// # Safety
    ///
    /// `context` came from `ibv_open_device` and was not closed, and stays open as long as the
    /// reference is used.
    pub(crate) unsafe fn from_ptr<'a>(context: *mut Context) -> &'a SimContext {
        // SAFETY: the application's pointer is that to the last field of `verbs`, the first field.
        unsafe { &*SimContext::start(context) }
    }
}

/// Starts the device itself.
fn open_runtime(device: &SimDevice) -> Result<Arc<Runtime>, String> {
    let host = host::host().ok_or("no devices")?;
    // Different for every open device, so that no two queue pairs of one number are taken for another;
    // the same in every run where a seed is set.
    let seed = match host.config.seed {
        Some(seed) => seed.wrapping_add(device.index as u64),
        None => host::fresh_seed(),
    };
    // SAFETY: what is registered is the application's promise, made with `ibv_reg_mr`.
    let memory = unsafe { ProcessMemory::new() };
    let paths = Paths {
        counters: Some(device.counters.clone()),
        control: Some(host.directory.join(format!("{}.sock", device_name(device.index)))),
    };
    Runtime::open(&host.config, host.key, device.ip, seed, memory, paths).map_err(|error| error.to_string())
}

/// A verb of old or rare use that the device refuses.
unsafe extern "C" fn unsupported() -> c_int {
    libc::EOPNOTSUPP
}

unsafe extern "C" fn no_window() -> *mut c_void {
    errno::fail(libc::EOPNOTSUPP)
}

verb! { "IBVERBS_1.1", ibv_open_device,
/// Opens a device.
///
/// # Safety
///
/// `device` came from `ibv_get_device_list`.
unsafe fn sim_ibv_open_device(device: *mut Device) -> *mut Context {
    // SAFETY: as the caller promises.
    let sim = unsafe { SimDevice::from_ptr(device) };
    let Ok(file) = File::open("/dev/null") else {
        return errno::fail(libc::EMFILE);
    };
    let runtime = match open_runtime(sim) {
        Ok(runtime) => runtime,
        Err(reason) => {
            eprintln!("efa-sim: cannot open {}: {reason}", sim.ip);
            return errno::fail(libc::ENODEV);
        }
    };
    let ops = ContextOps {
        compat_query: [None; 7],
        alloc_mw: Some(no_window),
        bind_mw: Some(unsupported),
        dealloc_mw: Some(unsupported),
        compat_create_cq: None,
        poll_cq: Some(completion::poll_cq),
        req_notify_cq: Some(completion::req_notify_cq),
        compat_cq_and_srq: [None; 7],
        post_srq_recv: Some(unsupported),
        compat_qp: [None; 4],
        post_send: Some(posting::post_send),
        post_recv: Some(posting::post_recv),
        compat_rest: [None; 5],
    };
    let context = Context {
        device,
        ops,
        cmd_fd: file.as_raw_fd(),
        async_fd: file.as_raw_fd(),
        num_comp_vectors: limits::COMP_VECTORS,
        mutex: libc::PTHREAD_MUTEX_INITIALIZER,
        abi_compat: abi::ABI_IS_EXTENDED,
    };
    let verbs = VerbsContext {
        newest: [None; 6],
        query_port: Some(query_port),
        without_use_here: [None; 24],
        create_cq_ex: Some(completion::create_cq_ex),
        private: ptr::null_mut(),
        query_device_ex: Some(query_device_ex),
        flow: [None; 4],
        open_qp: None,
        create_qp_ex: Some(queue_pair::create_qp_ex),
        srq_and_xrcd: [None; 4],
        placeholder: 0,
        size: size_of::<VerbsContext>(),
        context,
    };
    Box::new(SimContext {
        verbs,
        device: sim,
        runtime,
        _file: file,
    })
    .as_ptr()
}}

verb! { "IBVERBS_1.1", ibv_close_device,
/// Closes a device.
///
/// # Safety
///
/// `context` came from `ibv_open_device`, and nothing made with it is used again.
unsafe fn sim_ibv_close_device(context: *mut Context) -> c_int {
    // SAFETY: the allocation was made as a box, and the caller gives it up.
    let sim = unsafe { Box::from_raw(SimContext::start(context)) };
    sim.runtime.close();
    0
}}

/// What `ibv_query_device` says.
fn device_attr(context: &SimContext) -> DeviceAttr {
    let generation = host::host().map(|host| host.config.generation).unwrap_or_default();
    DeviceAttr {
        fw_ver: host::text(FIRMWARE.as_bytes()).unwrap_or([0; 64]),
        node_guid: host::node_guid(context.device),
        sys_image_guid: host::node_guid(context.device),
        max_mr_size: u64::MAX >> 1,
        // Pages of 4 KiB and of every larger power of two.
        page_size_cap: !0xfff,
        vendor_id: VENDOR_ID,
        vendor_part_id: generation.part_id(),
        hw_ver: generation.part_id(),
        max_qp: limits::QP,
        max_qp_wr: limits::SQ_WR as c_int,
        device_cap_flags: 0,
        max_sge: MAX_SEND_SGES as c_int,
        max_sge_rd: 1,
        max_cq: limits::QP,
        max_cqe: limits::CQE,
        max_mr: 1 << 19,
        max_pd: 1 << 16,
        max_qp_rd_atom: 0,
        max_ee_rd_atom: 0,
        max_res_rd_atom: 0,
        max_qp_init_rd_atom: 0,
        max_ee_init_rd_atom: 0,
        atomic_cap: 0,
        max_ee: 0,
        max_rdd: 0,
        max_mw: 0,
        max_raw_ipv6_qp: 0,
        max_raw_ethy_qp: 0,
        max_mcast_grp: 0,
        max_mcast_qp_attach: 0,
        max_total_mcast_qp_attach: 0,
        max_ah: c_int::from(u16::MAX),
        max_fmr: 0,
        max_map_per_fmr: 0,
        max_srq: 0,
        max_srq_wr: 0,
        max_srq_sge: 0,
        max_pkeys: 1,
        local_ca_ack_delay: 0,
        phys_port_cnt: 1,
    }
}

verb! { "IBVERBS_1.1", ibv_query_device,
/// What the device can do.
///
/// # Safety
///
/// `context` is open, `attr` valid for a write.
unsafe fn sim_ibv_query_device(context: *mut Context, attr: *mut DeviceAttr) -> c_int {
    // SAFETY: as the caller promises.
    let context = unsafe { SimContext::from_ptr(context) };
    // SAFETY: as the caller promises.
    unsafe { attr.write(device_attr(context)) };
    0
}}

/// The newer form: the same, and zeros for everything that was added.
unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    _input: *const c_void,
    attr: *mut DeviceAttrEx,
    size: usize,
) -> c_int {
    if size < size_of::<DeviceAttr>() {
        return libc::EINVAL;
    }
    // SAFETY: the caller says that it has `size` bytes.
    unsafe { attr.cast::<u8>().write_bytes(0, size) };
    // SAFETY: the caller's context is open.
    let context = unsafe { SimContext::from_ptr(context) };
    // SAFETY: the structure starts with the older one, and `size` covers that.
    unsafe { attr.cast::<DeviceAttr>().write(device_attr(context)) };
    0
}

/// What the port says about itself.
fn port_attr() -> Option<PortAttr> {
    let host = host::host()?;
    Some(PortAttr {
        state: abi::PORT_ACTIVE,
        max_mtu: abi::MTU_4096,
        active_mtu: abi::MTU_4096,
        gid_tbl_len: 1,
        port_cap_flags: 0,
        max_msg_sz: host.config.mtu,
        bad_pkey_cntr: 0,
        qkey_viol_cntr: 0,
        pkey_tbl_len: 1,
        lid: 0,
        sm_lid: 0,
        lmc: 1,
        max_vl_num: 1,
        sm_sl: 0,
        subnet_timeout: 0,
        init_type_reply: 0,
        // Four lanes.
        active_width: 2,
        active_speed: host.config.generation.lane_speed_code(),
        phys_state: 5,
        link_layer: 0,
        flags: 0,
        port_cap_flags2: 0,
        active_speed_ex: 0,
    })
}

/// Writes as much of the port's attributes as the caller has room for.
unsafe extern "C" fn query_port(_context: *mut Context, port: u8, attr: *mut PortAttr, size: usize) -> c_int {
    let Some(values) = port_attr().filter(|_| port == 1) else {
        return libc::EINVAL;
    };
    let size = size.min(size_of::<PortAttr>());
    // SAFETY: both are valid for `size` bytes: the caller says so, and ours is no smaller.
    unsafe { ptr::copy_nonoverlapping(ptr::from_ref(&values).cast::<u8>(), attr.cast(), size) };
    0
}

verb! { "IBVERBS_1.1", ibv_query_port,
/// What the port says about itself, for callers that know only the oldest fields.
///
/// # Safety
///
/// `context` is open, `attr` valid for a write of the oldest form of the structure.
unsafe fn sim_ibv_query_port(context: *mut Context, port: u8, attr: *mut PortAttr) -> c_int {
    // SAFETY: as the caller promises.
    unsafe { query_port(context, port, attr, PORT_ATTR_OLDEST) }
}}

verb! { "IBVERBS_1.1", ibv_query_gid,
/// The device's identifier.
///
/// # Safety
///
/// `context` is open, `gid` valid for a write.
unsafe fn sim_ibv_query_gid(context: *mut Context, port: u8, index: c_int, gid: *mut RawGid) -> c_int {
    if port != 1 || index != 0 {
        errno::set(libc::EINVAL);
        return -1;
    }
    // SAFETY: as the caller promises.
    let context = unsafe { SimContext::from_ptr(context) };
    // The bytes are copied, for a caller's union need not be aligned as ours is.
    let bytes = context.device.gid().0;
    // SAFETY: the caller's union has 16 bytes.
    unsafe { gid.cast::<[u8; 16]>().write(bytes) };
    0
}}

/// `struct ibv_gid_entry`.
#[repr(C)]
pub(crate) struct GidEntry {
    gid: RawGid,
    gid_index: u32,
    port_num: u32,
    gid_type: u32,
    ndev_ifindex: u32,
}

verb! { "IBVERBS_1.11", _ibv_query_gid_ex,
/// The device's identifier with what is known about it.
///
/// # Safety
///
/// `context` is open, `entry` valid for a write.
unsafe fn sim_ibv_query_gid_ex(
    context: *mut Context,
    port: u32,
    index: u32,
    entry: *mut GidEntry,
    _flags: u32,
    size: usize,
) -> c_int {
    if port != 1 || index != 0 || size < size_of::<GidEntry>() {
        return libc::EINVAL;
    }
    // SAFETY: as the caller promises.
    let context = unsafe { SimContext::from_ptr(context) };
    let value = GidEntry {
        gid: RawGid(context.device.gid().0),
        gid_index: 0,
        port_num: 1,
        gid_type: 0,
        ndev_ifindex: 0,
    };
    // SAFETY: the caller has room for at least this much.
    unsafe { entry.write(value) };
    0
}}

verb! { "IBVERBS_1.11", _ibv_query_gid_table,
/// All identifiers of the device: one.
///
/// # Safety
///
/// `context` is open, `entries` valid for `max` writes.
unsafe fn sim_ibv_query_gid_table(
    context: *mut Context,
    entries: *mut GidEntry,
    max: usize,
    flags: u32,
    size: usize,
) -> isize {
    if max == 0 {
        return 0;
    }
    // SAFETY: as the caller promises.
    match unsafe { sim_ibv_query_gid_ex(context, 1, 0, entries, flags, size) } {
        0 => 1,
        error => -(error as isize),
    }
}}

verb! { "IBVERBS_1.1", ibv_query_pkey,
/// The one partition key that there is.
///
/// # Safety
///
/// `pkey` is valid for a write.
unsafe fn sim_ibv_query_pkey(_context: *mut Context, port: u8, index: c_int, pkey: *mut u16) -> c_int {
    if port != 1 || index != 0 {
        errno::set(libc::EINVAL);
        return -1;
    }
    // SAFETY: as the caller promises.
    unsafe { pkey.write(0xffff) };
    0
}}

verb! { "IBVERBS_1.5", ibv_get_pkey_index,
/// Where the one partition key is.
///
/// # Safety
///
/// None is needed.
unsafe fn sim_ibv_get_pkey_index(_context: *mut Context, port: u8, pkey: u16) -> c_int {
    if port == 1 && pkey == 0xffff { 0 } else { -1 }
}}
