//! Counters with the names that the EFA driver shows under `hw_counters`, and a few of our own.

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// What a device counted since it was opened.
        ///
        /// Names up to `impaired_remote_conn_events` are those of the Linux driver, so that tools which read
        /// `/sys/class/infiniband/*/ports/1/hw_counters` find them; the `sim_` ones exist here only.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[doc = $doc])+ pub $name: u64,)+
        }

        impl Counters {
            /// Every name, in the order of [`Counters::values`].
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name)),+];

            /// Every value, in the order of [`Counters::NAMES`].
            pub fn values(&self) -> [u64; Counters::NAMES.len()] {
                [$(self.$name),+]
            }
        }
    };
}

counters! {
    /// Payload bytes in packets sent, again for retransmissions.
    tx_bytes,
    /// Packets sent.
    tx_pkts,
    /// Payload bytes in packets received.
    rx_bytes,
    /// Packets received and understood.
    rx_pkts,
    /// Packets received and dropped: no receive on a datagram queue pair, not ready, faults.
    rx_drops,
    /// Bytes of sends posted.
    send_bytes,
    /// Sends posted.
    send_wrs,
    /// Bytes of messages received.
    recv_bytes,
    /// Messages received.
    recv_wrs,
    /// RDMA reads posted.
    rdma_read_wrs,
    /// Bytes of RDMA reads that completed.
    rdma_read_bytes,
    /// RDMA reads that failed.
    rdma_read_wr_err,
    /// Bytes sent to peers that read here.
    rdma_read_resp_bytes,
    /// RDMA writes posted.
    rdma_write_wrs,
    /// Bytes of RDMA writes that completed.
    rdma_write_bytes,
    /// RDMA writes that failed.
    rdma_write_wr_err,
    /// Bytes that peers wrote here.
    rdma_write_recv_bytes,
    /// Payload bytes sent again.
    retrans_bytes,
    /// Packets sent again.
    retrans_pkts,
    /// Times that a retransmission timer ran out.
    retrans_timeout_events,
    /// Peers that stopped answering for the total time-out, or never did.
    unresponsive_remote_events,
    /// Peers that answered, but not for one message within the total time-out.
    impaired_remote_conn_events,
    /// Datagrams that are not of this protocol.
    sim_rx_malformed,
    /// Datagrams without the shared key.
    sim_rx_bad_key,
    /// Datagrams for a queue pair that is not here, or with another queue key.
    sim_rx_bad_qpn,
    /// Packets seen before.
    sim_rx_duplicates,
    /// Remote operations refused for their key, range or access.
    sim_rx_access_errors,
    /// Receiver-not-ready answers sent.
    sim_rnr_sent,
    /// Receiver-not-ready answers received.
    sim_rnr_received,
    /// Packets that a fault dropped on the way out.
    sim_tx_fault_drops,
    /// Packets that a fault dropped on the way in.
    sim_rx_fault_drops,
    /// Completions lost because their queue was full.
    sim_cq_overruns,
    /// Packets made that carry nothing but acknowledgements.
    sim_acks_sent,
}
