//! A chart with its title, legend and note.

use crate::svg::{COLOURS, escape};

/// A chart that a page can show.
#[derive(Clone, Debug)]
pub struct Figure {
    pub(crate) title: String,
    /// Names and colours of the series; empty for a single series.
    pub(crate) legend: Vec<(String, usize)>,
    /// Whether the legend shows lines instead of areas.
    pub(crate) has_lines: bool,
    pub(crate) svg: String,
    pub(crate) note: String,
}

impl Figure {
    /// Adds a sentence below the chart.
    #[must_use]
    pub fn note(mut self, text: &str) -> Self {
        text.clone_into(&mut self.note);
        self
    }

    /// Returns the chart as HTML.
    pub(crate) fn html(&self) -> String {
        let key = |(name, colour): &(String, usize)| self.key(colour % COLOURS, name);
        let keys: String = self.legend.iter().map(key).collect();
        let legend = if keys.is_empty() {
            String::new()
        } else {
            format!("<ul class=\"legend\">{keys}</ul>\n")
        };
        let note = if self.note.is_empty() {
            String::new()
        } else {
            format!("<p class=\"note\">{}</p>\n", escape(&self.note))
        };
        let title = escape(&self.title);
        format!("<figure>\n<figcaption>{title}</figcaption>\n{legend}{}{note}</figure>\n", self.svg)
    }

    /// Returns the legend of a chart's series. A single series has no legend.
    pub(crate) fn legend(series: impl Iterator<Item = (String, usize)>) -> Vec<(String, usize)> {
        let all: Vec<(String, usize)> = series.collect();
        if all.len() > 1 { all } else { Vec::new() }
    }

    fn key(&self, colour: usize, name: &str) -> String {
        let sample = if self.has_lines {
            format!("<path class=\"s{colour}\" d=\"M0 6L24 6\"/>")
        } else {
            format!("<rect class=\"f{colour}\" width=\"24\" height=\"12\"/>")
        };
        let name = escape(name);
        format!("<li><svg viewBox=\"0 0 24 12\" aria-hidden=\"true\">{sample}</svg>{name}</li>")
    }
}
