//! The page: what stands on it, one below the other.

use crate::figure::Figure;
use crate::svg::escape;
use crate::table::Table;

/// How everything looks, on screens and on paper.
const STYLE: &str = include_str!("style.css");
/// What makes tables sortable.
const SCRIPT: &str = include_str!("sort.js");

/// A page in the making.
#[derive(Clone, Debug)]
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with a title and nothing else.
    pub fn new(title: &str) -> Self {
        Page { title: title.to_owned(), body: String::new() }
    }

    /// The sentence that says it all; it stands below the title.
    pub fn lead(&mut self, text: &str) -> &mut Self {
        self.add("p class=\"lead\"", "p", text)
    }

    /// A heading.
    pub fn section(&mut self, title: &str) -> &mut Self {
        self.add("h2", "h2", title)
    }

    /// A heading above several sections.
    pub fn chapter(&mut self, title: &str) -> &mut Self {
        self.add("h2 class=\"chapter\"", "h2", title)
    }

    /// Running text.
    pub fn paragraph(&mut self, text: &str) -> &mut Self {
        self.add("p", "p", text)
    }

    /// Something to copy, such as a command: its lines stay as they are.
    pub fn code(&mut self, text: &str) -> &mut Self {
        self.add("pre", "pre", text)
    }

    /// A table.
    pub fn table(&mut self, table: &Table) -> &mut Self {
        self.body += &table.html();
        self
    }

    /// Charts, side by side where there is room.
    pub fn figures(&mut self, figures: impl IntoIterator<Item = Figure>) -> &mut Self {
        let figures: String = figures.into_iter().map(|figure| figure.html()).collect();
        self.body += &format!("<div class=\"figures\">\n{figures}</div>\n");
        self
    }

    fn add(&mut self, open: &str, close: &str, text: &str) -> &mut Self {
        self.body += &format!("<{open}>{}</{close}>\n", escape(text));
        self
    }

    /// The file's whole text.
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
