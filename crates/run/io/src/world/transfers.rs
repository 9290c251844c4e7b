//! Conversion of device commands into transfers.

use hostftl_core::{Command, Gather, Piece, SECTOR, Target};

use super::World;
use crate::transfer::{Call, Transfer};

impl World {
    pub(super) fn transfer(&self, slot: u32, command: &mut Command) -> Transfer {
        let device =
            &self.devices[usize::from(command.device().expect("the command needs a device"))];
        let fd = device.fd();
        let mut transfer = match command {
            Command::Read { lba, into, .. } => {
                let bytes = u64::from(into.sectors()) * SECTOR as u64;
                let offset = device.place(*lba, into.sectors().into());
                let mut transfer = Transfer::new(slot, fd, Call::Read, offset, bytes);
                self.push_target(into, &mut transfer);
                transfer
            }
            Command::Program { lba, gather, tally, .. } => {
                let bytes = gather.iter().map(|piece| u64::from(piece.bytes())).sum::<u64>();
                assert_eq!(
                    bytes,
                    u64::from(tally.total()) * SECTOR as u64,
                    "a tally is as long as its program"
                );
                let offset = device.place(*lba, tally.total().into());
                let mut transfer = Transfer::new(slot, fd, Call::Write, offset, bytes);
                self.push_gather(gather, &mut transfer);
                transfer
            }
            Command::Reset { lba, sectors, .. } => {
                Transfer::reset(slot, fd, device.place(*lba, *sectors), *sectors * SECTOR as u64)
            }
            _ => Transfer::sync(slot, fd),
        };
        // Direct I/O needs aligned memory and lengths.
        if device.direct().is_on() {
            transfer.align(device.unit());
        }
        transfer
    }

    fn push_target(&self, into: &mut Target, transfer: &mut Transfer) {
        match into {
            Target::Data(view) => {
                let start = self.memory.address(view.id(), view.from(), view.bytes());
                transfer.push(start, view.bytes() as usize);
            }
            Target::Meta { buf, pages } => {
                let pages = &mut buf.pages_mut()[..*pages as usize];
                transfer.push(pages.as_mut_ptr().cast(), size_of_val(pages));
            }
        }
    }

    fn push_gather(&self, gather: &Gather, transfer: &mut Transfer) {
        for piece in gather.iter() {
            match piece {
                Piece::Data(view) => {
                    let start = self.memory.address(view.id(), view.from(), view.bytes());
                    transfer.push(start, view.bytes() as usize);
                }
                Piece::Meta { buf, pages } => {
                    let pages = &buf.pages()[..*pages as usize];
                    transfer.push(pages.as_ptr().cast_mut().cast(), size_of_val(pages));
                }
                Piece::Zeros(bytes) => transfer.push_zeros(*bytes as usize),
            }
        }
    }
}
