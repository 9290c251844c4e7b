//! Line charts with two axes, each linear or logarithmic.

use crate::axis::Axis;
use crate::figure::Figure;
use crate::svg::{Anchor, Svg, Ticks, WIDTH, width};

/// Height of the plot area.
const HEIGHT: f64 = 200.0;
/// Space above the plot area, to its right, and for the labels below it.
const HEAD: f64 = 26.0;
const RIGHT: f64 = 22.0;
const FOOT: f64 = 40.0;

/// A chart of lines.
#[derive(Clone, Debug)]
pub struct Lines {
    title: String,
    x: Axis,
    y: Axis,
    series: Vec<Series>,
    steps: bool,
}

/// A line of a chart.
#[derive(Clone, Debug)]
struct Series {
    name: String,
    colour: usize,
    points: Vec<(f64, f64)>,
}

impl Lines {
    /// Makes an empty chart.
    pub fn new(title: &str, x: Axis, y: Axis) -> Self {
        Lines { title: title.to_owned(), x, y, series: Vec::new(), steps: false }
    }

    /// Adds a line through `points`. Points without a position on the axes are omitted.
    #[must_use]
    pub fn series(self, name: &str, points: Vec<(f64, f64)>) -> Self {
        let next = self.series.len();
        self.coloured(name, next, points)
    }

    /// Adds a line in the colour with this number, so that a name can have the same colour in
    /// several charts.
    #[must_use]
    pub fn coloured(mut self, name: &str, colour: usize, points: Vec<(f64, f64)>) -> Self {
        self.series.push(Series { name: name.to_owned(), colour, points });
        self
    }

    /// Draws steps: a value is constant until the next point.
    #[must_use]
    pub fn steps(mut self) -> Self {
        self.steps = true;
        self
    }

    /// Returns the chart.
    pub fn figure(&self) -> Figure {
        let mut svg = Svg::default();
        let points = || self.series.iter().flat_map(|it| &it.points);
        let y = self.y.fit(points().map(|point| point.1), HEIGHT);
        let marks: Vec<String> = y.ticks.iter().map(|tick| (self.y.show)(*tick)).collect();
        let left = marks.iter().map(|mark| width(mark)).fold(0.0, f64::max) + 10.0;
        let room = WIDTH - left - RIGHT;
        let last = points().map(|point| point.0).filter(|x| self.x.has(*x)).fold(0.0, f64::max);
        let x = self.x.fit(points().map(|point| point.0), room).ending_at(last);
        let bottom = HEAD + HEIGHT;
        for (value, mark) in y.ticks.iter().zip(&marks) {
            let height = bottom - y.at(*value) * HEIGHT;
            svg.line("grid", (left, height), (left + room, height));
            svg.text((left - 6.0, height + 4.0), Anchor::End, mark);
        }
        let mut labels = Ticks::new(bottom + 18.0);
        for value in &x.ticks {
            let place = left + x.at(*value) * room;
            svg.line("grid", (place, HEAD), (place, bottom));
            labels.label(&mut svg, place, &(self.x.show)(*value));
        }
        svg.text((0.0, 12.0), Anchor::Start, &self.y.label);
        Ticks::new(bottom + 35.0).label(&mut svg, left + room / 2.0, &self.x.label);
        for Series { colour, points, .. } in &self.series {
            let sound = points.iter().filter(|(a, b)| self.x.has(*a) && self.y.has(*b));
            let place = |(a, b): &(f64, f64)| (left + x.at(*a) * room, bottom - y.at(*b) * HEIGHT);
            let places: Vec<(f64, f64)> = sound.map(place).collect();
            svg.path(*colour, &if self.steps { stepped(&places) } else { places });
        }
        svg.line("axis", (left, bottom), (left + room, bottom));
        let names = self.series.iter().map(|it| (it.name.clone(), it.colour));
        Figure {
            title: self.title.clone(),
            legend: Figure::legend(names),
            has_lines: true,
            svg: svg.finish(bottom + FOOT, &self.title),
            note: String::new(),
        }
    }
}

/// Returns the corners of a staircase through `points`.
fn stepped(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut corners: Vec<(f64, f64)> = points.first().copied().into_iter().collect();
    for pair in points.windows(2) {
        corners.extend([(pair[1].0, pair[0].1), pair[1]]);
    }
    corners
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_hold_until_the_next_point() {
        let corners = stepped(&[(0.0, 1.0), (2.0, 3.0)]);
        assert_eq!(corners, [(0.0, 1.0), (2.0, 1.0), (2.0, 3.0)]);
        assert!(stepped(&[]).is_empty());
    }
}
