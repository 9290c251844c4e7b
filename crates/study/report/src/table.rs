//! A table of texts: the first column is aligned to the left, the others to the right.

use crate::svg::escape;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    strong: Option<usize>,
    words: bool,
    /// Style class of each column, or empty.
    colours: Vec<String>,
}

impl Table {
    /// Makes a table with these column heads and no rows.
    pub fn new(heads: &[impl AsRef<str>]) -> Self {
        let heads = heads.iter().map(|head| head.as_ref().to_owned()).collect();
        Table { heads, rows: Vec::new(), strong: None, words: false, colours: Vec::new() }
    }

    /// Adds a row with a cell for each column head.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) -> &mut Self {
        let cells: Vec<String> = cells.into_iter().map(Into::into).collect();
        assert_eq!(cells.len(), self.heads.len(), "a cell for each head");
        self.rows.push(cells);
        self
    }

    /// Highlights the row that was added last.
    pub fn strong(&mut self) -> &mut Self {
        self.strong = self.rows.len().checked_sub(1);
        self
    }

    /// Declares all columns as text: left-aligned, possibly with several lines per cell.
    #[must_use]
    pub fn words(mut self) -> Self {
        self.words = true;
        self
    }

    /// Sets the colour of each column by name: `published`, `computed`, `ours`, or an empty name
    /// for the text colour.
    #[must_use]
    pub fn coloured(mut self, colours: &[impl AsRef<str>]) -> Self {
        assert_eq!(colours.len(), self.heads.len(), "a colour for each head");
        self.colours = colours.iter().map(|colour| colour.as_ref().to_owned()).collect();
        self
    }

    /// Returns the class attribute of a column's cells: its colour, and whether it has words.
    fn class(&self, column: usize) -> String {
        let word = if self.is_of_words(column) { "word" } else { "" };
        let colour = self.colours.get(column).map_or("", String::as_str);
        match [colour, word].into_iter().filter(|it| !it.is_empty()).collect::<Vec<_>>() {
            classes if classes.is_empty() => String::new(),
            classes => format!(" class=\"{}\"", classes.join(" ")),
        }
    }

    /// Returns whether no cell of a column is a number, optionally with a unit, or a dash in place
    /// of one.
    fn is_of_words(&self, column: usize) -> bool {
        !self.words && !self.rows.iter().any(|row| is_figure(&row[column]))
    }

    /// Returns the table as HTML.
    pub(crate) fn html(&self) -> String {
        let heads: String = self
            .heads
            .iter()
            .enumerate()
            .map(|(at, head)| format!("<th scope=\"col\"{}>{}</th>", self.class(at), escape(head)))
            .collect();
        let rows: String =
            self.rows.iter().enumerate().map(|(at, row)| self.html_row(at, row)).collect();
        let class = if self.words { " class=\"words\"" } else { "" };
        format!(
            "<div class=\"table\"><table{class}>\n<thead><tr>{heads}</tr></thead>\n\
             <tbody>\n{rows}</tbody>\n</table></div>\n"
        )
    }

    fn html_row(&self, at: usize, row: &[String]) -> String {
        let class = if self.strong == Some(at) { " class=\"strong\"" } else { "" };
        let cell =
            |(at, cell): (usize, &String)| format!("<td{}>{}</td>", self.class(at), escape(cell));
        let cells: String = row.iter().enumerate().map(cell).collect();
        format!("<tr{class}>{cells}</tr>\n")
    }
}

/// Returns whether a cell is a number, optionally with a sign before it and a unit after a space,
/// or a dash.
fn is_figure(cell: &str) -> bool {
    let first =
        cell.split([' ', ',']).next().unwrap_or_default().trim_start_matches(['×', '+', '-']);
    let digits = first.trim_end_matches(['%', '?']);
    cell == "–" || (!digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_told_from_words() {
        for figure in ["–", "1.50", "×0.65", "2.22  ×1.00", "1,778,057", "12 %", "-3", "0 B"] {
            assert!(is_figure(figure), "{figure}");
        }
        for word in ["", "4*tlc", "hard", "16k-page", "qlc-64k:capacity=128m"] {
            assert!(!is_figure(word), "{word}");
        }
    }
}
