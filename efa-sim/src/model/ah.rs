//! Address handles: small numbers for the devices of peers.

use std::collections::HashMap;

use super::types::{AhNumber, DeviceError, Gid};

/// The address handles of a device.
///
/// As on EFA, one device of a peer has one number however often a handle for it is made; the number goes
/// when the last handle does.
#[derive(Debug, Default)]
pub(super) struct AhTable {
    slots: Vec<(Gid, u32)>,
    by_gid: HashMap<Gid, u16>,
    free: Vec<u16>,
}

impl AhTable {
    /// Makes a handle.
    ///
    /// # Errors
    /// [`DeviceError::Invalid`] where all 65535 numbers are in use.
    pub(super) fn create(&mut self, gid: Gid) -> Result<AhNumber, DeviceError> {
        if let Some(&number) = self.by_gid.get(&gid) {
            if let Some(slot) = self.slots.get_mut(usize::from(number)) {
                slot.1 += 1;
            }
            return Ok(AhNumber(number));
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None => u16::try_from(self.slots.len())
                .ok()
                .filter(|number| *number != AhNumber::UNKNOWN.0)
                .ok_or(DeviceError::Invalid)?,
        };
        match self.slots.get_mut(usize::from(number)) {
            Some(slot) => *slot = (gid, 1),
            None => self.slots.push((gid, 1)),
        }
        self.by_gid.insert(gid, number);
        Ok(AhNumber(number))
    }

    /// Takes one handle back.
    ///
    /// # Errors
    /// [`DeviceError::NotFound`] where there is none of this number.
    pub(super) fn destroy(&mut self, number: AhNumber) -> Result<(), DeviceError> {
        let slot =
            self.slots.get_mut(usize::from(number.0)).filter(|(_, uses)| *uses > 0).ok_or(DeviceError::NotFound)?;
        slot.1 -= 1;
        if slot.1 == 0 {
            self.by_gid.remove(&slot.0);
            self.free.push(number.0);
        }
        Ok(())
    }

    /// The device that a handle names.
    pub(super) fn gid(&self, number: AhNumber) -> Option<Gid> {
        self.slots.get(usize::from(number.0)).filter(|(_, uses)| *uses > 0).map(|(gid, _)| *gid)
    }

    /// The handle of a device, [`AhNumber::UNKNOWN`] where there is none.
    pub(super) fn number(&self, gid: &Gid) -> AhNumber {
        self.by_gid.get(gid).map_or(AhNumber::UNKNOWN, |number| AhNumber(*number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_device_has_one_number_until_its_last_handle_goes() {
        let (a, b) = (Gid([1; 16]), Gid([2; 16]));
        let mut table = AhTable::default();
        let first = table.create(a).expect("room");
        assert_eq!(table.create(a), Ok(first));
        let other = table.create(b).expect("room");
        assert_ne!(first, other);
        assert_eq!(table.destroy(first), Ok(()));
        assert_eq!(table.gid(first), Some(a));
        assert_eq!(table.destroy(first), Ok(()));
        assert_eq!((table.gid(first), table.number(&a)), (None, AhNumber::UNKNOWN));
        assert_eq!(table.destroy(first), Err(DeviceError::NotFound));
        assert_eq!(table.create(Gid([3; 16])), Ok(first));
    }
}
