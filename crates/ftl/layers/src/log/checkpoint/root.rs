//! Writes of a root to all devices: first one copy, then the other, so that a power cut damages at
//! most one.

use hostftl_core::{Cause, Command, Gather, MetaBuf, Piece, Tally};
use hostftl_format::log::{self, Root};

use crate::kit::shell::Ended;
use crate::log::checkpoint::{Checkpoint, Phase};
use crate::log::devices::Devices;
use crate::log::ops::{Cx, Op, count_sent, works};
use crate::log::stripe::streams::MAP;

/// The effect of a completed command on the root in progress.
#[derive(Debug)]
pub(crate) enum Written {
    /// More commands follow.
    On,
    /// A copy was lost with its zone, and the root must be written again.
    Again,
    /// The root is durable.
    Durable,
}

impl Checkpoint {
    /// Writes a root.
    pub(crate) fn send_root(&mut self, root: Root, devices: &mut Devices, cx: &mut Cx) {
        self.next = Root { everywhere: self.everywhere, ..root };
        if devices.layout().zoned {
            self.send_root_in_turn(devices, cx)
        } else {
            self.send_copy(0, devices, cx)
        }
    }

    /// Writes a root on zoned devices, after each has a zone with space for it.
    fn send_root_in_turn(&mut self, devices: &mut Devices, cx: &mut Cx) {
        match self.roots.turn_all(devices, cx) {
            0 if works(cx) => self.send_copy(0, devices, cx),
            turns => self.go(Phase::Turn(turns)),
        }
    }

    /// Processes a completed command of a change to another zone.
    pub(crate) fn turned(
        &mut self,
        command: &Command,
        ended: Ended,
        devices: &mut Devices,
        cx: &mut Cx,
    ) {
        if !self.roots.turned(command, ended, devices, cx) {
            return;
        }
        let next = match self.phase {
            Phase::Turn(1) if works(cx) => return self.send_root_in_turn(devices, cx),
            Phase::Turn(left) => Phase::Turn(left - 1),
            other => unreachable!("{other:?} does not change the root zone"),
        };
        self.go(next);
    }

    fn send_copy(&mut self, copy: u32, devices: &mut Devices, cx: &mut Cx) {
        let (root, layout) = (self.next, *devices.layout());
        for device in 0..layout.devices {
            if !devices.takes_roots(device) {
                // The buffer of this device may belong to an abandoned command.
                devices.submit(Op::Root { device }, Command::Flush { device }, cx);
                continue;
            }
            let (at, gap) = if layout.zoned {
                self.roots.enter(device, copy)
            } else {
                (layout.root_at(root.number, copy), 0)
            };
            let mut buf = self.bufs.pop().expect("a root for each device");
            let tops = self.top.iter().map(|&(place, crc)| {
                let sound = layout.admits_image(place);
                let segment = sound.then(|| layout.segment_at(place.byte()));
                let of = |segment: u32| devices.membership().recorded(segment).0.to_bits();
                (place, crc, segment.map_or(0, of))
            });
            log::emit_root(&mut buf, &self.uuid, at, &root, tops);
            let fill = if layout.zoned { layout.root_stride() - layout.root() } else { 0 };
            let gather = root_gather(buf, gap, fill);
            let mut tally = Tally::single(Cause::Checkpoint, layout.root());
            tally.add(Cause::Pad, gap + fill);
            count_sent(&tally, cx);
            let lba = at - u64::from(gap);
            let command = Command::Program { device, lba, gather, tally, placement: MAP };
            devices.submit(Op::Root { device }, command, cx);
        }
        self.go(Phase::Root(copy, layout.devices));
    }

    /// Processes the completed write of a root to a device, or the flush after it.
    pub(crate) fn root_done(
        &mut self,
        command: Command,
        devices: &mut Devices,
        cx: &mut Cx,
    ) -> Written {
        if let Command::Program { gather, .. } = command {
            for piece in gather {
                if let Piece::Meta { buf, .. } = piece {
                    self.bufs.push(buf);
                }
            }
        }
        let sound = works(cx);
        let next = match self.phase {
            Phase::Root(_, 1) if sound && self.roots.is_again() => {
                return Written::Again;
            }
            Phase::Root(copy, 1) if sound => {
                let count = devices.layout().devices;
                for device in 0..count {
                    devices.submit(Op::Root { device }, Command::Flush { device }, cx);
                }
                Phase::Flush(copy, count)
            }
            Phase::Root(copy, left) => Phase::Root(copy, left - 1),
            Phase::Flush(0, 1) if sound => {
                self.send_copy(1, devices, cx);
                return Written::On;
            }
            Phase::Flush(1, 1) if sound => {
                self.go(Phase::Idle);
                return Written::Durable;
            }
            Phase::Flush(copy, left) => Phase::Flush(copy, left - 1),
            other => unreachable!("no root is in progress in {other:?}"),
        };
        self.go(next);
        Written::On
    }
}

/// Returns the pieces of a root: `gap` sectors of zeros, the root, and `fill` sectors of zeros up
/// to the write unit.
fn root_gather(buf: MetaBuf, gap: u32, fill: u32) -> Gather {
    let pages = buf.pages().len() as u32;
    let mut gather = Gather::new();
    if gap > 0 {
        gather.push(Piece::zero_sectors(gap));
    }
    gather.push(Piece::Meta { buf, pages });
    if fill > 0 {
        gather.push(Piece::zero_sectors(fill));
    }
    gather
}
