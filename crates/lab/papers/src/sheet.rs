//! Tables whose cells are figures or text.

use serde::{Serialize, Serializer};

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A figure and the number of its decimals.
    Number(f64, usize),
    /// An empty cell.
    Nothing,
}

impl Cell {
    /// Returns the difference of `ours` from `known` in per cent; an empty cell if `known` is zero.
    pub fn off(known: f64, ours: f64) -> Self {
        if known == 0.0 {
            Cell::Nothing
        } else {
            Cell::Text(format!("{:+.1} %", (ours / known - 1.0) * 100.0))
        }
    }

    /// Returns the displayed text.
    pub fn text(&self) -> String {
        match self {
            Cell::Text(text) => text.clone(),
            Cell::Number(value, digits) => format!("{value:.digits$}"),
            Cell::Nothing => "–".into(),
        }
    }
}

/// Serializes text, a figure with all its digits, or null.
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

/// Kind of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Figures printed in the paper.
    Published,
    /// Figures from a closed form or an independent model.
    Computed,
    /// Figures of the experiment.
    Ours,
    /// Input figures: sizes, counts, parameters.
    Input,
    /// Difference between two other columns.
    Difference,
    /// Names and other text.
    Plain,
}

impl Kind {
    /// Returns the name of its colour in a page; empty for the colour of text.
    pub fn class(self) -> &'static str {
        match self {
            Kind::Published => "published",
            Kind::Computed => "computed",
            Kind::Ours => "ours",
            Kind::Input | Kind::Difference | Kind::Plain => "",
        }
    }
}

/// Returns text in snake case: lower-case letters and digits, with `_` between words.
pub(crate) fn snake(text: &str) -> String {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|it| !it.is_empty());
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

/// A table whose first column names the row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sheet {
    /// Short name in snake case, unique among the tables of a paper.
    pub name: String,
    /// Title.
    pub title: String,
    /// Head of each column, with its unit.
    pub heads: Vec<String>,
    /// Kind of each column.
    pub kinds: Vec<Kind>,
    /// Rows with a cell for each head.
    pub rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// Creates a table without columns.
    pub fn new(name: impl Into<String>, title: impl Into<String>) -> Self {
        let (name, title) = (name.into(), title.into());
        Sheet { name, title, heads: Vec::new(), kinds: Vec::new(), rows: Vec::new() }
    }

    /// Adds columns of figures printed in the paper.
    #[must_use]
    pub fn published<H: Into<String>>(self, heads: impl IntoIterator<Item = H>) -> Self {
        self.columns(Kind::Published, heads)
    }

    /// Adds columns of figures from a closed form or an independent model.
    #[must_use]
    pub fn computed<H: Into<String>>(self, heads: impl IntoIterator<Item = H>) -> Self {
        self.columns(Kind::Computed, heads)
    }

    /// Adds columns of figures of the experiment.
    #[must_use]
    pub fn ours<H: Into<String>>(self, heads: impl IntoIterator<Item = H>) -> Self {
        self.columns(Kind::Ours, heads)
    }

    /// Adds columns of input figures.
    #[must_use]
    pub fn input<H: Into<String>>(self, heads: impl IntoIterator<Item = H>) -> Self {
        self.columns(Kind::Input, heads)
    }

    /// Adds a column for the difference between two others.
    #[must_use]
    pub fn difference(self, head: &str) -> Self {
        self.columns(Kind::Difference, [head])
    }

    /// Adds columns of text.
    #[must_use]
    pub fn words<H: Into<String>>(self, heads: impl IntoIterator<Item = H>) -> Self {
        self.columns(Kind::Plain, heads)
    }

    fn columns<H: Into<String>>(mut self, kind: Kind, heads: impl IntoIterator<Item = H>) -> Self {
        self.heads.extend(heads.into_iter().map(Into::into));
        self.kinds.resize(self.heads.len(), kind);
        self
    }

    /// Adds a row.
    ///
    /// # Panics
    /// If it does not have a cell for each head, or if a figure is in a column of text.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) -> &mut Self {
        let cells: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(cells.len(), self.heads.len(), "a cell per heading");
        for (at, cell) in cells.iter().enumerate() {
            let is_figure = matches!(cell, Cell::Number(..));
            assert!(!is_figure || self.kinds[at] != Kind::Plain, "whose is {}?", self.heads[at]);
        }
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
    fn a_column_keeps_its_kind() {
        let sheet =
            Sheet::new("gains", "").words(["case"]).published(["gain"]).ours(["HARD", "mHATL"]);
        let sheet = sheet.computed(["model"]).input(["size (KiB)"]).difference("off");
        assert_eq!(sheet.heads, ["case", "gain", "HARD", "mHATL", "model", "size (KiB)", "off"]);
        let (two, rest) = ([Kind::Plain, Kind::Published], [Kind::Ours, Kind::Ours]);
        let last = [Kind::Computed, Kind::Input, Kind::Difference];
        assert_eq!(sheet.kinds, [&two[..], &rest, &last].concat());
    }

    #[test]
    #[should_panic(expected = "whose is gain?")]
    fn a_figure_is_somebodys() {
        Sheet::new("gains", "").words(["case", "gain"]).row(["reads".into(), Cell::Number(1.5, 2)]);
    }
}
