//! Geometry of flash as its timing sees it: planes that always work together form a lane.
//!
//! A map unit that is striped over several planes occupies all of them with one operation. Such a
//! group is a *lane*, and one page on each of its planes is a *row*. With a stripe of one, a lane
//! is a plane and a row is a page. With a stripe over all planes, the whole drive is one lane.

/// Channels, dies and lanes, and the size of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Buses that work in parallel.
    pub channels: u32,
    /// Dies on all channels. Dies that work as one group count once.
    pub dies: u32,
    /// Lanes of a die.
    pub lanes_per_die: u32,
    /// Planes of a lane.
    pub stripe: u32,
    /// Blocks of a plane.
    pub blocks: u32,
    /// Rows of a block.
    pub rows: u32,
    /// Sectors of a row.
    pub row_sectors: u32,
    /// Pages of a row that pass one channel one after the other.
    pub pages_per_bus: u32,
}

/// Geometry as given in a drive's file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    pub channels: u32,
    pub ways: u32,
    pub dies: u32,
    pub planes: u32,
    pub stripe: u32,
    pub blocks: u32,
    pub pages: u32,
    pub page_sectors: u32,
}

impl Planes {
    /// Returns the number of planes.
    pub(super) fn total(&self) -> u32 {
        self.channels * self.ways * self.dies * self.planes
    }

    /// Returns the shape, or `None` if the stripe does not divide the flash evenly.
    pub(super) fn shape(&self) -> Option<Shape> {
        let Planes { channels, stripe, planes, .. } = *self;
        let all_dies = self.total() / planes;
        let (channels, dies, lanes_per_die, pages_per_bus) = if planes.is_multiple_of(stripe) {
            (channels, all_dies, planes / stripe, stripe)
        } else {
            // A stripe of whole dies uses different channels first.
            let group = stripe / planes;
            if !stripe.is_multiple_of(planes) || !all_dies.is_multiple_of(group) {
                return None;
            }
            if channels.is_multiple_of(group) {
                (channels / group, all_dies / group, 1, planes)
            } else if group.is_multiple_of(channels) {
                (1, all_dies / group, 1, stripe / channels)
            } else {
                return None;
            }
        };
        Some(Shape {
            channels,
            dies,
            lanes_per_die,
            stripe,
            blocks: self.blocks,
            rows: self.pages,
            row_sectors: self.page_sectors * stripe,
            pages_per_bus,
        })
    }
}

impl Shape {
    /// Returns the number of lanes.
    pub fn lanes(&self) -> u32 {
        self.dies * self.lanes_per_die
    }

    /// Returns the sectors of all flash.
    pub fn sectors(&self) -> u64 {
        u64::from(self.lanes()) * self.lane_sectors()
    }

    /// Sets the number of blocks so that the flash has at least `sectors` sectors.
    pub(super) fn set_blocks(&mut self, sectors: f64) {
        let block = f64::from(self.rows) * f64::from(self.row_sectors) * f64::from(self.lanes());
        self.blocks = (sectors / block).ceil().min(f64::from(u32::MAX)) as u32;
    }

    /// Returns the sectors of a lane.
    pub fn lane_sectors(&self) -> u64 {
        u64::from(self.blocks) * u64::from(self.rows) * u64::from(self.row_sectors)
    }

    /// Returns the NAND pages of all flash.
    pub fn pages(&self) -> u64 {
        let lanes = u64::from(self.lanes()) * u64::from(self.stripe);
        lanes * u64::from(self.blocks) * u64::from(self.rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(stripe: u32) -> Option<(u32, u32, u32, u32, u32)> {
        let planes = Planes {
            channels: 4,
            ways: 4,
            dies: 1,
            planes: 2,
            stripe,
            blocks: 10,
            pages: 8,
            page_sectors: 8,
        };
        let it = planes.shape()?;
        assert_eq!(it.sectors(), 32 * 10 * 8 * 8, "a stripe keeps the size");
        Some((it.channels, it.dies, it.lanes_per_die, it.row_sectors, it.pages_per_bus))
    }

    #[test]
    fn a_stripe_makes_lanes_of_planes() {
        assert_eq!(shape(1), Some((4, 16, 2, 8, 1)));
        assert_eq!(shape(2), Some((4, 16, 1, 16, 2)), "both planes of a die");
        assert_eq!(shape(4), Some((2, 8, 1, 32, 2)), "two dies on two channels");
        assert_eq!(shape(32), Some((1, 1, 1, 256, 8)), "everything");
        assert_eq!((shape(3), shape(6)), (None, None));
    }
}
