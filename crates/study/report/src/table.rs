//! A table of texts: the first column is aligned to the left, the others to the right.

use crate::svg::escape;

/// Relative difference up to which a ratio counts as 1.
const EVEN: f64 = 0.03;

/// Meaning of a cell's colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tone {
    Gain,
    Even,
    Loss,
}

/// A cell: its text, and optionally a colour for its meaning and a bar of its size.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    heat: Option<(Tone, f64)>,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Cell { text: text.into(), heat: None }
    }
}

impl Cell {
    /// Makes a cell with a ratio to a reference. A ratio below 1 is a gain if `less_is_better`,
    /// and a loss otherwise. Its bar is full at twice the reference.
    pub fn ratio(text: impl Into<String>, ratio: f64, less_is_better: bool) -> Self {
        let tone = match (ratio < 1.0 - EVEN, ratio > 1.0 + EVEN) {
            (false, false) => Tone::Even,
            (is_less, _) if is_less == less_is_better => Tone::Gain,
            _ => Tone::Loss,
        };
        Cell { text: text.into(), heat: Some((tone, ratio)) }
    }

    /// Colours the cell as a loss, because its row exceeds a limit.
    #[must_use]
    pub fn refused(mut self) -> Self {
        self.heat = Some((Tone::Loss, self.heat.map_or(0.0, |(_, ratio)| ratio)));
        self
    }

    /// Returns the attributes of a coloured cell: its class, and the length of its bar.
    fn heat(&self) -> Option<String> {
        let (tone, ratio) = self.heat?;
        let class = match tone {
            Tone::Gain => "gain",
            Tone::Even => "even",
            Tone::Loss => "loss",
        };
        let bar = (50.0 * ratio).clamp(2.0, 100.0);
        Some(format!(" class=\"heat {class}\" style=\"--bar:{bar:.0}%\""))
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<Cell>>,
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
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) -> &mut Self {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
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
        !self.words && !self.rows.iter().any(|row| is_figure(&row[column].text))
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

    fn html_row(&self, at: usize, row: &[Cell]) -> String {
        let class = if self.strong == Some(at) { " class=\"strong\"" } else { "" };
        let cell = |(at, cell): (usize, &Cell)| {
            let attributes = cell.heat().unwrap_or_else(|| self.class(at));
            format!("<td{attributes}>{}</td>", escape(&cell.text))
        };
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
    fn ratios_are_coloured_as_gain_or_loss() {
        let mut table = Table::new(&["layer", "wear", "speed", "latency"]);
        let less = |ratio: f64| Cell::ratio(format!("×{ratio:.2}"), ratio, true);
        let more = |ratio: f64| Cell::ratio(format!("×{ratio:.2}"), ratio, false);
        table.row(["log".into(), less(0.5), more(0.5), less(1.02)]);
        table.row(["hard".into(), less(0.5).refused(), more(1.2), "–".into()]);
        let html = table.html();
        assert!(html.contains("<td class=\"heat gain\" style=\"--bar:25%\">×0.50</td>"), "{html}");
        assert!(html.contains("<td class=\"heat loss\" style=\"--bar:25%\">×0.50</td>"), "{html}");
        assert!(html.contains("<td class=\"heat even\" style=\"--bar:51%\">×1.02</td>"), "{html}");
        assert!(html.contains("<td class=\"heat gain\" style=\"--bar:60%\">×1.20</td>"), "{html}");
        assert_eq!(html.matches("heat loss").count(), 2, "{html}");
        assert!(html.contains("<td>–</td>"), "{html}");
    }

    #[test]
    fn numbers_are_distinguished_from_words() {
        for figure in ["–", "1.50", "×0.65", "2.22  ×1.00", "1,778,057", "12 %", "-3", "0 B"] {
            assert!(is_figure(figure), "{figure}");
        }
        for word in ["", "4*tlc", "hard", "16k-page", "qlc-64k:capacity=128m"] {
            assert!(!is_figure(word), "{word}");
        }
    }
}
