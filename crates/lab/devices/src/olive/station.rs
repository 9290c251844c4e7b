//! A resource that serves one read, or several writes in parallel.

use hostftl_core::Nanos;

/// A resource with places for commands. A read takes all places, a write takes one.
#[derive(Clone, Debug)]
pub(super) struct Station {
    /// Times until which the places are taken.
    until: Vec<Nanos>,
}

impl Station {
    /// Creates a free station with `places` places.
    pub(super) fn new(places: usize) -> Self {
        Station { until: vec![0; places] }
    }

    /// Returns the time from which a read or a write can be served.
    pub(super) fn free(&self, is_write: bool) -> Nanos {
        if is_write {
            self.first_free()
        } else {
            self.until.iter().copied().max().expect("a station has places")
        }
    }

    /// Returns the time from which one place is free.
    pub(super) fn first_free(&self) -> Nanos {
        self.until.iter().copied().min().expect("a station has places")
    }

    /// Reserves the places of a read or a write until `end`.
    pub(super) fn reserve(&mut self, end: Nanos, is_write: bool) {
        if is_write {
            self.reserve_one(end);
        } else {
            self.until.fill(end);
        }
    }

    /// Reserves the first free place until `end`.
    pub(super) fn reserve_one(&mut self, end: Nanos) {
        let place = self.until.iter_mut().min().expect("a station has places");
        *place = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_share_a_station_and_a_read_has_it_alone() {
        let mut station = Station::new(2);
        station.reserve(5, true);
        station.reserve(8, true);
        assert_eq!((station.free(true), station.free(false)), (5, 8));
        station.reserve(9, false);
        assert_eq!((station.free(true), station.free(false)), (9, 9));
    }
}
