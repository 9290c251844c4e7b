//! Discovery of ublk devices that belong to volumes, and of those that wait for a server.
//!
//! The kernel stores a number of the server with each device; HostFTL stores a mark derived from
//! the UUID of the volume. So a device is recognised after its server has died, without a state
//! file that could be out of date.

use std::thread;
use std::time::{Duration, Instant};

use hostftl_io::ublk::{Attributes, Control, DeviceInfo, State, UblkError, devices};

use super::{ExpectedDevice, NEEDED, RECOVERS};

/// Time limit for the kernel to notice the end of a server.
const END: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// Prefix of a mark of HostFTL: the letters HF.
const OURS: u64 = 0x4846 << 48;
const OURS_MASK: u64 = 0xffff << 48;

/// Returns the mark of devices of the volume with this UUID.
pub(super) fn volume_mark(uuid: [u8; 16]) -> u64 {
    let front = u64::from_be_bytes(uuid[..8].try_into().expect("eight bytes"));
    OURS | front >> 16
}

/// Block device of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// Number of the device.
    pub id: u32,
    /// Path of the block device.
    pub path: String,
    /// State of the device as text.
    pub state: String,
    /// Whether its server has ended.
    pub is_orphan: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// Process that serves or served it.
    pub pid: i32,
    /// First 12 hexadecimal digits of the UUID of its volume.
    pub volume: String,
}

/// Lists the block devices of all volumes on this machine.
///
/// # Errors
/// When the kernel has no ublk, or refuses a query.
pub fn list() -> Result<Vec<BlockDevice>, UblkError> {
    let control = Control::open()?;
    let mut found = Vec::new();
    for id in devices() {
        let Some(info) = control.info(id)?.filter(|info| info.mark & OURS_MASK == OURS) else {
            continue;
        };
        let bytes = control.attributes(id).map_or(0, |attributes| attributes.sectors * 512);
        found.push(BlockDevice {
            id,
            path: info.path(),
            state: info.state.to_string(),
            is_orphan: info.state != State::Live,
            bytes,
            pid: info.pid,
            volume: format!("{:012x}", info.mark & !OURS_MASK),
        });
    }
    Ok(found)
}

/// Refuses to serve a volume by other means while one of its block devices waits for a server: the
/// writes that wait there are older than writes that clients would send now, but would be applied
/// after them. Returns whether the check was possible: without the permission to query existing
/// devices, nothing is refused.
///
/// # Errors
/// When there is such a device, or a query fails.
pub fn refuse_beside_waiting(volume: [u8; 16]) -> Result<bool, UblkError> {
    let ids = devices();
    if ids.is_empty() {
        return Ok(true);
    }
    let Ok(control) = Control::open() else { return Ok(false) };
    let mark = volume_mark(volume);
    for id in ids {
        let Some(info) = control.info(id)?.filter(|info| info.mark == mark) else { continue };
        if let Some(info) = settled(&control, info)?.filter(|info| info.state != State::Dead) {
            return Err(stands_in_the_way(&info));
        }
    }
    Ok(true)
}

fn stands_in_the_way(info: &DeviceInfo) -> UblkError {
    let why = format!(
        "it {}, and its waiting writes would overwrite newer ones; serve with --ublk too, or \
         discard it with `hostftl ublk delete {}`",
        info.state, info.id
    );
    refused(info, "serve the volume without it", why)
}

/// Deletes a block device together with its pending requests.
///
/// # Errors
/// When there is no such device, or the kernel refuses.
pub fn delete(id: u32) -> Result<(), UblkError> {
    let control = Control::open()?;
    control.stop(id)?;
    control.delete(id)
}

/// Returns the device of the volume that waits for a server, if any, and its length in sectors.
pub(super) fn waiting(
    control: &Control,
    wanted: &ExpectedDevice,
) -> Result<Option<(DeviceInfo, u64)>, UblkError> {
    for id in devices() {
        let of_volume = |info: &DeviceInfo| info.mark == wanted.mark;
        let Some(info) = control.info(id)?.filter(of_volume) else { continue };
        match settled(control, info)? {
            Some(info) if info.state == State::Dead => {
                // It was never started, or its server died while it was shutting down.
                control.stop(id).ok();
                control.delete(id)?;
            }
            Some(info) => {
                let there = control.attributes(id)?;
                fits(&info, there, wanted)?;
                return Ok(Some((info, there.sectors)));
            }
            None => {}
        }
    }
    Ok(None)
}

