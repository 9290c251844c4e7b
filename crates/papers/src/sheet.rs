//! Tables whose cells are figures or words.

use serde::{Serialize, Serializer};

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A figure, and how many digits behind the point are shown.
    Number(f64, usize),
    /// Nothing to say.
    Nothing,
}

impl Cell {
    /// By how many per cent `ours` is off `known`; nothing where nothing is known.
    pub fn off(known: f64, ours: f64) -> Self {
        match known == 0.0 {
            true => Cell::Nothing,
            false => Cell::Text(format!("{:+.1} %", (ours / known - 1.0) * 100.0)),
        }
    }

    /// As people read it.
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value, digits) => format!("{value:.digits$}"),
            Cell::Nothing => "–".into(),
        }
    }
}

/// Words, a figure with all its digits, or nothing.
impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Cell::Text(text) => serializer.serialize_str(text),
            Cell::Number(value, _) => serializer.serialize_f64(*value),
            Cell::Nothing => serializer.serialize_none(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Figures that the paper prints.
    Published,
    /// Figures from a closed form or an independent model.
    Computed,
    /// Figures of ours that stand beside such.
    Ours,
    /// Names, differences, and figures of ours that nothing stands beside.
    Plain,
}

impl Kind {
    /// The kind that a head names with its first word: `published`, `computed` or `ours`. So the
    /// reader sees it too.
    pub fn of(head: &str) -> Self {
        match head.split([' ', ',']).next() {
            Some("published") => Kind::Published,
            Some("computed") => Kind::Computed,
            Some("ours") => Kind::Ours,
            _ => Kind::Plain,
        }
    }

    /// The name of its colour in a page; nothing for the colour of text.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Published => "published",
            Kind::Computed => "computed",
            Kind::Ours => "ours",
            Kind::Plain => "",
        }
    }
}

/// A table: the first column names the row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// The head of each column, with its unit; [`Kind::of`] tells the kind.
    pub heads: Vec<String>,
    /// The kind of each column.
    pub kinds: Vec<Kind>,
    /// A cell for each head.
    pub rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// A table without rows.
    pub fn new(title: impl Into<String>, heads: &[&str]) -> Self {
        let kinds = heads.iter().map(|head| Kind::of(head)).collect();
        let heads = heads.iter().map(|&head| head.into()).collect();
        Sheet { title: title.into(), heads, kinds, rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it does not have a cell for each head.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.heads.len(), "a cell for each head");
        self.rows.push(cells);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_as_people_read_them() {
        assert_eq!(Cell::off(2.0, 2.5).text(), "+25.0 %");
        assert_eq!(Cell::off(0.0, 2.5), Cell::Nothing);
        assert_eq!(Cell::Number(2.0 / 3.0, 3).text(), "0.667");
    }

    #[test]
    fn a_head_names_the_kind_of_its_column() {
        let sheet = Sheet::new("", &["case", "published (%)", "computed", "ours, 4 KiB", "off"]);
        let kinds = [Kind::Plain, Kind::Published, Kind::Computed, Kind::Ours, Kind::Plain];
        assert_eq!(sheet.kinds, kinds);
    }
}
