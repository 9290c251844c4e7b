//! Segments full of images of the map: a checkpoint moves the images, so that fewer hold them.

use super::{Segment, Segments, State};

impl Segments {
    fn full_of_images(&self) -> impl Iterator<Item = (u32, &Segment)> + Clone {
        let all = (0..).zip(&self.list);
        all.filter(|(_, it)| it.of_map && it.state == State::Full)
    }

    /// The one with the fewest images, when there are more than `most` of them.
    pub fn surplus_map(&self, most: u32) -> Option<u32> {
        let all = self.full_of_images();
        let emptiest = || all.clone().min_by_key(|(_, it)| it.live).map(|(segment, _)| segment);
        (all.clone().count() > most as usize).then(emptiest).flatten()
    }

    /// The one with the fewest images, when the images of all would have room in one segment less.
    pub fn sparse_map(&self) -> Option<u32> {
        let all = self.full_of_images();
        let (emptiest, _) = all.clone().min_by_key(|(_, it)| it.live)?;
        let live: u32 = all.clone().map(|(_, it)| it.live).sum();
        let others = all.filter(|(segment, _)| *segment != emptiest);
        let room: u32 = others.map(|(segment, _)| self.room(segment)).sum();
        (live <= room).then_some(emptiest)
    }
}
