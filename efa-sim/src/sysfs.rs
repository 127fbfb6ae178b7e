//! A private tree that looks like the part of `/sys` in which libfabric looks for EFA.
//!
//! The provider reads three things there: the version of the verbs interface, the PCI address (the
//! name of the directory that `device` links to) and the driver (the end of the path that `driver`
//! links to). The rest is for people and for tools that list devices.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::Generation;
use crate::model::Gid;
use crate::state::named;

/// PCI vendor of the devices.
pub const VENDOR_ID: u32 = 0x1d0f;

/// Bus number of the first device: one device per PCI bus, as on large EC2 instances.
const FIRST_BUS: usize = 0x10;

/// Where the tree of a process shows one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePaths {
    /// `/class/infiniband/NAME`.
    pub ibdev: PathBuf,
    /// `/class/infiniband_verbs/uverbsN`.
    pub uverbs: PathBuf,
    /// `/class/infiniband/NAME/ports/1/hw_counters`.
    pub counters: PathBuf,
}

/// The name of a device, which says what it is.
pub fn device_name(index: usize) -> String {
    format!("efasim{index}")
}

/// Makes the tree of one device under `root`, which must exist.
///
/// # Errors
///
/// A file or directory cannot be made; the error names it.
pub fn create_device(root: &Path, index: usize, gid: Gid, generation: Generation) -> io::Result<DevicePaths> {
    let name = device_name(index);
    let pci_name = format!("0000:{:02x}:00.0", FIRST_BUS + index);
    let pci = root.join("devices/pci0000:00").join(&pci_name);
    let driver = root.join("bus/pci/drivers/efa");
    let ibdev = root.join("class/infiniband").join(&name);
    let verbs_class = root.join("class/infiniband_verbs");
    let uverbs = verbs_class.join(format!("uverbs{index}"));
    let port = ibdev.join("ports/1");
    let counters = port.join("hw_counters");
    for directory in [&pci, &driver, &uverbs, &port.join("gids"), &port.join("pkeys"), &counters] {
        fs::create_dir_all(directory).map_err(|error| named(error, directory))?;
    }

    write(&verbs_class.join("abi_version"), "6")?;
    write(&uverbs.join("abi_version"), "1")?;
    write(&uverbs.join("ibdev"), &name)?;
    link(&format!("../../../devices/pci0000:00/{pci_name}"), &uverbs.join("device"))?;

    write(&pci.join("vendor"), &format!("{VENDOR_ID:#06x}"))?;
    write(&pci.join("device"), &format!("{:#06x}", generation.part_id()))?;
    write(&pci.join("class"), "0x020000")?;
    write(&pci.join("numa_node"), "-1")?;
    link("../../../bus/pci/drivers/efa", &pci.join("driver"))?;

    link(&format!("../../../devices/pci0000:00/{pci_name}"), &ibdev.join("device"))?;
    write(&ibdev.join("fw_ver"), FIRMWARE)?;
    write(&ibdev.join("node_type"), "7: unspecified")?;
    write(&port.join("state"), "4: ACTIVE")?;
    write(&port.join("phys_state"), "5: LinkUp")?;
    write(&port.join("link_layer"), "Unspecified")?;
    write(&port.join("rate"), &format!("{} Gb/sec", generation.gbit_per_sec()))?;
    write(&port.join("pkeys/0"), "0xffff")?;
    let groups: Vec<String> = gid.0.chunks(2).map(|pair| format!("{:02x}{:02x}", pair[0], pair[1])).collect();
    write(&port.join("gids/0"), &groups.join(":"))?;
    Ok(DevicePaths { ibdev, uverbs, counters })
}

/// What the devices say that their firmware is.
pub const FIRMWARE: &str = concat!("efa-sim ", env!("CARGO_PKG_VERSION"));

/// Writes one attribute, with the line end that the kernel puts there.
fn write(path: &Path, value: &str) -> io::Result<()> {
    fs::write(path, format!("{value}\n")).map_err(|error| named(error, path))
}

fn link(target: &str, path: &Path) -> io::Result<()> {
    match symlink(target, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        result => result.map_err(|error| named(error, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_resolve_to_a_pci_address_and_to_the_driver() {
        let root = tempfile::tempdir().unwrap();
        let gid = Gid::from(std::net::IpAddr::from([127, 0, 0, 2]));
        for index in 0..2 {
            let paths = create_device(root.path(), index, gid, Generation::V4).unwrap();
            let device = paths.ibdev.join("device").canonicalize().unwrap();
            assert_eq!(device.file_name().unwrap().to_str().unwrap(), format!("0000:{:02x}:00.0", 0x10 + index));
            let driver = paths.ibdev.join("device/driver").canonicalize().unwrap();
            assert!(driver.ends_with("efa"));
            assert!(paths.uverbs.join("device/vendor").exists());
            assert!(paths.counters.is_dir());
        }
        let gids = fs::read_to_string(root.path().join("class/infiniband/efasim1/ports/1/gids/0"));
        assert_eq!(gids.unwrap(), "0000:0000:0000:0000:0000:ffff:7f00:0002\n");
    }
}
