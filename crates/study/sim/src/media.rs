//! The metadata pages on the devices, which are the only bytes of the virtual world.
//!
//! Invariant: a page is stored exactly if one program wrote all of its sectors last and carried
//! them as metadata. Everything else reads as zeros.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use hostftl_core::{Command, Gather, MetaBuf, Page, Piece, SECTOR, SECTORS_PER_BLOCK, Target};

/// Sectors of a page.
const PAGE: u64 = SECTORS_PER_BLOCK as u64;

/// The pages of all devices by device and first sector. Trailing zeros are not stored, because the
/// head of a short stripe has few entries.
#[derive(Debug, Default)]
pub(crate) struct Media {
    pages: BTreeMap<(u8, u64), Box<[u8]>>,
}

/// Returns the stored part of a page.
fn kept(page: &Page) -> Box<[u8]> {
    let end = page.0.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    page.0[..end].into()
}

/// Returns the whole page of a stored part.
fn whole(kept: &[u8]) -> Page {
    let mut page = Page::default();
    page.0[..kept.len()].copy_from_slice(kept);
    page
}

impl Media {
    /// Applies a completed program.
    pub(crate) fn program(&mut self, device: u8, lba: u64, gather: &Gather) {
        let mut at = lba * SECTOR as u64;
        for piece in gather.iter() {
            let first = at / SECTOR as u64;
            self.forget(device, first, (at + u64::from(piece.bytes())).div_ceil(SECTOR as u64));
            if let Piece::Meta { buf, pages } = piece {
                for (index, page) in buf.pages()[..*pages as usize].iter().enumerate() {
                    let at = (device, first + index as u64 * PAGE);
                    self.pages.insert(at, kept(page));
                }
            }
            at += u64::from(piece.bytes());
        }
    }

    /// Drops the pages that overlap the sectors `from..to`.
    pub(crate) fn forget(&mut self, device: u8, from: u64, to: u64) {
        let first = from.saturating_sub(PAGE - 1);
        while let Some((&key, _)) = self.pages.range((device, first)..(device, to)).next() {
            self.pages.remove(&key);
        }
    }

    /// Writes all pages in the format of [`Media::load`].
    pub(crate) fn save(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&(self.pages.len() as u64).to_le_bytes())?;
        for (&(device, lba), page) in &self.pages {
            out.write_all(&[device])?;
            out.write_all(&lba.to_le_bytes())?;
            out.write_all(&whole(page).0)?;
        }
        Ok(())
    }

    /// Reads the pages that [`Media::save`] wrote.
    pub(crate) fn load(from: &mut impl Read) -> io::Result<Self> {
        let mut word = [0; 8];
        from.read_exact(&mut word)?;
        let mut media = Media::default();
        for _ in 0..u64::from_le_bytes(word) {
            let (mut device, mut page) = ([0], Page::default());
            from.read_exact(&mut device)?;
            from.read_exact(&mut word)?;
            from.read_exact(&mut page.0)?;
            media.pages.insert((device[0], u64::from_le_bytes(word)), kept(&page));
        }
        Ok(media)
    }

    /// Reads whole pages.
    pub(crate) fn read(&self, device: u8, lba: u64, buf: &mut MetaBuf, pages: u32) {
        for (index, page) in buf.pages_mut()[..pages as usize].iter_mut().enumerate() {
            let found = self.pages.get(&(device, lba + index as u64 * PAGE));
            *page = found.map_or_else(Page::default, |page| whole(page));
        }
    }
}

/// Transfers the metadata of a completed command. Returns false if it reads metadata that is not
/// kept.
pub(crate) fn transfer(media: &mut Option<Media>, command: &mut Command) -> bool {
    match (command, media) {
        (Command::Read { device, lba, into: Target::Meta { buf, pages }, .. }, Some(media)) => {
            media.read(*device, *lba, buf, *pages);
        }
        (Command::Read { into: Target::Meta { .. }, .. }, None) => return false,
        // Payloads have no bytes in this world.
        (Command::Peek { into, pages, .. }, _) => {
            into.pages_mut()[..*pages as usize].fill(Page::default());
        }
        (Command::Program { device, lba, gather, .. }, Some(media)) => {
            media.program(*device, *lba, gather);
        }
        (Command::Reset { device, lba, sectors }, Some(media)) => {
            media.forget(*device, *lba, *lba + *sectors);
        }
        _ => {}
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gather(byte: u8) -> Gather {
        let mut buf = MetaBuf::new(2);
        buf.pages_mut().iter_mut().for_each(|page| page.0.fill(byte));
        Gather::from_iter([Piece::zero_sectors(3), Piece::Meta { buf, pages: 2 }])
    }

    fn bytes(media: &Media, lba: u64) -> u8 {
        let mut buf = MetaBuf::new(1);
        media.read(1, lba, &mut buf, 1);
        buf.pages()[0].0[77]
    }

    #[test]
    fn pages_read_back_until_overwritten() {
        let mut media = Media::default();
        media.program(1, 100, &gather(7));
        assert_eq!((bytes(&media, 103), bytes(&media, 111), bytes(&media, 104)), (7, 7, 0));
        media.program(1, 110, &Gather::from_iter([Piece::zero_sectors(1)]));
        assert_eq!((bytes(&media, 103), bytes(&media, 111)), (0, 7));
        media.forget(2, 0, 1000);
        assert_eq!(bytes(&media, 111), 7, "another device");
        media.forget(1, 118, 119);
        assert_eq!(bytes(&media, 111), 0);
    }

    #[test]
    fn a_page_uses_memory_up_to_its_last_nonzero_byte() {
        let mut page = Page::default();
        assert!(kept(&page).is_empty() && whole(&[]).0 == page.0);
        for at in [0, 77, 4095] {
            page.0[at] = 9;
            assert_eq!(kept(&page).len(), at + 1);
            assert_eq!(whole(&kept(&page)).0, page.0);
        }
    }
}
