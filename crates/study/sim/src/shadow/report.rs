//! Figures of a shadow, and the reasons not to trust them.

use hostftl_core::SECTOR;
use serde::Serialize;

use super::class::Class;
use super::model::Sectors;

/// Deviation of the sample's share of the writes, in standard deviations, from which it is not
/// chance.
const CHANCE: f64 = 4.0;
/// Relative deviation of that share from which the figures are not those of the volume.
const LOPSIDED: f64 = 0.25;
/// Relative deviation of that share up to which it does not matter.
const LEAST: f64 = 0.02;
/// Half of an interval relative to its figure from which the classes differ too much.
const SCATTERED: f64 = 0.25;
/// Share of the sampled requests that may be dropped.
const LOST: f64 = 0.01;
/// Quantiles of Student's t distribution for 95 %, for 1 to 7 degrees of freedom.
const STUDENT: [f64; 7] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36];

/// Figures of all candidates, for the same period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShadowReport {
    /// Time of the request with which the period began, in ns.
    pub since_ns: u64,
    /// Share of the volume that is sampled.
    pub rate: f64,
    /// Bytes of the clients' writes in the period.
    pub host_bytes: u64,
    /// Bytes of them that the models processed.
    pub sampled_bytes: u64,
    /// Candidates; no layer is the first.
    pub candidates: Vec<Candidate>,
    /// Reasons not to trust the figures; empty if there are none.
    pub doubts: Vec<Doubt>,
}

/// Figures of one candidate. They are `None` while there is no write, or if it can't run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Candidate {
    /// Layer with its parameters.
    pub layer: String,
    /// Bytes programmed per byte that the host wrote.
    pub waf: Option<f64>,
    /// Bytes programmed per byte that the layer sent to the drive.
    pub waf_drive: Option<f64>,
    /// Half of the 95 % interval of `waf`; `None` without several samples.
    pub error: Option<f64>,
    /// `waf` relative to no layer.
    pub relative: Option<f64>,
    /// Half of the 95 % interval of `relative`.
    pub relative_error: Option<f64>,
    /// Reason why the layer can't run.
    pub failed: Option<String>,
}

/// A reason not to trust the figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "reason")]
pub enum Doubt {
    /// The clients did not write enough.
    FewWrites {
        /// Bytes written to the volume since the start.
        written_bytes: u64,
        /// Bytes that must be written.
        needed_bytes: u64,
    },
    /// Write amplification still changes.
    Unsettled {
        /// The candidate with the largest change.
        layer: String,
        /// Relative change over the last overwrite of the volume.
        change: f64,
    },
    /// The sample has a share of the writes that does not match its share of the volume: the
    /// working set moved, or is too small to be sampled.
    Lopsided {
        /// Share of the writes.
        share: f64,
        /// Share of the volume.
        expected: f64,
    },
    /// The classes of the sample differ too much for a figure of the volume.
    Scattered {
        /// The candidate with the largest interval.
        layer: String,
        /// Half of the interval relative to the figure.
        error: f64,
    },
    /// Requests were dropped because the shadow was too slow.
    Dropped {
        /// Number of dropped requests.
        requests: u64,
    },
    /// The clients write faster than a shadow can follow.
    Overloaded,
}

impl std::fmt::Display for Doubt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
        match self {
            Doubt::FewWrites { written_bytes, needed_bytes } => write!(
                f,
                "too few writes: {:.1} GiB since the start, {:.1} GiB needed",
                gib(*written_bytes),
                gib(*needed_bytes)
            ),
            Doubt::Unsettled { layer, change } => write!(
                f,
                "not settled: {layer} changed by {:.0} % over the last overwrite of the volume",
                100.0 * change
            ),
            Doubt::Lopsided { share, expected } => write!(
                f,
                "the working set moved or is too small to sample: {:.2} % of the volume had {:.2} \
                 % of the writes",
                100.0 * expected,
                100.0 * share
            ),
            Doubt::Scattered { layer, error } => {
                write!(f, "parts of the sample differ: {layer} is known to ±{:.0} %", 100.0 * error)
            }
            Doubt::Dropped { requests } => {
                write!(
                    f,
                    "{requests} sampled requests were dropped because the shadow was too slow"
                )
            }
            Doubt::Overloaded => {
                f.write_str("stopped: the clients write faster than the shadow can follow")
            }
        }
    }
}

/// Sectors written by each candidate in one class.
pub(super) type Row = Vec<Sectors>;

/// Returns the sums of all classes for each candidate.
pub(super) fn sums(rows: &[Row]) -> Row {
    let count = rows.first().map_or(0, Vec::len);
    let sum = |index: usize| {
        rows.iter().map(|row| row[index]).fold(Sectors::default(), |sum, it| Sectors {
            host: sum.host + it.host,
            sent: sum.sent + it.sent,
            programmed: sum.programmed + it.programmed,
        })
    };
    (0..count).map(sum).collect()
}

fn ratio(one: u64, other: u64) -> Option<f64> {
    (other > 0).then(|| one as f64 / other as f64)
}

