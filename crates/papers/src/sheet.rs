//! Tables whose cells are figures or words.

use serde::Serialize;

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A figure, and how many digits behind the point are shown.
    Number(f64, #[serde(skip)] usize),
    /// Nothing to say.
    Nothing,
}

impl Cell {
    /// By how many per cent `ours` is off `published`; nothing where nothing was published.
    pub fn off(published: f64, ours: f64) -> Self {
        match published == 0.0 {
            true => Cell::Nothing,
            false => Cell::Text(format!("{:+.1} %", (ours / published - 1.0) * 100.0)),
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

/// A table: the first column names the row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sheet {
    /// What it shows.
    pub title: String,
    /// The head of each column, with its unit.
    pub heads: Vec<String>,
    /// A cell for each head.
    pub rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// A table without rows.
    pub fn new(title: impl Into<String>, heads: &[&str]) -> Self {
        let heads = heads.iter().map(|&head| head.into()).collect();
        Sheet { title: title.into(), heads, rows: Vec::new() }
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
}
