//! An HTML page, built from top to bottom.

use crate::figure::Figure;
use crate::svg::escape;
use crate::table::Table;

/// Style for screens and paper.
const STYLE: &str = include_str!("style.css");
/// Script that makes tables sortable.
const SCRIPT: &str = include_str!("sort.js");

/// A page under construction.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// Makes a page with a title.
    pub fn new(title: &str) -> Self {
        Page { title: title.to_owned(), body: String::new() }
    }

    /// Adds the sentence that summarises the page, below the title.
    pub fn lead(&mut self, text: &str) -> &mut Self {
        self.add("p class=\"lead\"", "p", text)
    }

    /// Adds a heading.
    pub fn section(&mut self, title: &str) -> &mut Self {
        self.add("h2", "h2", title)
    }

    /// Adds a heading above several sections.
    pub fn chapter(&mut self, title: &str) -> &mut Self {
        self.add("h2 class=\"chapter\"", "h2", title)
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.add("p", "p", text)
    }

    /// Adds preformatted text to copy, such as a command.
    pub fn code(&mut self, text: &str) -> &mut Self {
        self.add("pre", "pre", text)
    }

    /// Adds a table.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body += &table.html();
        self
    }

    /// Adds charts, next to each other if the width permits.
    pub fn figures(&mut self, figures: impl IntoIterator<Item = Figure>) -> &mut Self {
        let figures: String = figures.into_iter().map(|figure| figure.html()).collect();
        self.body += &format!("<div class=\"figures\">\n{figures}</div>\n");
        self
    }

    fn add(&mut self, open: &str, close: &str, text: &str) -> &mut Self {
        self.body += &format!("<{open}>{}</{close}>\n", escape(text));
        self
    }

    /// Returns the complete HTML text.
    pub fn finish(&self) -> String {
        let (title, body) = (escape(&self.title), &self.body);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }
}