/// Waits until the kernel has noticed the end of the device's server. Returns `None` when the
/// device has disappeared too.
fn settled(control: &Control, mut info: DeviceInfo) -> Result<Option<DeviceInfo>, UblkError> {
    let until = Instant::now() + END;
    while info.state == State::Live {
        if Instant::now() >= until {
            let why = format!("process {} serves this volume with it", info.pid);
            return Err(refused(&info, "take it over", why));
        }
        thread::sleep(CHECK_INTERVAL);
        let Some(now) = control.info(info.id)? else { return Ok(None) };
        info = now;
    }
    Ok(Some(info))
}

/// Checks that this server can take over a device.
fn fits(info: &DeviceInfo, there: Attributes, wanted: &ExpectedDevice) -> Result<(), UblkError> {
    let (path, ours) = (info.path(), &wanted.attributes);
    let why = if info.state != State::Quiesced || !info.features.has(NEEDED.and(RECOVERS)) {
        format!("{path} {}; delete it with `hostftl ublk delete {}`", info.state, info.id)
    } else if wanted.forgot {
        format!(
            "acknowledged writes of the last server may be lost, but users of the device rely on \
             them; discard it with `hostftl ublk delete {}`",
            info.id
        )
    } else if !wanted.recovers {
        "users of the device rely on acknowledged writes; start with --ack media or memfd".into()
    } else if there.sectors > ours.sectors || there.read_only != ours.read_only {
        format!(
            "it has {} sectors{}, but the volume is served with {}{}",
            there.sectors,
            if there.read_only { ", read-only" } else { "" },
            ours.sectors,
            if ours.read_only { ", read-only" } else { "" },
        )
    } else if there.longest > ours.longest {
        format!(
            "its requests have up to {} bytes, but the limit is {}",
            there.longest, ours.longest
        )
    } else {
        return Ok(());
    };
    Err(refused(info, "take it over", why))
}

/// Begins the recovery of a device whose server died.
pub(super) fn begin_recovery(control: &Control, id: u32) -> Result<(), UblkError> {
    let until = Instant::now() + END;
    loop {
        match control.begin_recovery(id) {
            Err(error) if error.number() == Some(libc::EBUSY) && Instant::now() < until => {
                thread::sleep(CHECK_INTERVAL);
            }
            begun => return begun,
        }
    }
}

fn refused(info: &DeviceInfo, action: &'static str, why: String) -> UblkError {
    UblkError::System { name: info.path(), action, source: std::io::Error::other(why) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_io::ublk::Features;

    fn info(state: State, features: Features) -> DeviceInfo {
        let (id, queues, depth, longest, pid, mark) = (3, 1, 64, 1 << 20, 9, 5);
        DeviceInfo { id, queues, depth, longest, state, pid, features, mark }
    }

    #[test]
    fn a_mark_identifies_its_volume() {
        let [one, other] = [volume_mark([0xab; 16]), volume_mark([0xac; 16])];
        assert_ne!(one, other);
        assert_eq!(format!("{one:x}"), "4846abababababab");
    }

    #[test]
    fn a_waiting_device_is_named_with_both_options() {
        let text = stands_in_the_way(&info(State::Quiesced, NEEDED)).to_string();
        for word in ["/dev/ublkb3", "waits for a server", "--ublk", "hostftl ublk delete 3"] {
            assert!(text.contains(word), "{text}");
        }
    }

    #[test]
    fn a_device_is_taken_over_only_with_equal_parameters() {
        let ours = Attributes { sectors: 8, longest: 1 << 20, best: 4096, read_only: false };
        let wanted = ExpectedDevice { mark: 5, recovers: true, forgot: false, attributes: ours };
        let all = NEEDED.and(RECOVERS);
        let waits = info(State::Quiesced, all);
        fits(&waits, ours, &wanted).unwrap();
        fits(&waits, Attributes { sectors: 4, ..ours }, &wanted).expect("the volume grew");
        let refusals = [
            (waits, ours, ExpectedDevice { recovers: false, ..wanted }, "--ack media"),
            (waits, ours, ExpectedDevice { forgot: true, ..wanted }, "hostftl ublk delete 3"),
            (waits, Attributes { sectors: 16, ..ours }, wanted, "16 sectors"),
            (waits, Attributes { read_only: true, ..ours }, wanted, "read-only"),
            (waits, Attributes { longest: 2 << 20, ..ours }, wanted, "2097152 bytes"),
            (info(State::FailIo, all), ours, wanted, "hostftl ublk delete 3"),
            (info(State::Quiesced, NEEDED), ours, wanted, "hostftl ublk delete 3"),
        ];
        for (info, there, wanted, word) in refusals {
            let text = fits(&info, there, &wanted).unwrap_err().to_string();
            assert!(text.contains(word), "{text}");
        }
    }
}
