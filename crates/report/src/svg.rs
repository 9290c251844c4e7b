//! Pieces of SVG, and text that is safe in it.

use std::fmt::{Display, Write};

/// Width of every chart in its own units; text of 12 is readable on a phone at this width.
pub const WIDTH: f64 = 440.0;
/// Colours that differ; more series than this begin again.
pub const COLOURS: usize = 8;
/// Width of an average character of a label.
pub const CHARACTER: f64 = 6.4;

/// `text` as HTML has it.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            _ => safe.push(letter),
        }
    }
    safe
}

/// Where a label is anchored.
#[derive(Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing in the making.
#[derive(Default)]
pub struct Svg(String);

impl Svg {
    /// The whole drawing of this height, called `title` for those who hear it.
    pub fn finish(self, height: f64, title: &str) -> String {
        let (title, body) = (escape(title), self.0);
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             {body}</svg>\n"
        )
    }

    fn push(&mut self, piece: impl Display) {
        writeln!(self.0, "{piece}").expect("a string takes everything");
    }

    /// A line of class `class`.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A bar in the colour of series `index`, that says `hint` to who points at it.
    pub fn bar(&mut self, index: usize, at: (f64, f64), size: (f64, f64), hint: &str) {
        let (colour, hint) = (index % COLOURS, escape(hint));
        let ((x, y), (width, height)) = (at, (size.0.max(0.0), size.1.max(0.0)));
        self.push(format_args!(
            "<rect class=\"f{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{hint}</title></rect>"
        ));
    }

    /// A line through `points` in the colour and with the dashes of series `index`.
    pub fn path(&mut self, index: usize, points: &[(f64, f64)]) {
        let colour = index % COLOURS;
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            write!(path, "{letter}{x:.1} {y:.1}").expect("a string takes everything");
        }
        self.push(format_args!("<path class=\"s{colour}\" d=\"{path}\"/>"));
    }

    /// A label.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let ((x, y), text) = (at, escape(text));
        self.push(format_args!(
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>"
        ));
    }
}

/// How wide a label is, about.
pub fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}
