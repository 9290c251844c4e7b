//! Tests of pages in zones, with power cuts at every write.

use std::cell::RefCell;

use proptest::prelude::*;

use super::*;

const LEN: u64 = 4096;
const CAPACITY: u64 = 2048;
const TAIL: u64 = 100 * RESERVE;

/// Four zones in memory. After a power cut, a number of pages that were not synced is lost. `left`
/// counts the pages down to the cut.
#[derive(Default)]
struct Disk {
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// For each zone: its pages, and the number of durable ones.
    zones: [(Vec<Page>, usize); 4],
    /// Pages that are written before the power cut; `None` = no cut.
    left: Option<usize>,
}

impl Disk {
    fn cut(&self, left: usize) {
        self.state.borrow_mut().left = Some(left);
    }

    /// Restores the power. Up to `keeps` pages of each zone that were not durable remain.
    fn restart(&self, keeps: usize) -> Pages {
        let mut state = self.state.borrow_mut();
        state.left = None;
        for (pages, durable) in &mut state.zones {
            pages.truncate((*durable + keeps).min(pages.len()));
            *durable = pages.len();
        }
        let step = u64::from(SECTORS_PER_BLOCK);
        let zone = |index: usize| Zone {
            start: index as u64 * LEN,
            pointer: state.zones[index].0.len() as u64 * step,
        };
        let zones = [[zone(0), zone(1)], [zone(2), zone(3)]];
        let pages = Pages::new(zones, (LEN, CAPACITY, step), TAIL);
        drop(state);
        pages.load(self).unwrap();
        pages
    }
}

impl PageMedium for Disk {
    fn read(&self, at: u64, pages: &mut [Page]) -> io::Result<()> {
        let state = self.state.borrow();
        let first = (at % LEN) as usize / SECTORS_PER_BLOCK as usize;
        for (index, page) in pages.iter_mut().enumerate() {
            let there = state.zones[(at / LEN) as usize].0.get(first + index);
            *page = there.ok_or_else(|| io::Error::other("beyond the pointer"))?.clone();
        }
        Ok(())
    }

    fn append(&self, at: u64, pages: &[Page]) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        let some = state.left.map_or(pages.len(), |left| left.min(pages.len()));
        state.left = state.left.map(|left| left - some);
        let zone = &mut state.zones[(at / LEN) as usize].0;
        assert_eq!(at % LEN / u64::from(SECTORS_PER_BLOCK), zone.len() as u64, "at the pointer");
        zone.extend_from_slice(&pages[..some]);
        assert!(zone.len() as u64 * u64::from(SECTORS_PER_BLOCK) <= CAPACITY);
        if some == pages.len() { Ok(()) } else { Err(io::Error::other("the power went")) }
    }

    fn reset(&self, at: u64, _len: u64) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        if state.left == Some(0) {
            return Err(io::Error::other("the power went"));
        }
        state.zones[(at / LEN) as usize] = (Vec::new(), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        if state.left == Some(0) {
            return Err(io::Error::other("the power went"));
        }
        state.zones.iter_mut().for_each(|(pages, durable)| *durable = pages.len());
        Ok(())
    }
}

fn page(letter: u8) -> Page {
    Page([letter; 4096])
}

#[test]
fn pages_survive_a_start_and_many_zone_cycles() {
    let disk = Disk::default();
    let pages = disk.restart(0);
    for turn in 0..600_u64 {
        pages.write(turn % 3 * 8, &page(turn as u8), &disk).unwrap();
        pages.write(TAIL + 2040, &page(turn as u8 ^ 1), &disk).unwrap();
    }
    pages.write(16, &Page::default(), &disk).unwrap();
    disk.sync().unwrap();
    let pages = disk.restart(0);
    let read = |sector| pages.read(sector, &disk).unwrap();
    assert_eq!(
        [read(0), read(8), read(16)],
        [page(597_u64 as u8), page(598_u64 as u8), Page::default()]
    );
    assert_eq!(read(TAIL + 2040), page(599_u64 as u8 ^ 1));
    assert_eq!(read(24), Page::default(), "never written");
    let used = || disk.state.borrow().zones.iter().filter(|zone| !zone.0.is_empty()).count();
    assert_eq!(used(), 2, "one zone of each pair is free");
    pages.free(&disk).unwrap();
    assert_eq!((used(), pages.read(0, &disk).unwrap()), (0, Page::default()));
    pages.write(8, &page(3), &disk).unwrap();
    assert_eq!(disk.restart(1).read(8, &disk).unwrap(), page(3));
}

#[test]
fn foreign_pages_are_visible_until_overwritten() {
    let disk = Disk::default();
    disk.state.borrow_mut().zones[0].0 = vec![page(9); 3];
    let pages = disk.restart(3);
    assert_eq!(pages.read(16, &disk).unwrap(), page(9));
    assert_eq!(pages.read(24, &disk).unwrap(), Page::default());
    pages.write(0, &page(1), &disk).unwrap();
    assert_eq!(pages.read(16, &disk).unwrap(), Page::default());
    let pages = disk.restart(0);
    assert_eq!(pages.read(0, &disk).unwrap(), page(1), "taking a zone is durable");
}

proptest! {
    /// After any power cut each page has the content of the last sync, or of a later write.
    #[test]
    fn synced_pages_survive_a_power_cut(
        rounds in prop::collection::vec(
            (0..300_usize, 0..4_usize, 1..120_usize, any::<u8>()),
            1..8,
        ),
    ) {
        let disk = Disk::default();
        let mut pages = disk.restart(0);
        // Allowed contents of each sector.
        let mut may: BTreeMap<u64, Vec<Page>> = BTreeMap::new();
        for (left, keeps, writes, seed) in rounds {
            disk.cut(left);
            for turn in 0..writes {
                let sector = [0, 8, 16, TAIL + 8][(turn + usize::from(seed)) % 4];
                let new = page(seed.wrapping_add(turn as u8) % 7);
                let known = may.entry(sector).or_insert_with(|| vec![Page::default()]);
                known.push(new.clone());
                let written = pages.write(sector, &new, &disk);
                if written.is_ok() && turn % 5 == 0 && disk.sync().is_ok() {
                    may.values_mut().for_each(|known| drop(known.drain(..known.len() - 1)));
                }
                if written.is_err() {
                    break;
                }
            }
            pages = disk.restart(keeps);
            for (sector, known) in &mut may {
                let found = pages.read(*sector, &disk).unwrap();
                prop_assert!(known.contains(&found), "sector {}", sector);
                *known = vec![found];
            }
        }
    }
}
