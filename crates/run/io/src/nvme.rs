//! Queries to NVMe drives through the kernel's passthrough. Only the read-only commands of
//! [`hostftl_nvme`] are sent.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use hostftl_nvme::{Carrier, Command, Facts, Namespace, Queue, refusal};

use crate::device::{Backing, Device};

/// `_IO('N', 0x40)`: returns the namespace number of a file.
const NVME_IOCTL_ID: libc::c_ulong = 0x4e40;
/// `_IOWR('N', 0x41, struct nvme_passthru_cmd)`.
const NVME_IOCTL_ADMIN_CMD: libc::c_ulong = 0xc048_4e41;
/// `_IOWR('N', 0x43, struct nvme_passthru_cmd)`.
const NVME_IOCTL_IO_CMD: libc::c_ulong = 0xc048_4e43;
/// Timeout that the kernel applies to a command.
const PATIENCE_MS: u32 = 5000;

/// `struct nvme_passthru_cmd` of `linux/nvme_ioctl.h`.
#[repr(C)]
#[derive(Default)]
struct Passthru {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    bytes: u32,
    words: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

/// NVMe drive or namespace that can be queried.
#[derive(Debug)]
pub struct NvmeDrive {
    file: File,
    /// Namespace number, 0 for a controller node.
    namespace: u32,
}

impl NvmeDrive {
    /// Opens the drive of a block device (`/dev/nvme0n1`) or character device (`/dev/ng0n1`,
    /// `/dev/nvme0`).
    ///
    /// # Errors
    /// When it cannot be opened or is not an NVMe drive.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        Self::from_file(file)
    }

    fn from_file(file: File) -> io::Result<Self> {
        let kind = file.metadata()?;
        if kind.is_file() || kind.is_dir() {
            return Err(io::Error::other(
                "it is not a drive; use a block device such as \
                                         /dev/nvme0n1",
            ));
        }
        // SAFETY: the request takes no argument.
        let number = unsafe { libc::ioctl(file.as_raw_fd(), NVME_IOCTL_ID as _) };
        match u32::try_from(number) {
            Ok(namespace) => Ok(NvmeDrive { file, namespace }),
            // A controller node has no namespace number. An identify command shows whether it is
            // one.
            Err(_) => {
                let drive = NvmeDrive { file, namespace: 0 };
                let mut page = vec![0; hostftl_nvme::PAGE_BYTES];
                drive.pass(&Command::who(), &mut page).map_err(|_| {
                    io::Error::other(
                        "it is not an NVMe drive; other drives are not \
                                                   supported",
                    )
                })?;
                Ok(drive)
            }
        }
    }

    /// Gathers all facts that the drive reports.
    ///
    /// # Errors
    /// A message, when even the identify command fails.
    pub fn facts(&self) -> Result<Facts, String> {
        Facts::gather(&mut &*self, self.namespace)
    }

    /// Sends a command. Returns the status of its completion, and the first word of the completion.
    fn pass(&self, command: &Command, page: &mut [u8]) -> io::Result<(u16, u32)> {
        assert!(page.len() >= command.bytes, "the buffer holds the page");
        let mut pass = Passthru {
            opcode: command.opcode,
            namespace: command.namespace,
            address: if command.bytes == 0 { 0 } else { page.as_mut_ptr() as u64 },
            bytes: command.bytes as u32,
            words: command.words,
            timeout_ms: PATIENCE_MS,
            ..Passthru::default()
        };
        let request = match command.queue {
            Queue::Admin => NVME_IOCTL_ADMIN_CMD,
            Queue::Io => NVME_IOCTL_IO_CMD,
        };
        // SAFETY: the structure matches the request; the drive writes at most `bytes` bytes to
        // `address`, which `page` has, and has finished when the call returns.
        let status = unsafe { libc::ioctl(self.file.as_raw_fd(), request as _, &mut pass) };
        match u16::try_from(status) {
            Ok(status) => Ok((status, pass.result)),
            Err(_) => Err(io::Error::last_os_error()),
        }
    }
}

impl Carrier for &NvmeDrive {
    fn carry(&mut self, command: &Command, page: &mut [u8]) -> Result<u32, String> {
        match self.pass(command, page) {
            Ok((0, word)) => Ok(word),
            Ok((status, _)) => Err(refusal(status)),
            Err(error) => match error.raw_os_error() {
                Some(libc::EACCES | libc::EPERM) => Err("it needs root or CAP_SYS_ADMIN".into()),
                _ => Err(error.to_string()),
            },
        }
    }
}

/// Returns whether `file` is on an NVMe drive that does not deallocate zeroed ranges. There,
/// zeroing a range costs as much as a write, although the kernel offers a command for it.
pub(crate) fn writes_zeros(file: &File) -> bool {
    let drive = file.try_clone().and_then(NvmeDrive::from_file);
    let namespace = drive.ok().and_then(|drive| Namespace::ask(&mut &drive, drive.namespace));
    namespace.is_some_and(|namespace| !namespace.zeroing_frees)
}

impl Device {
    /// Returns the NVMe drive of the device; `None` for other devices.
    pub fn nvme(&self) -> Option<NvmeDrive> {
        let file = self.as_file().filter(|_| self.backing() == Backing::Block)?;
        NvmeDrive::from_file(file.try_clone().ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_structure_is_the_kernel_s() {
        assert_eq!(size_of::<Passthru>(), 72);
        let of = |number: u64| 3 << 30 | 72 << 16 | u64::from(b'N') << 8 | number;
        assert_eq!([NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_IO_CMD], [of(0x41), of(0x43)]);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no ioctl")]
    fn other_devices_are_refused_with_a_reason() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = NvmeDrive::open(file.path()).unwrap_err().to_string();
        assert!(error.contains("/dev/nvme0n1"), "{error}");
        let error = NvmeDrive::open(Path::new("/dev/null")).unwrap_err().to_string();
        assert!(error.contains("not an NVMe drive"), "{error}");
    }
}
