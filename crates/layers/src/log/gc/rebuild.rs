//! Rebuilds a chunk of the victim from parity.

use hostftl_core::{Cause, Command, DeviceError, Few, Target, Verdict};

use crate::log::buffers::Buffer;
use crate::log::gc::{Collection, Needs};
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::Rebuild;

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mend {
    /// Where the row begins on its devices.
    lba: u64,
    /// The first sector of the chunk that is wanted, and how many.
    from: u32,
    sectors: u32,
    chunk: u8,
    rebuild: Rebuild,
    /// Whether a command is under way.
    busy: bool,
}

impl Mend {
    /// Makes `sectors` sectors from `from` on of a chunk of the row that begins at `lba`.
    pub fn new(lba: u64, (from, sectors): (u32, u32), chunk: u8, rebuild: Rebuild) -> Self {
        Mend { lba, from, sectors, chunk, rebuild, busy: false }
    }

    /// What was read is in the sum.
    fn folded(self) -> Self {
        Mend { busy: false, rebuild: self.rebuild.fold(), ..self }
    }
}

impl Collection {
    /// Reads the next chunk; the first goes where the sum will be.
    pub fn pump_mend(&mut self, mend: Mend, with: &mut Needs, cx: &mut Cx) -> bool {
        if mend.busy || cx.command_room() == 0 {
            return false;
        }
        let Some(device) = mend.rebuild.next_device() else {
            self.chunk_mended(mend.chunk, true, with, cx);
            return true;
        };
        self.mend_goes_on(Mend { busy: true, ..mend });
        let buffer = self.mend_buffer();
        let view = with.buffers.at(buffer).view_mut_sectors(mend.from, mend.sectors);
        let lba = mend.lba + u64::from(mend.from);
        let command = Command::Read { device, lba, into: Target::Data(view), cause: Cause::Gc };
        with.devices.submit(Op::GcMend, command, cx);
        true
    }

    /// The buffer into which a chunk is read.
    pub fn mend_buffer(&self) -> Buffer {
        let mend = self.mending();
        if mend.rebuild.is_begin() { Buffer::Gc(mend.chunk) } else { Buffer::Other }
    }

    /// A chunk was read, or is folded in.
    pub fn mend_done(
        &mut self,
        command: Command,
        result: Result<Verdict, DeviceError>,
        with: &mut Needs,
        cx: &mut Cx,
    ) {
        let mend = self.mending();
        let sum = Buffer::Gc(mend.chunk);
        let other = Buffer::Other;
        match command {
            Command::Read { into: Target::Data(view), .. } => {
                let first = mend.rebuild.is_begin();
                with.buffers.at(if first { sum } else { other }).repay_mut(view);
                if result.is_err() {
                    return self.chunk_mended(mend.chunk, false, with, cx);
                }
                if first {
                    return self.mend_goes_on(mend.folded());
                }
                let mut from = Few::new();
                from.push(with.buffers.at(other).view_sectors(mend.from, mend.sectors));
                let into = with.buffers.at(sum).view_mut_sectors(mend.from, mend.sectors);
                let command = Command::Fold { from, into, keep: true };
                with.devices.submit(Op::GcMend, command, cx);
            }
            Command::Fold { from, into, .. } => {
                from.into_iter().for_each(|view| with.buffers.at(other).repay(view));
                with.buffers.at(sum).repay_mut(into);
                self.mend_goes_on(mend.folded());
            }
            other => unreachable!("{other:?} mends nothing"),
        }
    }
}
