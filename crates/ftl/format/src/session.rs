//! Session mark: how the last process that served the volume ended, and for which clients.
//!
//! Every device of a volume has it in two places written alternately, in the reserve after the
//! first superblock, so a torn mark leaves its predecessor. Of all intact marks on all devices, the
//! one with the highest sequence number counts.
//!
//! | bytes | field |
//! |---|---|
//! | 0..32 | header, kind `SESN`; the sequence number grows by one with each mark |
//! | 32..40 | number of the run: how often the volume was started to be served |
//! | 40 | 1 while serving, 2 after an orderly stop |
//! | 41 | acknowledgement of writes: 1 when buffered, 2 when durable |
//! | 42 | possible clients: 1 this machine only, 2 others too |
//! | 43 | zero |
//! | 44..48 | generation of the export's name, from 1 |
//! | 48..52 | the generation that the plain name denotes |
//! | 52..56 | zero |
//! | 56..72 | the machine id; zeros if none |
//! | 72..88 | the boot id of the machine; zeros if none |
//! | 88..4096 | zero |

use hostftl_core::{Page, SECTORS_PER_BLOCK};

use crate::page::{self, Fault, Stamp, put_u32, put_u64, u32_at, u64_at};

const KIND: [u8; 4] = *b"SESN";

/// First sectors of the two places on each device.
pub const PLACES: [u64; 2] = [SECTORS_PER_BLOCK as u64, 2 * SECTORS_PER_BLOCK as u64];

/// State of the last session. The table above describes the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the table above describes the fields")]
pub struct Mark {
    pub number: u64,
    pub run: u64,
    pub serving: bool,
    /// Whether writes are acknowledged only when durable.
    pub through: bool,
    /// Whether clients may be on other machines.
    pub beyond: bool,
    pub generation: u32,
    pub plain: u32,
    pub machine: [u8; 16],
    pub boot: [u8; 16],
}

/// Returns the first sector of the mark with this sequence number.
pub fn mark_sector(number: u64) -> u64 {
    PLACES[(number % 2) as usize]
}

/// Returns the byte for a flag: 1 for false, 2 for true.
fn two(second: bool) -> u8 {
    1 + u8::from(second)
}

/// Returns the flag of such a byte; `None` for another value.
fn which(byte: u8) -> Option<bool> {
    matches!(byte, 1 | 2).then_some(byte == 2)
}

impl Mark {
    /// Returns the page for its place.
    pub fn emit(&self, volume: [u8; 16]) -> Page {
        let mut page = Page::default();
        put_u64(&mut page, 32, self.run);
        page.0[40] = two(!self.serving);
        page.0[41] = two(self.through);
        page.0[42] = two(self.beyond);
        put_u32(&mut page, 44, self.generation);
        put_u32(&mut page, 48, self.plain);
        page.0[56..72].copy_from_slice(&self.machine);
        page.0[72..88].copy_from_slice(&self.boot);
        let stamp = Stamp { kind: KIND, uuid: volume, at: mark_sector(self.number) };
        page::seal(&mut page, stamp, self.number);
        page
    }

    /// Parses the mark in a page that was read from sector `at`.
    ///
    /// # Errors
    /// [`Fault::Foreign`] when there is no mark, or one of another volume; [`Fault::Damaged`]
    /// otherwise.
    pub fn parse(page: &Page, volume: [u8; 16], at: u64) -> Result<Self, Fault> {
        let number = page::open(page, Stamp { kind: KIND, uuid: volume, at })?;
        let flags = [which(page.0[40]), which(page.0[41]), which(page.0[42])];
        let [Some(stopped), Some(through), Some(beyond)] = flags else {
            return Err(Fault::Damaged);
        };
        let (generation, plain) = (u32_at(page, 44), u32_at(page, 48));
        if mark_sector(number) != at || plain == 0 || plain > generation {
            return Err(Fault::Damaged);
        }
        Ok(Mark {
            number,
            run: u64_at(page, 32),
            serving: !stopped,
            through,
            beyond,
            generation,
            plain,
            machine: page.0[56..72].try_into().expect("sixteen bytes"),
            boot: page.0[72..88].try_into().expect("sixteen bytes"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    prop_compose! {
        fn any_mark()(
            number: u64, run: u64, serving: bool, through: bool, beyond: bool, plain in 1..u32::MAX,
            more in 0..1000_u32, machine: [u8; 16], boot: [u8; 16],
        ) -> Mark {
            let generation = plain.saturating_add(more);
            Mark { number, run, serving, through, beyond, generation, plain, machine, boot }
        }
    }

    proptest! {
        #[test]
        fn parse_undoes_emit(mark in any_mark(), volume: [u8; 16]) {
            let page = mark.emit(volume);
            prop_assert_eq!(Mark::parse(&page, volume, mark_sector(mark.number)), Ok(mark));
            let other = mark_sector(mark.number.wrapping_add(1));
            prop_assert_eq!(Mark::parse(&page, volume, other), Err(Fault::Damaged));
        }

        #[test]
        fn a_flipped_bit_is_refused(mark in any_mark(), bit in 0..4096_usize * 8) {
            let mut page = mark.emit([7; 16]);
            page.0[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Mark::parse(&page, [7; 16], mark_sector(mark.number)).is_err());
        }
    }

    #[test]
    fn nonsense_under_a_sound_checksum_is_damage() {
        let sound = Mark {
            number: 4,
            run: 1,
            serving: true,
            through: false,
            beyond: false,
            generation: 1,
            plain: 1,
            machine: [1; 16],
            boot: [2; 16],
        };
        let volume = [7; 16];
        for (at, byte) in [(40, 0), (41, 3), (42, 9), (44, 0), (48, 0), (48, 2)] {
            let mut page = sound.emit(volume);
            page.0[at] = byte;
            let stamp = Stamp { kind: KIND, uuid: volume, at: mark_sector(4) };
            page::seal(&mut page, stamp, 4);
            assert_eq!(
                Mark::parse(&page, volume, mark_sector(4)),
                Err(Fault::Damaged),
                "byte {at}"
            );
        }
    }
}
