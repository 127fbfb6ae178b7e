//! Making, changing and destroying what a device holds.

use super::super::cq::CompletionQueue;
use super::super::memory::MrConfig;
use super::super::packet::{FLAG_ACK, Header, Kind};
use super::super::qp::{Qp, QpChange, QpConfig, QpInfo};
use super::super::types::{AhNumber, Completion, CompletionOp, Cqn, DeviceError, Gid, MrKey, QpState, Qpn, Status};
use super::Device;

impl Device {
    /// Makes a completion queue of at most `depth` entries.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] for a depth of 0.
    pub fn create_cq(&mut self, depth: usize) -> Result<Cqn, DeviceError> {
        if depth == 0 {
            return Err(DeviceError::Invalid);
        }
        Ok(Cqn(self.cqs.insert(CompletionQueue::new(depth))))
    }

    /// Destroys a completion queue.
    ///
    /// # Errors
    /// [`DeviceError::Busy`] while queue pairs use it, [`DeviceError::NotFound`] where it is not there.
    pub fn destroy_cq(&mut self, cqn: Cqn) -> Result<(), DeviceError> {
        match self.cqs.get(cqn.0) {
            None => Err(DeviceError::NotFound),
            Some(cq) if cq.users > 0 => Err(DeviceError::Busy),
            Some(_) => {
                self.cqs.remove(cqn.0);
                Ok(())
            }
        }
    }

    /// Takes the oldest completion of a queue.
    pub fn poll_cq(&mut self, cqn: Cqn) -> Option<Completion> {
        let completion = self.cqs.get_mut(cqn.0)?.pop()?;
        if let Some(slot) = self.find_qp(completion.qpn)
            && let Some(qp) = self.qp_mut(slot)
            && !completion.unsolicited
        {
            match completion.op {
                CompletionOp::Send | CompletionOp::Write | CompletionOp::Read => {
                    qp.sends_unpolled = qp.sends_unpolled.saturating_sub(1);
                }
                CompletionOp::Recv | CompletionOp::RecvWriteImm => {
                    qp.receives_unpolled = qp.receives_unpolled.saturating_sub(1);
                }
            }
        }
        Some(completion)
    }

    /// Entries that wait in a completion queue, and whether it ever overflowed.
    pub fn cq_fill(&self, cqn: Cqn) -> Option<(usize, bool)> {
        self.cqs.get(cqn.0).map(|cq| (cq.len(), cq.overrun()))
    }

    /// Registers memory; the key serves as local and as remote key.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] where the range wraps around the address space, or about a million
    /// registrations exist.
    pub fn register(&mut self, mr: MrConfig) -> Result<MrKey, DeviceError> {
        let generation = self.rng.next_u32();
        self.mrs.register(mr, generation)
    }

    /// Takes a registration back.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where the key is not valid.
    pub fn deregister(&mut self, key: MrKey) -> Result<(), DeviceError> {
        self.mrs.deregister(key)
    }

    /// Makes an address handle.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] where all numbers are taken.
    pub fn create_ah(&mut self, gid: Gid) -> Result<AhNumber, DeviceError> {
        self.ahs.create(gid)
    }

    /// Destroys an address handle.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where it is not there.
    pub fn destroy_ah(&mut self, ah: AhNumber) -> Result<(), DeviceError> {
        self.ahs.destroy(ah)
    }

    /// Makes a queue pair in state [`QpState::Reset`].
    ///
    /// # Errors
    /// [`DeviceError::QpnTaken`], or [`DeviceError::NotFound`] where a completion queue is not there.
    pub fn create_qp(&mut self, config: QpConfig) -> Result<(), DeviceError> {
        let slot = self.slot_of(config.qpn);
        if self.qp(slot).is_some() {
            return Err(DeviceError::QpnTaken);
        }
        if self.cqs.get(config.send_cq.0).is_none() || self.cqs.get(config.recv_cq.0).is_none() {
            return Err(DeviceError::NotFound);
        }
        for cqn in [config.send_cq, config.recv_cq] {
            if let Some(cq) = self.cqs.get_mut(cqn.0) {
                cq.users += 1;
            }
        }
        let incarnation = self.rng.next_u32().max(1);
        if let Some(place) = self.qps.get_mut(slot as usize) {
            *place = Some(Box::new(Qp::new(config, incarnation)));
        }
        Ok(())
    }

