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
    /// Titles of the sections and chapters, as HTML.
    headings: Vec<String>,
}

/// Place of the table of contents in a body.
const CONTENTS: &str = "<!-- contents -->\n";

impl Page {
    /// Makes a page with a title.
    pub fn new(title: &str) -> Self {
        Page { title: title.to_owned(), body: String::new(), headings: Vec::new() }
    }

    /// Adds the sentence that summarises the page, below the title.
    pub fn lead(&mut self, text: &str) -> &mut Self {
        self.add("p class=\"lead\"", "p", text)
    }

    /// Adds a heading.
    pub fn section(&mut self, title: &str) -> &mut Self {
        let id = self.heading(title);
        self.add(&format!("h2 id=\"{id}\""), "h2", title)
    }

    /// Adds a heading above several sections.
    pub fn chapter(&mut self, title: &str) -> &mut Self {
        let id = self.heading(title);
        self.add(&format!("h2 class=\"chapter\" id=\"{id}\""), "h2", title)
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

    /// Adds charts that are hidden until the reader opens their title.
    pub fn folded(&mut self, title: &str, figures: impl IntoIterator<Item = Figure>) -> &mut Self {
        self.body += &format!("<details>\n<summary>{}</summary>\n", escape(title));
        self.figures(figures);
        self.body += "</details>\n";
        self
    }

    /// Adds a table of contents of the whole page.
    pub fn contents(&mut self) -> &mut Self {
        self.body += CONTENTS;
        self
    }

    /// Records a heading and returns its identifier.
    fn heading(&mut self, title: &str) -> String {
        self.headings.push(escape(title));
        format!("s{}", self.headings.len())
    }

    /// Returns the table of contents as HTML.
    fn contents_html(&self) -> String {
        let link = |(at, title): (usize, &String)| {
            format!("<li><a href=\"#s{}\">{title}</a></li>", at + 1)
        };
        let links: String = self.headings.iter().enumerate().map(link).collect();
        format!("<nav aria-label=\"Contents\"><ul>{links}</ul></nav>\n")
    }

    fn add(&mut self, open: &str, close: &str, text: &str) -> &mut Self {
        self.body += &format!("<{open}>{}</{close}>\n", escape(text));
        self
    }

    /// Returns the complete HTML text.
    pub fn finish(&self) -> String {
        let (title, body) = (escape(&self.title), &self.body);
        let body = body.replacen(CONTENTS, &self.contents_html(), 1);
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}\
             <script>\n{SCRIPT}</script>\n</body>\n</html>\n"
        )
    }
}
