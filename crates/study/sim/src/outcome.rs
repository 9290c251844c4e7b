//! The outcome of a study: its rows, and the combinations without a row.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use crate::error::StudyError;
use crate::row::Row;

/// Reason why a combination has no row.
#[derive(Debug)]
pub enum Why {
    /// It is impossible, or its run failed.
    Failed(StudyError),
    /// The study was cancelled before its workload began.
    Interrupted,
}

/// A combination without a row.
#[derive(Debug)]
pub struct Hole {
    /// Index among all combinations.
    pub index: usize,
    /// Number of rows before it.
    pub after: usize,
    /// Workload as the user named it.
    pub workload: String,
    /// Drive.
    pub drive: String,
    /// State of the drive before the workload.
    pub warm: String,
    /// Layer with its parameters.
    pub layer: String,
    /// Seed of all random choices.
    pub seed: u64,
    /// All parameters with their values.
    pub parameters: Vec<(String, String)>,
    /// Shell command that runs this combination alone.
    pub command: String,
    /// Reason.
    pub why: Why,
}

impl Hole {
    /// Returns the reason as text.
    pub fn reason(&self) -> String {
        match &self.why {
            Why::Failed(error) => error.to_string(),
            Why::Interrupted => "interrupted before the run".to_owned(),
        }
    }

    /// Returns whether the reason is the machine, not the combination.
    pub fn is_of_machine(&self) -> bool {
        matches!(&self.why, Why::Failed(why) if why.is_of_machine())
    }

    /// Returns whether a law was violated.
    pub fn is_violation(&self) -> bool {
        matches!(self.why, Why::Failed(StudyError::Violation { .. }))
    }
}

impl Serialize for Hole {
    /// Serializes a row that has only names and the reason, `failed`.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(8))?;
        map.serialize_entry("layer", &self.layer)?;
        map.serialize_entry("drive", &self.drive)?;
        map.serialize_entry("workload", &self.workload)?;
        map.serialize_entry("warm", &self.warm)?;
        map.serialize_entry("seed", &self.seed)?;
        map.serialize_entry("parameters", &Words(&self.parameters))?;
        map.serialize_entry("command", &self.command)?;
        map.serialize_entry("failed", &self.reason())?;
        map.end()
    }
}

/// Pairs that serialize as a map in their order.
struct Words<'a>(&'a [(String, String)]);

impl Serialize for Words<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_map(self.0, serializer)
    }
}

/// Serializes pairs as a map in their order.
pub(crate) fn as_map<S: Serializer>(
    pairs: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Rows and holes.
#[derive(Debug)]
pub struct Outcome {
    /// Finished rows.
    pub rows: Vec<Row>,
    /// Combinations without a row.
    pub holes: Vec<Hole>,
}

impl Outcome {
    /// Returns the rows, unless a combination failed. Holes of a cancelled study are ignored.
    ///
    /// # Errors
    /// The first reason for a missing row.
    pub fn whole(self) -> Result<Vec<Row>, StudyError> {
        let failed = self.holes.into_iter().find_map(|hole| match hole.why {
            Why::Failed(error) => Some(error),
            Why::Interrupted => None,
        });
        failed.map_or(Ok(self.rows), Err)
    }

    /// Returns rows and holes in order.
    pub fn each(&self) -> impl Iterator<Item = Result<&Row, &Hole>> {
        let mut holes = self.holes.iter().peekable();
        let mut rows = self.rows.iter().enumerate().peekable();
        std::iter::from_fn(move || {
            let next = rows.peek().map_or(usize::MAX, |(index, _)| *index);
            match holes.next_if(|hole| hole.after <= next) {
                Some(hole) => Some(Err(hole)),
                None => rows.next().map(|(_, row)| Ok(row)),
            }
        })
    }
}

impl Serialize for Outcome {
    /// Serializes rows and holes as one list, in order.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.rows.len() + self.holes.len()))?;
        for one in self.each() {
            match one {
                Ok(row) => list.serialize_element(row)?,
                Err(hole) => list.serialize_element(hole)?,
            }
        }
        list.end()
    }
}