    /// Changes state, key or retries of a queue pair.
    ///
    /// States go one step ahead at a time, to [`QpState::Error`] from each, which flushes all that is posted,
    /// and to [`QpState::Reset`] from each, which forgets it.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`], or [`DeviceError::BadState`] for a step that does not exist.
    pub fn modify_qp(&mut self, qpn: Qpn, change: QpChange) -> Result<(), DeviceError> {
        use QpState::{Error, Init, Reset, Rtr, Rts};
        let slot = self.find_qp(qpn).ok_or(DeviceError::NotFound)?;
        let qp = self.qp_mut(slot).ok_or(DeviceError::NotFound)?;
        let now = qp.state;
        let next = change.state.unwrap_or(now);
        let possible =
            next == now || matches!((now, next), (Reset, Init) | (Init, Rtr) | (Rtr, Rts) | (_, Error) | (_, Reset));
        if !possible {
            return Err(DeviceError::BadState);
        }
        if let Some(qkey) = change.qkey {
            qp.qkey = qkey;
        }
        if let Some(retries) = change.rnr_retry {
            qp.rnr_retry = retries;
        }
        match next {
            Error if now != Error => self.break_qp(slot, Status::Flushed),
            Reset if now != Reset => self.reset_qp(slot),
            _ => qp.state = next,
        }
        Ok(())
    }

    /// Breaks a queue pair as an internal fault of the device would: the oldest entry completes with
    /// [`Status::QpInternalError`], the others are flushed.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where it is not there.
    pub fn fail_qp(&mut self, qpn: Qpn) -> Result<(), DeviceError> {
        let slot = self.find_qp(qpn).ok_or(DeviceError::NotFound)?;
        self.break_qp(slot, Status::QpInternalError);
        Ok(())
    }

    /// Destroys a queue pair. Its completions leave their queues; acknowledgements that it still owes are
    /// sent, so that peers learn of what it received.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where it is not there.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), DeviceError> {
        let slot = self.find_qp(qpn).ok_or(DeviceError::NotFound)?;
        self.drop_conns(slot);
        let config = self.qp(slot).ok_or(DeviceError::NotFound)?.config;
        for cqn in [config.send_cq, config.recv_cq] {
            if let Some(cq) = self.cqs.get_mut(cqn.0) {
                cq.users = cq.users.saturating_sub(1);
                cq.forget(qpn);
            }
        }
        if let Some(place) = self.qps.get_mut(slot as usize) {
            *place = None;
        }
        Ok(())
    }

    /// The state of a queue pair.
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpInfo> {
        let qp = self.qp(self.find_qp(qpn)?)?;
        Some(QpInfo {
            config: qp.config,
            state: qp.state,
            qkey: qp.qkey,
            rnr_retry: qp.rnr_retry,
            receives: qp.receives.len() as u32,
            sends: qp.wrs.iter().count() as u32,
        })
    }

    /// Back to the beginning, with a new incarnation and without completions.
    fn reset_qp(&mut self, slot: u32) {
        self.drop_conns(slot);
        let incarnation = self.rng.next_u32().max(1);
        if let Some(qp) = self.qp_mut(slot) {
            *qp = Qp::new(qp.config, incarnation);
        }
    }

    /// Forgets the connections of a queue pair, after a last acknowledgement to each that waits for one.
    fn drop_conns(&mut self, slot: u32) {
        let Some(qp) = self.qp_mut(slot) else { return };
        let (qpn, incarnation) = (qp.config.qpn, qp.incarnation);
        let gone = std::mem::take(&mut qp.conns);
        for index in &gone {
            let Some(conn) = self.conns.remove(*index) else { continue };
            self.conn_of.remove(&(slot, conn.gid, conn.qpn));
            if let Some(rx) = conn.rx.filter(|_| conn.acks_pending > 0) {
                let mut last = Header::new(Kind::Ack);
                last.flags = FLAG_ACK;
                (last.src_qpn, last.src_incarnation) = (qpn, incarnation);
                (last.dst_qpn, last.dst_incarnation) = (conn.qpn, conn.incarnation);
                (last.ack, last.ack_bits) = (rx.base(), rx.map()[0]);
                self.answer(conn.gid, last);
            }
        }
        self.ready.retain(|index| !gone.contains(index));
        self.ack_timers.retain(|(_, index)| !gone.contains(index));
        self.jobs.retain(|job| !gone.contains(&job.conn));
        self.burst = 0;
    }
}
