//! Generations of the device: what each can do, and how fast its port says it is.

use std::fmt;
use std::str::FromStr;

/// A generation of the EFA device.
///
/// The generations differ in what a program may ask for, so a program is tested against each of
/// them to see that it gets along with less. They are modelled on the four PCI device ids of EFA
/// (0xefa0 to 0xefa3); the split of capabilities is this simulator's, one step per generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Generation {
    /// Messages only: no remote reads and no remote writes, 100 Gbit/s.
    V1,
    /// Remote reads, 100 Gbit/s.
    V2,
    /// Remote reads and writes, 200 Gbit/s.
    V3,
    /// Remote reads and writes, and writes with immediate data that take no receive, 400 Gbit/s.
    #[default]
    V4,
}

impl Generation {
    /// All generations, oldest first.
    pub const ALL: [Generation; 4] = [Generation::V1, Generation::V2, Generation::V3, Generation::V4];

    /// The name that `EFA_SIM_GENERATION` takes.
    pub fn name(self) -> &'static str {
        match self {
            Generation::V1 => "efa-v1",
            Generation::V2 => "efa-v2",
            Generation::V3 => "efa-v3",
            Generation::V4 => "efa-v4",
        }
    }

    /// The PCI device id, also what `ibv_query_device` calls the vendor's part id.
    pub fn part_id(self) -> u32 {
        match self {
            Generation::V1 => 0xefa0,
            Generation::V2 => 0xefa1,
            Generation::V3 => 0xefa2,
            Generation::V4 => 0xefa3,
        }
    }

    /// Whether the device reads remote memory.
    pub fn rdma_read(self) -> bool {
        self >= Generation::V2
    }

    /// Whether the device writes remote memory.
    pub fn rdma_write(self) -> bool {
        self >= Generation::V3
    }

    /// Whether a write with immediate data can complete at the target without taking a receive.
    pub fn unsolicited_write(self) -> bool {
        self >= Generation::V4
    }

    /// The speed of the port in Gbit/s, as the port's attributes state it.
    pub fn gbit_per_sec(self) -> u32 {
        match self {
            Generation::V1 | Generation::V2 => 100,
            Generation::V3 => 200,
            Generation::V4 => 400,
        }
    }

    /// The code of the speed of one lane of four in `ibv_port_attr::active_speed`: 25, 50 or
    /// 100 Gbit/s (EDR, HDR, NDR).
    pub fn lane_speed_code(self) -> u8 {
        match self {
            Generation::V1 | Generation::V2 => 32,
            Generation::V3 => 64,
            Generation::V4 => 128,
        }
    }
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Generation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Generation::ALL
            .into_iter()
            .find(|generation| generation.name() == text)
            .ok_or_else(|| format!("`{text}` is none of efa-v1, efa-v2, efa-v3, efa-v4"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_generation_is_read_back_from_its_name() {
        for generation in Generation::ALL {
            assert_eq!(generation.name().parse(), Ok(generation));
        }
        assert!("efa-v5".parse::<Generation>().is_err());
    }

    #[test]
    fn capabilities_only_grow() {
        let sets = Generation::ALL
            .map(|g| u8::from(g.rdma_read()) + u8::from(g.rdma_write()) + u8::from(g.unsolicited_write()));
        assert_eq!(sets, [0, 1, 2, 3]);
    }
}
