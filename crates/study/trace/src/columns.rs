//! The columns of a table that a user describes: `columns=time:us,op,offset:bytes,length:bytes`.

use std::str::FromStr;

use hostftl_core::{SECTOR, Size};

use crate::record::Op;
use crate::unit::Unit;

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    /// Arrival time of the request.
    Time(Unit),
    /// Operation, in words such as `R`, `write` or `1`.
    Op,
    /// Operation in the kernel's letters, such as `WS`.
    Rwbs,
    /// Operation as the hexadecimal number of a SCSI command.
    Scsi,
    /// Address, in units of this many bytes.
    Offset(u64),
    /// Length, in units of this many bytes.
    Length(u64),
    /// Placement id of a write; ignored for other operations.
    Placement,
    /// Device: a number, a name, or `major,minor`.
    Dev,
    /// Major number of a kernel device.
    Major,
    /// Minor number of a kernel device.
    Minor,
    /// Ignored column.
    Skip,
    /// Ignored column that may contain spaces even if spaces separate the columns.
    Text,
}

/// The columns of a table, from the left. An address and a length are required, and each role
/// occurs at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Columns(pub(crate) Vec<Column>);

impl Columns {
    /// Returns whether `part` of a list of options is one more column.
    pub(crate) fn is_column(part: &str) -> bool {
        !part.contains('=') && part != "skip-bad"
    }

    /// Returns whether any column satisfies `is`.
    pub(crate) fn has(&self, is: impl Fn(&Column) -> bool) -> bool {
        self.0.iter().any(is)
    }

    /// Returns whether a column has the operation of a request.
    pub(crate) fn has_op(&self) -> bool {
        self.has(|column| matches!(column, Column::Op | Column::Rwbs | Column::Scsi))
    }
}

impl FromStr for Columns {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let all = text.split(',').map(column).collect::<Result<Vec<_>, _>>()?;
        let count = |is: fn(&Column) -> bool| all.iter().filter(|column| is(column)).count();
        let roles: [(&str, usize, bool); 6] = [
            ("time", count(|it| matches!(it, Column::Time(_))), false),
            ("op", count(|it| *it == Column::Op), false),
            ("offset", count(|it| matches!(it, Column::Offset(_))), true),
            ("length", count(|it| matches!(it, Column::Length(_))), true),
            ("dev", count(|it| *it == Column::Dev), false),
            ("placement", count(|it| *it == Column::Placement), false),
        ];
        for (name, count, is_needed) in roles {
            if count > 1 {
                return Err(format!("columns={text}: {name} occurs twice; remove one"));
            }
            if count == 0 && is_needed {
                return Err(format!(
                    "columns={text}: {name} is missing; add it, as in {name}:bytes"
                ));
            }
        }
        Ok(Columns(all))
    }
}

/// Parses one column with its unit.
fn column(text: &str) -> Result<Column, String> {
    let (name, unit) = text.split_once(':').map_or((text, None), |(name, unit)| (name, Some(unit)));
    let bytes = || match unit {
        Some("bytes") => Ok(1),
        Some("sectors") => Ok(SECTOR as u64),
        Some(unit) => {
            let size = Size::parse(unit).map(Size::bytes).filter(|size| *size > 0);
            size.ok_or_else(|| {
                format!(
                    "'{text}' is not a unit; use {name}:bytes, {name}:sectors or a size, as \
                     in {name}:4k"
                )
            })
        }
        None => Err(format!(
            "'{text}' needs a unit; use {name}:bytes, {name}:sectors or a size, \
             as in {name}:4k"
        )),
    };
    match (name, unit) {
        ("time", Some(unit)) => unit.parse().map(Column::Time),
        ("time", None) => Err("'time' needs a unit, as in time:us".to_owned()),
        ("op", None) => Ok(Column::Op),
        ("dev", None) => Ok(Column::Dev),
        ("placement", None) => Ok(Column::Placement),
        ("_" | "-" | "skip", None) => Ok(Column::Skip),
        ("offset", _) => bytes().map(Column::Offset),
        ("length", _) => bytes().map(Column::Length),
        _ => Err(format!(
            "'{text}' is not a column; use time:UNIT, op, offset:UNIT, length:UNIT, dev, \
             placement, and _ for each column to ignore, as in \
             columns=time:us,op,offset:bytes,length:bytes"
        )),
    }
}

/// Words for operations that a user defines: `read=1`, `write=0`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpWords(Vec<(String, Op)>);

/// Words that are known without a definition.
const USUAL: [(&str, Op); 22] = [
    ("r", Op::Read),
    ("read", Op::Read),
    ("rd", Op::Read),
    ("diskread", Op::Read),
    ("get", Op::Read),
    ("gets", Op::Read),
    ("w", Op::Write),
    ("write", Op::Write),
    ("wr", Op::Write),
    ("diskwrite", Op::Write),
    ("set", Op::Write),
    ("put", Op::Write),
    ("add", Op::Write),
    ("replace", Op::Write),
    ("f", Op::Flush),
    ("flush", Op::Flush),
    ("sync", Op::Flush),
    ("fsync", Op::Flush),
    ("d", Op::Discard),
    ("discard", Op::Discard),
    ("trim", Op::Discard),
    ("unmap", Op::Discard),
];

impl OpWords {
    /// Defines `words`, separated by `|`, as words for `op`.
    pub(crate) fn name(&mut self, words: &str, op: Op) -> Result<(), String> {
        for word in words.split('|') {
            if word.is_empty() {
                return Err("expected a word of the table, as in write=1 or read=R|RD".to_owned());
            }
            if self.0.iter().any(|(known, of)| known.eq_ignore_ascii_case(word) && *of != op) {
                return Err(format!("'{word}' has two meanings"));
            }
            self.0.push((word.to_owned(), op));
        }
        Ok(())
    }

    /// Returns whether the user defined no words.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the operation of `word`. Words defined by the user take precedence.
    pub(crate) fn meaning(&self, word: &[u8]) -> Option<Op> {
        let named = self.0.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(word));
        named.map(|(_, op)| *op).or_else(|| {
            let usual = USUAL.iter().find(|(known, _)| known.as_bytes().eq_ignore_ascii_case(word));
            usual.map(|(_, op)| *op)
        })
    }
}
