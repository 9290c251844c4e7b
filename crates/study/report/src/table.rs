//! A table of texts: the first column is aligned to the left, the others to the right.

use crate::svg::escape;

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    strong: Option<usize>,
    words: bool,
    ratios: bool,
    /// Style class of each column, or empty.
    colours: Vec<String>,
}

impl Table {
    /// Makes a table with these column heads and no rows.
    pub fn new(heads: &[impl AsRef<str>]) -> Self {
        let heads = heads.iter().map(|head| head.as_ref().to_owned()).collect();
        Table {
            heads,
            rows: Vec::new(),
            strong: None,
            words: false,
            ratios: false,
            colours: Vec::new(),
        }
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

    /// Colours each cell that has a ratio, such as `×0.65`: below 0.95 as a gain, above 1.05 as a
    /// loss, with a bar of its size.
    #[must_use]
    pub fn ratios(mut self) -> Self {
        self.ratios = true;
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
        let cell = |(at, cell): (usize, &String)| match ratio_of(cell).filter(|_| self.ratios) {
            Some(ratio) => format!("<td{}>{}</td>", heat(ratio), escape(cell)),
            None => format!("<td{}>{}</td>", self.class(at), escape(cell)),
        };
        let cells: String = row.iter().enumerate().map(cell).collect();
        format!("<tr{class}>{cells}</tr>\n")
    }
}

/// Returns the ratio in a cell, the number after `×`.
fn ratio_of(cell: &str) -> Option<f64> {
    let (_, ratio) = cell.split_once('×')?;
    ratio.split_whitespace().next()?.parse().ok()
}

/// Returns the attributes of a cell with a ratio: its class, and the length of its bar, which is
/// full at twice the reference.
fn heat(ratio: f64) -> String {
    let class = match ratio {
        ..0.95 => "gain",
        ..=1.05 => "even",
        _ => "loss",
    };
    format!(" class=\"heat {class}\" style=\"--bar:{:.0}%\"", (50.0 * ratio).clamp(2.0, 100.0))
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
    fn cells_with_ratios_are_coloured_by_gain_and_loss() {
        let mut table = Table::new(&["layer", "new"]).ratios();
        table.row(["log", "1.20  ×0.50"]).row(["hard", "3.00  ×1.20"]).row(["none", "–"]);
        let html = table.html();
        assert!(html.contains("<td class=\"heat gain\" style=\"--bar:25%\">1.20  ×0.50</td>"));
        assert!(html.contains("<td class=\"heat loss\" style=\"--bar:60%\">3.00  ×1.20</td>"));
        assert!(html.contains("<td>–</td>"), "{html}");
    }

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
