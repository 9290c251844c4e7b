//! What a study came to: its rows, and the combinations that have none.

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use crate::error::StudyError;
use crate::row::Row;

/// Why a combination has no row.
#[derive(Debug)]
pub enum Why {
    /// It can't be, or it broke.
    Failed(StudyError),
    /// Somebody asked to stop before it began, or before its drive was aged.
    Interrupted,
}

/// A combination without a row.
#[derive(Debug)]
pub struct Hole {
    /// Its number among all combinations.
    pub index: usize,
    /// How many rows are before it.
    pub after: usize,
    /// The workload, as the user named it.
    pub workload: String,
    /// The drive.
    pub drive: String,
    /// The state that the drive should have had.
    pub warm: String,
    /// The layer with its parameters.
    pub layer: String,
    /// What fixes everything that is chosen at random.
    pub seed: u64,
    /// Everything that can be chosen, with the word that stands for it.
    pub parameters: Vec<(String, String)>,
    /// The command that tries the combination alone again, for a shell.
    pub command: String,
    /// Why.
    pub why: Why,
}

impl Hole {
    /// The reason, in words.
    pub fn reason(&self) -> String {
        match &self.why {
            Why::Failed(error) => error.to_string(),
            Why::Interrupted => "interrupted before it was made".to_owned(),
        }
    }

    /// Whether the machine is the reason, and not what was asked.
    pub fn is_of_machine(&self) -> bool {
        matches!(&self.why, Why::Failed(why) if why.is_of_machine())
    }

    /// Whether a law was broken.
    pub fn is_violation(&self) -> bool {
        matches!(self.why, Why::Failed(StudyError::Violation { .. }))
    }
}

impl Serialize for Hole {
    /// As a row that has nothing but its names and the reason, `failed`.
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

/// Pairs as a map in their order.
struct Words<'a>(&'a [(String, String)]);

impl Serialize for Words<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        as_map(self.0, serializer)
    }
}

/// Writes pairs as a map in their order.
pub(crate) fn as_map<S: Serializer>(
    pairs: &[(String, String)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Rows and holes.
#[derive(Debug)]
pub struct Outcome {
    /// What was made.
    pub rows: Vec<Row>,
    /// What was not.
    pub holes: Vec<Hole>,
}

impl Outcome {
    /// The rows, when every combination has one or somebody asked to stop.
    ///
    /// # Errors
    /// The first reason why a combination has none.
    pub fn whole(self) -> Result<Vec<Row>, StudyError> {
        let failed = self.holes.into_iter().find_map(|hole| match hole.why {
            Why::Failed(error) => Some(error),
            Why::Interrupted => None,
        });
        failed.map_or(Ok(self.rows), Err)
    }

    /// Rows and holes in their order.
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
    /// As one list, in their order.
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