/// Returns the figures of candidate `index`. `rows` has the sectors of each class in the period,
/// and `rate` is the share of the volume that they sample.
pub(super) fn candidate(
    (index, layer): (usize, &str),
    rows: &[Row],
    rate: f64,
    classes: &[Class],
) -> Candidate {
    let all = sums(rows);
    let (own, none) = (all[index], all[0]);
    let failed = classes.iter().find_map(|class| class.models[index].as_ref().err().cloned());
    let is_known = failed.is_none();
    let pairs = |other: fn(&Row) -> u64| -> Vec<(f64, f64)> {
        rows.iter().map(|row| (row[index].programmed as f64, other(row) as f64)).collect()
    };
    let has_none = classes.iter().all(|class| class.models[0].is_ok());
    let related = is_known && has_none;
    let by_none = pairs(|row| row[0].programmed);
    let by_host = rows.iter().map(|row| (row[index].programmed as f64, row[index].host as f64));
    Candidate {
        layer: layer.to_owned(),
        waf: ratio(own.programmed, own.host).filter(|_| is_known),
        waf_drive: ratio(own.programmed, own.sent).filter(|_| is_known),
        error: error(&by_host.collect::<Vec<_>>(), rate).filter(|_| is_known),
        relative: ratio(own.programmed, none.programmed).filter(|_| related),
        relative_error: error(&by_none, rate).filter(|_| related && index > 0),
        failed,
    }
}

/// Returns half of the 95 % interval of the ratio of two sums over independent samples, which
/// together are the share `rate` of the whole.
fn error(pairs: &[(f64, f64)], rate: f64) -> Option<f64> {
    let count = pairs.len() as f64;
    let (sum, base): (f64, f64) =
        pairs.iter().fold((0.0, 0.0), |(sum, base), (one, other)| (sum + one, base + other));
    let student = STUDENT.get(pairs.len().checked_sub(2)?)?;
    if base == 0.0 {
        return None;
    }
    let squares = pairs.iter().map(|(one, other)| (one - sum / base * other).powi(2));
    let variance = squares.sum::<f64>() * count / (count - 1.0) / (base * base);
    Some(student * (variance * (1.0 - rate).max(0.0)).sqrt())
}

/// Returns the doubt about the sample's share of the `total` sectors written in the period.
pub(super) fn lopsided(classes: &[Class], rate: f64, total: u64) -> Option<Doubt> {
    let weights = classes.iter().map(Class::weight);
    let (sum, squares) =
        weights.fold((0.0, 0.0), |(sum, squares), it| (sum + it.0, squares + it.1));
    let expected = rate * total as f64;
    if expected == 0.0 || rate >= 1.0 {
        return None;
    }
    let deviation = (sum - expected).abs();
    // The variance of the grains around their mean: the number of sampled grains is known.
    let grains: usize = classes.iter().map(Class::len).sum();
    let squares = (squares - sum * sum / grains as f64).max(0.0);
    let chance = CHANCE * (squares * (1.0 - rate)).sqrt();
    let share = sum / total as f64;
    let doubt = Doubt::Lopsided { share, expected: rate };
    (deviation > chance.max(LEAST * expected) || deviation > LOPSIDED * expected).then_some(doubt)
}

/// Returns the doubt about the candidate whose classes differ most.
pub(super) fn scattered(candidates: &[Candidate]) -> Option<Doubt> {
    let errors = candidates.iter().filter_map(|it| Some((&it.layer, it.error? / it.waf?)));
    let (layer, error) = errors.max_by(|one, other| one.1.total_cmp(&other.1))?;
    let doubt = Doubt::Scattered { layer: layer.clone(), error };
    (error > SCATTERED).then_some(doubt)
}

/// Returns the doubt about `dropped` of `taken` sampled requests.
pub(super) fn dropped(dropped: u64, taken: u64) -> Option<Doubt> {
    let is_much = dropped as f64 > LOST * (taken + dropped) as f64;
    is_much.then_some(Doubt::Dropped { requests: dropped })
}

/// Returns the bytes of a number of sectors.
pub(super) fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_that_differ_are_a_doubt() {
        let candidate = |layer: &str, error| Candidate {
            layer: layer.into(),
            waf: Some(2.0),
            waf_drive: None,
            error,
            relative: None,
            relative_error: None,
            failed: None,
        };
        let close = [candidate("log", Some(0.4)), candidate("hard", None)];
        assert_eq!(scattered(&close), None);
        let far = [candidate("log", Some(0.4)), candidate("hard", Some(0.6))];
        let doubt = scattered(&far).unwrap();
        assert_eq!(doubt.to_string(), "parts of the sample differ: hard is known to ±30 %");
    }

    #[test]
    fn the_interval_follows_from_the_classes() {
        assert_eq!(error(&[(2.0, 1.0)], 0.1), None, "one class");
        let same = error(&[(2.0, 1.0), (4.0, 2.0), (6.0, 3.0)], 0.1);
        assert_eq!(same, Some(0.0), "all classes agree");
        // Ratios 1 and 3 around 2: a standard error of 1.
        let two = error(&[(1.0, 1.0), (3.0, 1.0)], 0.0).unwrap();
        assert!((two - 12.71).abs() < 0.01, "{two}");
        assert_eq!(error(&[(1.0, 1.0), (3.0, 1.0)], 1.0), Some(0.0), "all is sampled");
    }
}
