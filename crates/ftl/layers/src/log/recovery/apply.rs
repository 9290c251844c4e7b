//! Applies the entries of stripes and journal records: updates the map and the valid counts of
//! segments.

use hostftl_format::log::{self, Entry, Kind, Place};

use crate::log::array::Array;
use crate::log::journal::Turn;
use crate::log::map::Where;
use crate::log::ops::{Cx, fail_volume};
use crate::log::recovery::found::Found;

/// Entries of a stripe whose map pages are read ahead.
const AHEAD: u32 = 64;

/// Result of applying an entry.
pub(super) enum Applied {
    /// Applied, or nothing to do.
    Yes,
    /// Its map page is still being read.
    Later,
    /// It cannot be applied.
    Never(&'static str),
}

/// Starts reading the map pages of the next entries of a stripe.
pub(super) fn ask_for_pages(found: &Found, from: u32, array: &mut Array, cx: &mut Cx) {
    let entries = from..found.head.entries.min(from + AHEAD);
    for entry in entries.filter_map(|index| log::entry(&found.buf, index)) {
        let changes = matches!(entry.kind, Kind::Data | Kind::Trim);
        if changes && entry.block < array.mapping.pages.map().len() {
            let page = array.mapping.pages.map().map_page(entry.block);
            array.mapping.fetch(page, &mut array.media, cx);
        }
    }
}

/// Applies an entry of a stripe.
pub(super) fn apply(entry: Entry, array: &mut Array, cx: &mut Cx) -> Applied {
    if entry.kind == Kind::Data && !array.layout().admits_place(entry.place) {
        return Applied::Never("a stripe lists an invalid entry");
    }
    apply_sound(entry, array, cx)
}

/// Applies an entry whose place was validated.
fn apply_sound(entry: Entry, array: &mut Array, cx: &mut Cx) -> Applied {
    let Entry { kind, block, place, crc } = entry;
    cx.touch(1);
    let end = match kind {
        // Images are reached through the directory and the root.
        Kind::Map | Kind::Directory | Kind::Counts => return Applied::Yes,
        Kind::Trim => block.saturating_add(place.bits()),
        Kind::Data => block + 1,
    };
    let page = array.mapping.pages.map().map_page(block);
    // A trim never extends over more than one map page.
    let sound = block < end
        && end <= array.mapping.pages.map().len()
        && array.mapping.pages.map().map_page(end - 1) == page;
    if !sound {
        return Applied::Never("a stripe lists an invalid entry");
    }
    match array.mapping.fetch(page, &mut array.media, cx) {
        Where::Here => {}
        Where::Bad => return Applied::Never("an image of the map is unreadable"),
        // All frames contain dirty pages, and these cannot be evicted before a checkpoint.
        Where::Away
            if array.mapping.pages.loads().is_idle() && array.mapping.pages.may_load(cx) =>
        {
            return Applied::Never("replay needs more map memory; raise map-memory");
        }
        Where::Away | Where::Coming => return Applied::Later,
    }
    let place = if kind == Kind::Data { place } else { Place::NOWHERE };
    (block..end).for_each(|block| point(block, place, crc, array));
    cx.touch((end - block) as usize);
    Applied::Yes
}

/// Points a block at another place.
fn point(block: u64, place: Place, crc: u32, array: &mut Array) {
    if array.mapping.pages.map().place(block).is_nowhere() && place.is_nowhere() {
        return;
    }
    let old = array.mapping.pages.map_mut().set(block, place, crc);
    if !place.is_nowhere() && !array.output.journal.is_place(place) {
        let segment = array.layout().segment_at(place.byte());
        array.media.segments.claim(segment, false);
        array.media.segments.add(segment, place);
    }
    if !old.is_nowhere() && !array.output.journal.is_place(old) {
        array.media.segments.kill(array.layout().segment_at(old.byte()), old);
    }
}

/// Plays the next journal record if it is due before stripe `stripe`; `None` if it is not.
pub(super) fn play_journal(stripe: u64, array: &mut Array, cx: &mut Cx) -> Option<bool> {
    match array.output.journal.play(stripe, &mut array.media, cx) {
        Turn::None => None,
        Turn::Waits => Some(false),
        Turn::Moved => Some(true),
        Turn::Apply(entry, place) => Some(apply_record(entry, place, array, cx)),
    }
}

fn apply_record(entry: Entry, place: Place, array: &mut Array, cx: &mut Cx) -> bool {
    let place = if entry.kind == Kind::Data { place } else { entry.place };
    // A block that its stripe contains as well stays in the stripe.
    let known = entry.kind == Kind::Data
        && entry.block < array.mapping.pages.map().len()
        && array.mapping.pages.pair(entry.block) == Some((entry.place, entry.crc));
    let applied =
        if known { Applied::Yes } else { apply_sound(Entry { place, ..entry }, array, cx) };
    match applied {
        Applied::Yes => array.output.journal.applied(&entry),
        Applied::Later => return false,
        Applied::Never(why) => fail_volume(why, cx),
    }
    matches!(applied, Applied::Yes)
}
