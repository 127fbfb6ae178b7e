//! Values that pass between the application and the library.

use std::ffi::{c_char, c_int, c_uint, c_void};

use super::{Ah, Cq, Pd};

/// `union ibv_gid`.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
pub(crate) struct RawGid(pub [u8; 16]);

/// `struct ibv_device_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_int,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub max_raw_ipv6_qp: c_int,
    pub max_raw_ethy_qp: c_int,
    pub max_mcast_grp: c_int,
    pub max_mcast_qp_attach: c_int,
    pub max_total_mcast_qp_attach: c_int,
    pub max_ah: c_int,
    pub max_fmr: c_int,
    pub max_map_per_fmr: c_int,
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// The start of `struct ibv_device_attr_ex`; the rest stays zero here.
#[repr(C)]
pub(crate) struct DeviceAttrEx {
    pub orig_attr: DeviceAttr,
    pub comp_mask: u32,
}

/// `struct ibv_port_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PortAttr {
    pub state: c_int,
    pub max_mtu: c_int,
    pub active_mtu: c_int,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub bad_pkey_cntr: u32,
    pub qkey_viol_cntr: u32,
    pub pkey_tbl_len: u16,
    pub lid: u16,
    pub sm_lid: u16,
    pub lmc: u8,
    pub max_vl_num: u8,
    pub sm_sl: u8,
    pub subnet_timeout: u8,
    pub init_type_reply: u8,
    pub active_width: u8,
    pub active_speed: u8,
    pub phys_state: u8,
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
    pub active_speed_ex: u32,
}

/// Bytes of `struct ibv_port_attr` that a caller of the oldest `ibv_query_port` has: up to `flags`.
pub(crate) const PORT_ATTR_OLDEST: usize = std::mem::offset_of!(PortAttr, port_cap_flags2);

pub(crate) const PORT_ACTIVE: c_int = 4;
pub(crate) const MTU_4096: c_int = 5;
pub(crate) const NODE_UNSPECIFIED: c_int = 7;
pub(crate) const TRANSPORT_UNSPECIFIED: c_int = 4;

/// `struct ibv_global_route`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct GlobalRoute {
    pub dgid: RawGid,
    pub flow_label: u32,
    pub sgid_index: u8,
    pub hop_limit: u8,
    pub traffic_class: u8,
}

/// `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct AhAttr {
    pub grh: GlobalRoute,
    pub dlid: u16,
    pub sl: u8,
    pub src_path_bits: u8,
    pub static_rate: u8,
    pub is_global: u8,
    pub port_num: u8,
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct QpCap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[repr(C)]
pub(crate) struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub cap: QpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
}

/// `struct ibv_qp_init_attr_ex`.
#[repr(C)]
pub(crate) struct QpInitAttrEx {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut c_void,
    pub cap: QpCap,
    pub qp_type: c_int,
    pub sq_sig_all: c_int,
    /// In what is padding at the end of the older structure, so that that cannot be a field here.
    pub comp_mask: u32,
    pub pd: *mut Pd,
    pub xrcd: *mut c_void,
    pub create_flags: u32,
    pub max_tso_header: u16,
    pub rwq_ind_tbl: *mut c_void,
    pub rx_hash_conf: [u64; 3],
    pub source_qpn: u32,
    pub send_ops_flags: u64,
}

impl QpInitAttrEx {
    /// The older structure's fields.
    pub(crate) fn base(&self) -> QpInitAttr {
        QpInitAttr {
            qp_context: self.qp_context,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.srq,
            cap: self.cap,
            qp_type: self.qp_type,
            sq_sig_all: self.sq_sig_all,
        }
    }
}

pub(crate) const QPT_UD: c_int = 4;
pub(crate) const QPT_DRIVER: c_int = 0xff;
pub(crate) const QP_INIT_ATTR_PD: u32 = 1;
pub(crate) const QP_INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;

