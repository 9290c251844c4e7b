//! Log of a drive: write amplification of each 1/32 of a capacity written.

use thiserror::Error;

use crate::counters::{self, CountersError};

/// Records of a pass.
pub const BINS: usize = 32;
/// Parts of a pass by which residuals are reported.
pub const EIGHTHS: usize = 8;
/// Header of a log.
const HEADER: &str = "host_bytes_per_capacity,waf";
/// Largest difference of a position from its multiple of 1/32, in capacities.
const MISPLACED: f64 = 0.001;

/// Write amplification of whole passes, from an empty drive on.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    curve: Vec<f64>,
}

/// Reason why a log cannot be used.
#[derive(Clone, Debug, Error, PartialEq)]
#[allow(missing_docs, reason = "error texts describe the fields")]
pub enum LogError {
    #[error(transparent)]
    Counters(#[from] CountersError),
    #[error(
        "the log has counters in bytes, which need the capacity of the drive; state --capacity"
    )]
    NoCapacity,
    #[error("the log has write amplification by capacities, so --capacity has no effect; omit it")]
    Capacity,
    #[error("line {line}: expected two numbers, capacities written and write amplification")]
    Numbers { line: usize },
    #[error(
        "line {line}: expected {expected:.5} capacities written, because records are 1/32 apart"
    )]
    Position { line: usize, expected: f64 },
    #[error("line {line}: write amplification {waf} is impossible; expected 0.9 to 1000")]
    Waf { line: usize, waf: f64 },
    #[error("the log has {passes} whole passes; at least 3 are required")]
    Short { passes: usize },
}

impl Log {
    /// Parses CSV with the columns `host_bytes_per_capacity,waf`, or counters of host and media
    /// bytes of a drive with this capacity in bytes. An incomplete last pass is ignored.
    ///
    /// # Errors
    /// The wrong line and the reason.
    pub fn parse(text: &str, capacity: Option<u64>) -> Result<Self, LogError> {
        let mut lines = text.lines();
        if lines.next().map(str::trim) != Some(HEADER) {
            return match (counters::curve(text, capacity.unwrap_or(u64::MAX)), capacity) {
                (Ok(_), None) => Err(LogError::NoCapacity),
                (curve, _) => Self::new(curve?),
            };
        }
        if capacity.is_some() {
            return Err(LogError::Capacity);
        }
        let mut curve = Vec::new();
        for (index, text) in lines.enumerate().filter(|(_, text)| !text.trim().is_empty()) {
            let line = index + 2;
            let fields = text.split_once(',');
            let number = |text: &str| text.trim().parse::<f64>().ok().filter(|it| it.is_finite());
            let numbers = fields.and_then(|(at, waf)| Some((number(at)?, number(waf)?)));
            let (at, waf) = numbers.ok_or(LogError::Numbers { line })?;
            let expected = (curve.len() + 1) as f64 / BINS as f64;
            if (at - expected).abs() > MISPLACED {
                return Err(LogError::Position { line, expected });
            }
            if !(0.9..=1000.0).contains(&waf) {
                return Err(LogError::Waf { line, waf });
            }
            curve.push(waf);
        }
        Self::new(curve)
    }

    /// Makes a log of the write amplification of each 1/32 of a capacity written.
    ///
    /// # Errors
    /// When it has less than three passes.
    pub fn new(mut curve: Vec<f64>) -> Result<Self, LogError> {
        let passes = curve.len() / BINS;
        if passes < 3 {
            return Err(LogError::Short { passes });
        }
        curve.truncate(passes * BINS);
        Ok(Log { curve })
    }

    /// Returns the number of passes, with the one that fills the drive.
    pub fn passes(&self) -> usize {
        self.curve.len() / BINS
    }

    /// Returns the curve of the first passes.
    pub(crate) fn curve(&self, passes: usize) -> &[f64] {
        &self.curve[..passes * BINS]
    }

    /// Returns the mean of passes `from..to`, by 1/32.
    pub(crate) fn mean_pass(&self, from: usize, to: usize) -> [f64; BINS] {
        let passes = self.curve[from * BINS..to * BINS].chunks_exact(BINS);
        let mut mean = [0.0; BINS];
        for pass in passes {
            mean.iter_mut().zip(pass).for_each(|(sum, it)| *sum += it / (to - from) as f64);
        }
        mean
    }

    /// Returns the write amplification by eighths of a pass, as the mean of passes `from..to`.
    pub fn eighths(&self, from: usize, to: usize) -> [f64; EIGHTHS] {
        eighths(&self.curve[from * BINS..to * BINS])
    }
}

/// Returns the mean of each eighth over all passes of a curve.
pub(crate) fn eighths(curve: &[f64]) -> [f64; EIGHTHS] {
    let width = BINS / EIGHTHS;
    std::array::from_fn(|eighth| {
        let parts = curve.chunks_exact(BINS).map(|pass| &pass[eighth * width..][..width]);
        parts.flatten().sum::<f64>() / (curve.len() / EIGHTHS) as f64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(records: usize) -> String {
        let record = |i: usize| format!("{:.5},{}\n", (i + 1) as f64 / 32.0, 1 + i / 4 % 8);
        format!("{HEADER}\n{}", (0..records).map(record).collect::<String>())
    }

    #[test]
    fn whole_passes_are_read() {
        let log = Log::parse(&text(100), None).expect("the log is valid");
        assert_eq!(log.passes(), 3);
        assert_eq!(log.eighths(1, 3), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    }

    #[test]
    fn errors_name_the_line() {
        let good = text(100);
        let why = |from: &str, to: &str| Log::parse(&good.replacen(from, to, 1), None).unwrap_err();
        assert_eq!(why("host", "guest"), CountersError::Format.into());
        assert_eq!(Log::parse(&good, Some(1)), Err(LogError::Capacity));
        let counters = "host_bytes,media_bytes\n1,1\n2,2\n";
        assert_eq!(Log::parse(counters, None), Err(LogError::NoCapacity));
        assert_eq!(why("0.06250,1", "0.06250;1"), LogError::Numbers { line: 3 });
        assert_eq!(why("0.06250,1", "0.06250,NaN"), LogError::Numbers { line: 3 });
        assert_eq!(why("0.06250", "0.07250"), LogError::Position { line: 3, expected: 0.0625 });
        assert_eq!(why("0.06250,1", "0.06250,0"), LogError::Waf { line: 3, waf: 0.0 });
        assert_eq!(Log::parse(&text(95), None), Err(LogError::Short { passes: 2 }));
    }
}
