//! What roots, heads and records may say. A sound checksum proves nothing of a disk that somebody
//! else wrote: what can't be is taken for damage, before anything is reckoned with it.

use hostftl_format::log::journal::Record;
use hostftl_format::log::{Begin, Head, Place, Root};

use hostftl_core::{BLOCK, DeviceSet, SECTOR, SECTORS_PER_BLOCK};

use crate::log::layout::{At, Layout};
use crate::log::stripe::Stripe;

/// No count of anything ever gets there: a billion a second take a century.
const MOST: u64 = 1 << 62;
/// As many lives as there may ever be; some are left for those to come.
const MOST_LIVES: u32 = u32::MAX - (1 << 16);

impl Layout {
    /// Whether a root may say this.
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

    /// Whether a segment may lie on these devices.
    pub fn admits_members(&self, members: DeviceSet) -> bool {
        let all = DeviceSet::first_n(self.devices.into());
        members.is_within(all) && members.len() > u32::from(self.parity)
    }

    /// Whether the head of a row at `at`, in a segment on these devices, may say this.
    pub fn admits_head(&self, head: &Head, at: At, stripe: Stripe) -> bool {
        let Head { first_sectors, last_sectors, .. } = *head;
        let chunks = u32::from(head.chunks);
        let most = if at.sector == 0 { stripe.width() } else { 1 };
        let lengths = [first_sectors, last_sectors];
        head.seq < MOST
            && head.members == stripe.members().to_bits()
            && DeviceSet::from_bits(head.lacking).is_within(stripe.members())
            && self.admits_members(DeviceSet::from_bits(head.next_members))
            && head.journal < MOST
            && (1..=most).contains(&chunks)
            && lengths.iter().all(|it| it.is_multiple_of(SECTORS_PER_BLOCK) && *it <= self.chunk)
            && first_sectors > 0
            && at.sector < self.chunk
            && first_sectors <= self.chunk - at.sector
    }

    /// Whether a record of the journal may say this.
    pub fn admits_record(&self, record: &Record) -> bool {
        let counts = [record.number, record.oldest, record.before];
        counts.iter().all(|count| *count < MOST) && record.number > 0
    }

    /// Whether a record of a block or of an image may lie there: within one chunk of one segment.
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

    /// Whether all that a map page points at may lie there. Map pages come while requests wait, so
    /// that nothing is divided where it can be done without.
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

    /// Whether the image of a page may lie there.
    pub fn admits_image(&self, place: Place) -> bool {
        let aligned = place.byte().is_multiple_of(SECTOR as u64);
        self.admits_place(place) && place.len() as usize == BLOCK && aligned
    }
}
