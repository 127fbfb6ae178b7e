//! Compares the structures with the headers that a C compiler sees.

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::process::{Command, Stdio};

use super::*;

/// Rows of a C name and the value that it has here; a field's C name may differ from ours.
macro_rules! fields {
    ($rows:ident, $($ours:ident as $c:literal { $($field:ident $(as $c_field:literal)?),* $(,)? })*) => {
        $($(
            #[allow(unused_mut, unused_assignments, reason = "only some fields have a name of their own in C")]
            {
                let mut name = stringify!($field);
                $(name = $c_field;)?
                $rows.push((format!("offsetof(struct {}, {name})", $c), offset_of!($ours, $field)));
            }
        )*)*
    };
}

fn rows() -> Vec<(String, usize)> {
    let mut rows = Vec::new();
    let sizes = [
        ("ibv_device", size_of::<Device>()),
        ("ibv_context_ops", size_of::<ContextOps>()),
        ("ibv_context", size_of::<Context>()),
        ("ibv_pd", size_of::<Pd>()),
        ("ibv_mr", size_of::<Mr>()),
        ("ibv_ah", size_of::<Ah>()),
        ("ibv_comp_channel", size_of::<CompChannel>()),
        ("ibv_cq", size_of::<Cq>()),
        ("ibv_cq_ex", size_of::<CqEx>()),
        ("ibv_qp", size_of::<Qp>()),
        ("ibv_device_attr", size_of::<DeviceAttr>()),
        ("ibv_ah_attr", size_of::<AhAttr>()),
        ("ibv_qp_init_attr", size_of::<QpInitAttr>()),
        ("ibv_qp_init_attr_ex", size_of::<QpInitAttrEx>()),
        ("ibv_qp_attr", size_of::<QpAttr>()),
        ("ibv_sge", size_of::<Sge>()),
        ("ibv_data_buf", size_of::<DataBuf>()),
        ("ibv_recv_wr", size_of::<RecvWr>()),
        ("ibv_send_wr", size_of::<SendWr>()),
        ("ibv_wc", size_of::<Wc>()),
        ("ibv_cq_init_attr_ex", size_of::<CqInitAttrEx>()),
        ("efadv_ah_attr", size_of::<EfaAhAttr>()),
    ];
    rows.extend(sizes.map(|(name, size)| (format!("sizeof(struct {name})"), size)));
    fields! { rows,
        Device as "ibv_device" { node_type, transport_type, name, dev_name, dev_path, ibdev_path }
        ContextOps as "ibv_context_ops" {
            alloc_mw, bind_mw, dealloc_mw, poll_cq, req_notify_cq, post_srq_recv, post_send, post_recv,
        }
        Context as "ibv_context" { device, ops, cmd_fd, async_fd, num_comp_vectors, mutex, abi_compat }
        Pd as "ibv_pd" { context, handle }
        Mr as "ibv_mr" { context, pd, addr, length, handle, lkey, rkey }
        Ah as "ibv_ah" { context, pd, handle }
        CompChannel as "ibv_comp_channel" { context, fd, refcnt }
        Cq as "ibv_cq" {
            context, channel, cq_context, handle, cqe, mutex, cond, comp_events_completed,
            async_events_completed,
        }
        CqEx as "ibv_cq_ex" {
            comp_mask, status, wr_id, start_poll, next_poll, end_poll, read_opcode, read_vendor_err,
            read_byte_len, read_imm_data, read_qp_num, read_src_qp, read_wc_flags, read_slid, read_sl,
            read_dlid_path_bits, read_completion_ts, read_cvlan, read_flow_tag, read_tm_info,
            read_completion_wallclock_ns,
        }
        Qp as "ibv_qp" {
            context, qp_context, pd, send_cq, recv_cq, srq, handle, qp_num, state, qp_type, mutex, cond,
            events_completed,
        }
        QpEx as "ibv_qp_ex" {
            comp_mask, wr_id, wr_flags, wr_atomic_cmp_swp, wr_atomic_fetch_add, wr_bind_mw, wr_local_inv,
            wr_rdma_read, wr_rdma_write, wr_rdma_write_imm, wr_send, wr_send_imm, wr_send_inv, wr_send_tso,
            wr_set_ud_addr, wr_set_xrc_srqn, wr_set_inline_data, wr_set_inline_data_list, wr_set_sge,
            wr_set_sge_list, wr_start, wr_complete, wr_abort, wr_atomic_write,
        }
        DeviceAttr as "ibv_device_attr" {
            fw_ver, node_guid, sys_image_guid, max_mr_size, page_size_cap, vendor_id, vendor_part_id,
            hw_ver, max_qp, max_qp_wr, device_cap_flags, max_sge, max_cq, max_cqe, max_mr, max_pd,
            atomic_cap, max_ah, max_srq_sge, max_pkeys, local_ca_ack_delay, phys_port_cnt,
        }
        DeviceAttrEx as "ibv_device_attr_ex" { orig_attr, comp_mask }
        PortAttr as "ibv_port_attr" {
            state, max_mtu, active_mtu, gid_tbl_len, port_cap_flags, max_msg_sz, bad_pkey_cntr,
            qkey_viol_cntr, pkey_tbl_len, lid, sm_lid, lmc, max_vl_num, sm_sl, subnet_timeout,
            init_type_reply, active_width, active_speed, phys_state, link_layer, flags, port_cap_flags2,
        }
        GlobalRoute as "ibv_global_route" { dgid, flow_label, sgid_index, hop_limit, traffic_class }
        AhAttr as "ibv_ah_attr" { grh, dlid, sl, src_path_bits, static_rate, is_global, port_num }
        QpCap as "ibv_qp_cap" { max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data }
        QpInitAttr as "ibv_qp_init_attr" { qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all }
        QpInitAttrEx as "ibv_qp_init_attr_ex" {
            qp_context, send_cq, recv_cq, srq, cap, qp_type, sq_sig_all, comp_mask, pd, xrcd, create_flags,
            max_tso_header, rwq_ind_tbl, rx_hash_conf, source_qpn, send_ops_flags,
        }
        QpAttr as "ibv_qp_attr" {
            qp_state, qkey, rq_psn, dest_qp_num, qp_access_flags, cap, ah_attr, alt_ah_attr, pkey_index,
            en_sqd_async_notify, port_num, timeout, rnr_retry, rate_limit,
        }
        Sge as "ibv_sge" { addr, length, lkey }
        DataBuf as "ibv_data_buf" { addr, length }
        RecvWr as "ibv_recv_wr" { wr_id, next, sg_list, num_sge }
        SendWr as "ibv_send_wr" {
            wr_id, next, sg_list, num_sge, opcode, send_flags, imm_data, ah as "wr.ud.ah",
            remote_qpn as "wr.ud.remote_qpn", remote_qkey as "wr.ud.remote_qkey",
        }
        Wc as "ibv_wc" {
            wr_id, status, opcode, vendor_err, byte_len, imm_data, qp_num, src_qp, wc_flags, pkey_index, slid,
            sl, dlid_path_bits,
        }
        CqInitAttrEx as "ibv_cq_init_attr_ex" {
            cqe, cq_context, channel, comp_vector, wc_flags, comp_mask, flags,
        }
        EfaDeviceAttr as "efadv_device_attr" {
            comp_mask, max_sq_wr, max_rq_wr, max_sq_sge, max_rq_sge, inline_buf_size, device_caps, max_rdma_size,
        }
        EfaAhAttr as "efadv_ah_attr" { comp_mask, ahn }
        EfaQpInitAttr as "efadv_qp_init_attr" { comp_mask, driver_qp_type }
        EfaCqInitAttr as "efadv_cq_init_attr" { comp_mask, wc_flags }
        EfaCq as "efadv_cq" { comp_mask, wc_read_sgid }
    }
    // The front of this structure grows with the version, so fields are counted from its end.
    let whole = size_of::<VerbsContext>();
    for (field, offset) in [
        ("query_port", offset_of!(VerbsContext, query_port)),
        ("create_cq_ex", offset_of!(VerbsContext, create_cq_ex)),
        ("query_device_ex", offset_of!(VerbsContext, query_device_ex)),
        ("create_qp_ex", offset_of!(VerbsContext, create_qp_ex)),
        ("sz", offset_of!(VerbsContext, size)),
        ("context", offset_of!(VerbsContext, context)),
    ] {
        let c = format!("sizeof(struct verbs_context) - offsetof(struct verbs_context, {field})");
        rows.push((c, whole - offset));
    }
    let constants = [
        ("IBV_QPT_UD", QPT_UD as usize),
        ("IBV_QPT_DRIVER", QPT_DRIVER as usize),
        ("IBV_QP_INIT_ATTR_PD", QP_INIT_ATTR_PD as usize),
        ("IBV_QP_INIT_ATTR_SEND_OPS_FLAGS", QP_INIT_ATTR_SEND_OPS_FLAGS as usize),
        ("IBV_QP_EX_WITH_RDMA_WRITE", SEND_OPS_WRITE as usize),
        ("IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM", SEND_OPS_WRITE_IMM as usize),
        ("IBV_QP_EX_WITH_SEND", SEND_OPS_SEND as usize),
        ("IBV_QP_EX_WITH_SEND_WITH_IMM", SEND_OPS_SEND_IMM as usize),
        ("IBV_QP_EX_WITH_RDMA_READ", SEND_OPS_READ as usize),
        ("IBV_QP_STATE", QP_STATE as usize),
        ("IBV_QP_QKEY", QP_QKEY as usize),
        ("IBV_QP_RNR_RETRY", QP_RNR_RETRY as usize),
        ("IBV_QPS_RTS", QPS_RTS as usize),
        ("IBV_QPS_ERR", QPS_ERR as usize),
        ("IBV_WR_SEND", WR_SEND as usize),
        ("IBV_WR_SEND_WITH_IMM", WR_SEND_WITH_IMM as usize),
        ("IBV_SEND_INLINE", SEND_INLINE as usize),
        ("IBV_WC_RDMA_WRITE", WC_RDMA_WRITE as usize),
        ("IBV_WC_RECV", WC_RECV as usize),
        ("IBV_WC_RECV_RDMA_WITH_IMM", WC_RECV_RDMA_WITH_IMM as usize),
        ("IBV_WC_WITH_IMM", WC_WITH_IMM as usize),
        ("IBV_WC_STANDARD_FLAGS", WC_EX_STANDARD as usize),
        ("IBV_WC_WR_FLUSH_ERR", wc_status::WR_FLUSH_ERR as usize),
        ("IBV_WC_REM_ACCESS_ERR", wc_status::REM_ACCESS_ERR as usize),
        ("IBV_WC_REM_OP_ERR", wc_status::REM_OP_ERR as usize),
        ("IBV_WC_RNR_RETRY_EXC_ERR", wc_status::RNR_RETRY_EXC_ERR as usize),
        ("IBV_WC_REM_INV_RD_REQ_ERR", wc_status::REM_INV_RD_REQ_ERR as usize),
        ("IBV_WC_REM_ABORT_ERR", wc_status::REM_ABORT_ERR as usize),
        ("IBV_WC_RESP_TIMEOUT_ERR", wc_status::RESP_TIMEOUT_ERR as usize),
        ("IBV_NODE_UNSPECIFIED", NODE_UNSPECIFIED as usize),
        ("IBV_TRANSPORT_UNSPECIFIED", TRANSPORT_UNSPECIFIED as usize),
        ("EFADV_DEVICE_ATTR_CAPS_RDMA_READ", CAPS_RDMA_READ as usize),
        ("EFADV_DEVICE_ATTR_CAPS_RNR_RETRY", CAPS_RNR_RETRY as usize),
        ("EFADV_DEVICE_ATTR_CAPS_CQ_WITH_SGID", CAPS_CQ_WITH_SGID as usize),
    ];
    rows.extend(constants.map(|(name, value)| (name.to_owned(), value)));
    rows
}

#[test]
fn structures_and_constants_are_those_of_the_headers() {
    let rows = rows();
    let mut source =
        String::from("#include <stddef.h>\n#include <infiniband/verbs.h>\n#include <infiniband/efadv.h>\n");
    for (c, value) in &rows {
        writeln!(source, "_Static_assert((size_t)({c}) == {value}, \"{c} is not {value}\");").unwrap();
    }
    let compile = |source: &str| {
        let mut child = Command::new("cc")
            .args(["-x", "c", "-std=gnu11", "-fsyntax-only", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .ok()?;
        child.stdin.take()?.write_all(source.as_bytes()).ok()?;
        child.wait_with_output().ok()
    };
    let headers = compile("#include <infiniband/verbs.h>\n#include <infiniband/efadv.h>\n");
    if !headers.is_some_and(|output| output.status.success()) {
        eprintln!(
            "SKIPPED: structures_and_constants_are_those_of_the_headers: no C compiler or no rdma-core headers \
             (package libibverbs-dev or rdma-core-devel)"
        );
        return;
    }
    let output = compile(&source).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
