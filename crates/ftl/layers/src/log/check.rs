//! Consistency checks over the whole log, valid at any time while it runs.

use hostftl_format::log::{GRAIN, Place};

use crate::log::map::Where;
use crate::log::mapping::Mapping;
use crate::log::media::Media;

/// Checks that the count of valid grains of each segment is the sum of the records and images in
/// it, according to the map and the directory. Map pages that are not in memory cannot be counted;
/// if there are any, a sum may be less than its count but never greater.
pub(super) fn check_valid(mapping: &Mapping, media: &Media) -> Result<(), &'static str> {
    let (Mapping { pages, checkpoint }, segments, layout) =
        (mapping, &media.segments, media.layout());
    let mut valid = alloc::vec![0_u32; layout.segments as usize];
    let mut add = |place: Place| {
        let segment = layout.segment_at(place.byte());
        valid[segment as usize] += place.len().div_ceil(GRAIN);
    };
    let tops = (0..layout.tree.tops()).map(|at| checkpoint.top(at).0);
    let images = (0..layout.tree.pages).map(|page| pages.directory().place(page));
    tops.chain(images).filter(|place| !place.is_nowhere()).for_each(&mut add);
    let blocks = (0..pages.map().len()).filter_map(|block| pages.map().find_place(block));
    let mapped = blocks.filter(|place| !place.is_nowhere()).inspect(|place| add(*place)).count();
    let away = |page: u32| pages.map().state(page) != Where::Here && !pages.is_blank(page);
    let all = !(0..layout.tree.pages).any(away);
    let fits = |(segment, sum): (usize, &u32)| {
        let counted = segments.valid(segment as u32);
        *sum == counted || !all && *sum < counted
    };
    if !valid.iter().enumerate().all(fits) {
        return Err("the valid count of a segment differs from the sum of its valid records");
    }
    if !segments.check() {
        return Err("the totals of full segments differ from the segments");
    }
    if mapped as u64 == pages.map().mapped() || !all && (mapped as u64) < pages.map().mapped() {
        pages.map().check()
    } else {
        Err("the number of mapped blocks differs from the map")
    }
}
