//! An axis: its visible range, its ticks, and the position of a value on it.

/// Format of a number.
pub type Show = fn(f64) -> String;

/// An axis of a line chart.
#[derive(Clone, Debug)]
pub struct Axis {
    pub(crate) label: String,
    pub(crate) show: Show,
    pub(crate) kind: Kind,
}

/// Positions of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At multiples of 1, 2 or 5 times a power of ten.
    Linear,
    /// At multiples of a power of two.
    Binary,
    /// At powers of ten.
    Log,
}

impl Axis {
    /// Makes a linear axis from 0, or from the lowest value if that is negative.
    pub fn linear(label: &str, show: Show) -> Self {
        Axis { label: label.to_owned(), show, kind: Kind::Linear }
    }

    /// Makes a linear axis with ticks at multiples of powers of two, for bytes in binary units.
    pub fn binary(label: &str, show: Show) -> Self {
        Axis { label: label.to_owned(), show, kind: Kind::Binary }
    }

    /// Makes a logarithmic axis. Values of 0 and below are omitted.
    pub fn log(label: &str, show: Show) -> Self {
        Axis { label: label.to_owned(), show, kind: Kind::Log }
    }

    /// Returns whether `value` has a position on the axis.
    pub(crate) fn has(&self, value: f64) -> bool {
        value.is_finite() && (self.kind != Kind::Log || value > 0.0)
    }

    /// Returns the range of the axis that shows all of `values` on a length of `room` units.
    pub(crate) fn fit(&self, values: impl Iterator<Item = f64>, room: f64) -> Scale {
        let values = values.filter(|value| self.has(*value));
        let (low, high) =
            values.fold((f64::MAX, f64::MIN), |(low, high), it| (low.min(it), high.max(it)));
        let (low, high) = if low > high { (1.0, 1.0) } else { (low, high) };
        match self.kind {
            Kind::Log => Scale::log(low, high, room),
            kind => Scale::linear(kind, low.min(0.0), high.max(0.0), room),
        }
    }
}

/// The visible range of an axis.
#[derive(Clone, Debug)]
pub(crate) struct Scale {
    from: f64,
    to: f64,
    is_log: bool,
    /// Values with a tick.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// Makes a range from `low` to `high`, extended to ticks that are at least 60 units apart.
    pub(crate) fn linear(kind: Kind, low: f64, high: f64, room: f64) -> Self {
        let span = if high > low { high - low } else { 1.0 };
        let rough = span / (room / 60.0).max(2.0) * 0.999;
        let power = 10.0_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = match kind {
            Kind::Binary => rough.log2().ceil().exp2(),
            _ => steps.into_iter().find(|step| *step >= rough).unwrap_or(steps[3]),
        };
        let (first, last) = ((low / step).floor(), ((low + span) / step).ceil());
        let ticks = (0..=(last - first) as u32).map(|n| (first + f64::from(n)) * step).collect();
        Scale { from: first * step, to: last * step, is_log: false, ticks }
    }

    /// Makes a range of whole powers of ten around `low` and `high`, both above 0.
    pub(crate) fn log(low: f64, high: f64, room: f64) -> Self {
        let first = (low.log10() + 1e-9).floor();
        let last = (high.log10() - 1e-9).ceil().max(first + 1.0);
        let stride = ((last - first) / (room / 44.0).max(1.0)).ceil().max(1.0);
        let count = ((last - first) / stride).floor() as u32;
        let ticks = (0..=count).map(|n| 10.0_f64.powf(first + f64::from(n) * stride)).collect();
        Scale { from: 10.0_f64.powf(first), to: 10.0_f64.powf(last), is_log: true, ticks }
    }

    /// Ends the range at `high` instead of the tick after it, unless the two are close.
    pub(crate) fn ending_at(mut self, high: f64) -> Self {
        if !self.is_log && high > self.from && high < self.to * 0.99 {
            self.to = high;
            self.ticks.retain(|tick| *tick <= high);
        }
        self
    }

    /// Returns the position of `value`, from 0 to 1.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let part = if self.is_log {
            (value / self.from).log10() / (self.to / self.from).log10()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        part.clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round_and_hold_the_values() {
        let scale = Scale::linear(Kind::Linear, 0.0, 437.0, 300.0);
        assert_eq!(scale.ticks, [0.0, 100.0, 200.0, 300.0, 400.0, 500.0]);
        assert_eq!(scale.at(250.0), 0.5);
        let below = Scale::linear(Kind::Linear, -0.3, 0.2, 180.0);
        assert!(below.ticks[0] <= -0.3 && below.ticks[below.ticks.len() - 1] >= 0.2);
        assert!(Scale::linear(Kind::Linear, 0.0, 0.0, 100.0).ticks.len() >= 2);
        let bytes = Scale::linear(Kind::Binary, 0.0, 29e9, 300.0);
        assert_eq!(bytes.ticks, [0.0, 1.0, 2.0, 3.0, 4.0].map(|tick| tick * f64::exp2(33.0)));
        let cut = scale.ending_at(437.0);
        assert_eq!((cut.ticks.len(), cut.at(437.0)), (5, 1.0));
    }

    #[test]
    fn log_ticks_are_powers_of_ten_and_not_too_many() {
        let scale = Scale::log(3.0, 800.0, 300.0);
        assert_eq!(scale.ticks, [1.0, 10.0, 100.0, 1000.0]);
        assert!((scale.at(10.0) - 1.0 / 3.0).abs() < 1e-12);
        assert!(Scale::log(1e-9, 1e9, 200.0).ticks.len() <= 6);
        assert_eq!(Scale::log(100.0, 100.0, 200.0).ticks, [100.0, 1000.0]);
    }

    #[test]
    fn labels_without_space_are_omitted() {
        let show: Show = |value| value.to_string();
        let axis = Axis::log("", show);
        assert!(!axis.has(0.0) && !axis.has(f64::NAN) && axis.has(1e-3));
        let scale = axis.fit([0.0, 5.0, f64::INFINITY].into_iter(), 100.0);
        assert_eq!(scale.ticks, [1.0, 10.0]);
    }
}
