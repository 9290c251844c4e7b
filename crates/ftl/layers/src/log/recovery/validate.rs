//! Plausibility checks of roots, heads and records. A valid checksum proves nothing about a disk
//! that was written by other software: impossible values are treated as damage before they are used
//! in calculations.

use hostftl_format::log::journal::Record;
use hostftl_format::log::{Begin, Head, Place, Root};

use hostftl_core::{BLOCK, DeviceSet, SECTOR, SECTORS_PER_BLOCK};

use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::{At, Layout};

/// Bound of every counter, which a billion increments per second reach after a century.
const MOST: u64 = 1 << 62;
/// Bound of the number of lives; the rest is left for future lives.
const MOST_LIVES: u32 = u32::MAX - (1 << 16);

impl Layout {
    /// Returns whether the values of a root are possible.
    pub fn admits_root(&self, root: &Root) -> bool {
        let Root { number, replay_from, durable, everywhere, journal, .. } = *root;
        let counts = [number, replay_from, durable, everywhere, journal];
        let is_behind = self.journal.is_some() && self.hole().is_empty();
        let devices = DeviceSet::first_n(usize::from(self.devices) + usize::from(is_behind));
        let begins = |begin: &Begin| {
            begin.segment < self.segments
                && begin.slot < self.slots
                && begin.sector < self.chunk
                && self.admits_members(DeviceSet::from_bits(begin.members))
                && begin
                    .ahead
                    .is_none_or(|(_, members)| self.admits_members(DeviceSet::from_bits(members)))
        };
        counts.iter().all(|count| *count < MOST)
            && replay_from > 0
            && everywhere <= number
            && root.life < MOST_LIVES
            && root.epoch <= root.life
            && root.mapped <= self.blocks
            && root.directories <= self.tree.directories
            && DeviceSet::from_bits(root.lost).is_within(devices)
            && root.streams.iter().flatten().all(begins)
    }

    /// Returns whether a segment can have these members.
    pub fn admits_members(&self, members: DeviceSet) -> bool {
        let all = DeviceSet::first_n(self.devices.into());
        members.is_within(all) && members.len() > u32::from(self.parity)
    }

    /// Returns whether the values of the head of a stripe at `at` are possible, in a segment with
    /// these members.
    pub fn admits_head(&self, head: &Head, at: At, placement: ChunkPlacement) -> bool {
        let Head { first_sectors, last_sectors, .. } = *head;
        let chunks = u32::from(head.chunks);
        let most = if at.sector == 0 { placement.width() } else { 1 };
        let lengths = [first_sectors, last_sectors];
        head.seq < MOST
            && head.members == placement.members().to_bits()
            && DeviceSet::from_bits(head.lacking).is_within(placement.members())
            && self.admits_members(DeviceSet::from_bits(head.next_members))
            && head.journal < MOST
            && (1..=most).contains(&chunks)
            && lengths.iter().all(|it| it.is_multiple_of(SECTORS_PER_BLOCK) && *it <= self.chunk)
            && first_sectors > 0
            && at.sector < self.chunk
            && first_sectors <= self.chunk - at.sector
    }

    /// Returns whether the values of a journal record are possible.
    pub fn admits_record(&self, record: &Record) -> bool {
        let counts = [record.number, record.oldest, record.before];
        counts.iter().all(|count| *count < MOST) && record.number > 0
    }

    /// Returns whether a record of a block or image can be at this place: within one chunk of one
    /// segment.
    pub fn admits_place(&self, place: Place) -> bool {
        let begin = self.first() * SECTOR as u64;
        let Some(byte) = place.byte().checked_sub(begin) else { return false };
        let (column, chunk) = (u64::from(self.column), u64::from(self.chunk));
        let (sector, segment) = (byte / SECTOR as u64 % column, byte / SECTOR as u64 / column);
        let end = byte % (SECTOR as u64) + sector % chunk * SECTOR as u64 + u64::from(place.len());
        place.device() < self.devices
            && segment < u64::from(self.segments)
            && self.lengths.has(place.device(), segment as u32)
            && sector / chunk < u64::from(self.slots)
            && end <= chunk * SECTOR as u64
    }

    /// Returns whether all places in a map page are possible. Map pages are loaded while requests
    /// wait, so divisions are avoided where possible.
    pub fn admits_places(&self, mut places: impl Iterator<Item = Place>) -> bool {
        let begin = self.first() * SECTOR as u64;
        let length = u64::from(self.segments) * u64::from(self.column) * SECTOR as u64;
        let chunk = u64::from(self.chunk) * SECTOR as u64;
        let even = self.column == self.slots * self.chunk
            && chunk.is_power_of_two()
            && self.lengths.are_equal();
        places.all(|place| {
            if place.is_nowhere() {
                return true;
            }
            let byte = place.byte().wrapping_sub(begin);
            let fits = place.device() < self.devices && byte < length;
            if even {
                fits && (byte & (chunk - 1)) + u64::from(place.len()) <= chunk
            } else {
                fits && self.admits_place(place)
            }
        })
    }

    /// Returns whether the image of a page can be at this place.
    pub fn admits_image(&self, place: Place) -> bool {
        let aligned = place.byte().is_multiple_of(SECTOR as u64);
        self.admits_place(place) && place.len() as usize == BLOCK && aligned
    }
}