pub(crate) const SEND_OPS_WRITE: u64 = 1;
pub(crate) const SEND_OPS_WRITE_IMM: u64 = 1 << 1;
pub(crate) const SEND_OPS_SEND: u64 = 1 << 2;
pub(crate) const SEND_OPS_SEND_IMM: u64 = 1 << 3;
pub(crate) const SEND_OPS_READ: u64 = 1 << 4;

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct QpAttr {
    pub qp_state: c_int,
    pub cur_qp_state: c_int,
    pub path_mtu: c_int,
    pub path_mig_state: c_int,
    pub qkey: u32,
    pub rq_psn: u32,
    pub sq_psn: u32,
    pub dest_qp_num: u32,
    pub qp_access_flags: c_uint,
    pub cap: QpCap,
    pub ah_attr: AhAttr,
    pub alt_ah_attr: AhAttr,
    pub pkey_index: u16,
    pub alt_pkey_index: u16,
    pub en_sqd_async_notify: u8,
    pub sq_draining: u8,
    pub max_rd_atomic: u8,
    pub max_dest_rd_atomic: u8,
    pub min_rnr_timer: u8,
    pub port_num: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub alt_port_num: u8,
    pub alt_timeout: u8,
    pub rate_limit: u32,
}

pub(crate) const QP_STATE: c_int = 1;
pub(crate) const QP_QKEY: c_int = 1 << 6;
pub(crate) const QP_RNR_RETRY: c_int = 1 << 11;

pub(crate) const QPS_RESET: c_int = 0;
pub(crate) const QPS_INIT: c_int = 1;
pub(crate) const QPS_RTR: c_int = 2;
pub(crate) const QPS_RTS: c_int = 3;
pub(crate) const QPS_ERR: c_int = 6;

/// `struct ibv_sge`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

/// `struct ibv_data_buf`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct DataBuf {
    pub addr: *mut c_void,
    pub length: usize,
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub(crate) struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

/// `struct ibv_send_wr`, with the form of `wr` that datagrams use.
#[repr(C)]
pub(crate) struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_int,
    pub send_flags: c_uint,
    pub imm_data: u32,
    pub ah: *mut Ah,
    pub remote_qpn: u32,
    pub remote_qkey: u32,
    pub rest: [u64; 9],
}

pub(crate) const WR_SEND: c_int = 2;
pub(crate) const WR_SEND_WITH_IMM: c_int = 3;
pub(crate) const SEND_INLINE: c_uint = 1 << 3;

/// `struct ibv_wc`.
#[repr(C)]
pub(crate) struct Wc {
    pub wr_id: u64,
    pub status: c_int,
    pub opcode: c_int,
    pub vendor_err: u32,
    pub byte_len: u32,
    pub imm_data: u32,
    pub qp_num: u32,
    pub src_qp: u32,
    pub wc_flags: c_uint,
    pub pkey_index: u16,
    pub slid: u16,
    pub sl: u8,
    pub dlid_path_bits: u8,
}

pub(crate) const WC_SEND: c_int = 0;
pub(crate) const WC_RDMA_WRITE: c_int = 1;
pub(crate) const WC_RECV: c_int = 128;
pub(crate) const WC_RECV_RDMA_WITH_IMM: c_int = 129;

pub(crate) const WC_WITH_IMM: c_uint = 2;

/// Values of `enum ibv_wc_status` that a completion of EFA can have.
pub(crate) mod wc_status {
    use std::ffi::c_int;

    pub(crate) const SUCCESS: c_int = 0;
    pub(crate) const LOC_LEN_ERR: c_int = 1;
    pub(crate) const LOC_QP_OP_ERR: c_int = 2;
    pub(crate) const LOC_PROT_ERR: c_int = 4;
    pub(crate) const WR_FLUSH_ERR: c_int = 5;
    pub(crate) const BAD_RESP_ERR: c_int = 7;
    pub(crate) const REM_INV_REQ_ERR: c_int = 9;
    pub(crate) const REM_ACCESS_ERR: c_int = 10;
    pub(crate) const REM_OP_ERR: c_int = 11;
    pub(crate) const RNR_RETRY_EXC_ERR: c_int = 13;
    pub(crate) const REM_INV_RD_REQ_ERR: c_int = 15;
    pub(crate) const REM_ABORT_ERR: c_int = 16;
    pub(crate) const RESP_TIMEOUT_ERR: c_int = 20;
}

/// `struct ibv_poll_cq_attr`.
#[repr(C)]
pub(crate) struct PollCqAttr {
    pub comp_mask: u32,
}

/// `struct ibv_cq_init_attr_ex`.
#[repr(C)]
pub(crate) struct CqInitAttrEx {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut super::CompChannel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut Pd,
}

/// Everything that a completion of EFA can tell: `IBV_WC_STANDARD_FLAGS`.
pub(crate) const WC_EX_STANDARD: u64 = 0x7f;
