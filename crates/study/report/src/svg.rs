//! SVG elements, and escaping of text in them.

use std::fmt::{Display, Write};

/// Width of every chart in its own units. Text of size 12 is readable on a phone at this width.
pub(crate) const WIDTH: f64 = 440.0;
/// Number of distinct colours; further series start again with the first one.
pub(crate) const COLOURS: usize = 8;
/// Width of a character in a label: that of a digit in the widest common font.
pub(crate) const CHARACTER: f64 = 7.65;

/// Escapes `text` for HTML.
pub(crate) fn escape(text: &str) -> String {
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

/// Labels below an axis, added from left to right. Each label stays within the drawing, and a label
/// that would touch the previous one is omitted.
pub(crate) struct Ticks {
    height: f64,
    /// Lowest position at which the next label may start.
    free: f64,
}

impl Ticks {
    /// Makes an empty row of labels at this height.
    pub(crate) fn new(height: f64) -> Self {
        Ticks { height, free: f64::NEG_INFINITY }
    }

    /// Adds the label of position `x`.
    pub(crate) fn label(&mut self, svg: &mut Svg, x: f64, text: &str) {
        let half = width(text) / 2.0;
        let middle = x.min(WIDTH - half).max(half);
        if middle - half >= self.free {
            svg.text((middle, self.height), Anchor::Middle, text);
            self.free = middle + half + 4.0;
        }
    }
}

/// Anchor of a label.
#[derive(Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A drawing under construction.
#[derive(Default)]
pub(crate) struct Svg(String);

impl Svg {
    /// Returns the complete drawing with this height. `title` is its label for screen readers.
    pub(crate) fn finish(self, height: f64, title: &str) -> String {
        let (title, body) = (escape(title), self.0);
        format!(
            "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{title}\">\n\
             {body}</svg>\n"
        )
    }

    fn push(&mut self, piece: impl Display) {
        writeln!(self.0, "{piece}").expect("writing to a string succeeds");
    }

    /// Adds a line of class `class`.
    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// Adds a bar in the colour of series `index`, with the tooltip `hint`.
    pub(crate) fn bar(&mut self, index: usize, at: (f64, f64), size: (f64, f64), hint: &str) {
        let (colour, hint) = (index % COLOURS, escape(hint));
        let ((x, y), (width, height)) = (at, (size.0.max(0.0), size.1.max(0.0)));
        self.push(format_args!(
            "<rect class=\"f{colour}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{hint}</title></rect>"
        ));
    }

    /// Adds a line through `points` in the colour and with the dashes of series `index`.
    pub(crate) fn path(&mut self, index: usize, points: &[(f64, f64)]) {
        let colour = index % COLOURS;
        let mut path = String::new();
        for (at, (x, y)) in points.iter().enumerate() {
            let letter = if at == 0 { 'M' } else { 'L' };
            write!(path, "{letter}{x:.1} {y:.1}").expect("writing to a string succeeds");
        }
        self.push(format_args!("<path class=\"s{colour}\" d=\"{path}\"/>"));
    }

    /// Adds a label.
    pub(crate) fn text(&mut self, at: (f64, f64), anchor: Anchor, text: &str) {
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

/// Returns the approximate width of a label.
pub(crate) fn width(text: &str) -> f64 {
    text.chars().count() as f64 * CHARACTER
}

/// Splits `text` into lines of at most this width. Lines break after spaces, `:`, `,` and `+`, or
/// anywhere if there are none of these.
pub(crate) fn wrapped(text: &str, most: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in text.split_inclusive([' ', ':', ',', '+']) {
        let line = lines.last_mut().expect("there is one");
        if !line.is_empty() && width(line) + width(piece.trim_end()) > most {
            lines.push(String::new());
        }
        for letter in piece.chars() {
            let line = lines.last_mut().expect("there is one");
            if width(line) + CHARACTER > most && letter != ' ' {
                lines.push(letter.to_string())
            } else {
                line.push(letter)
            }
        }
    }
    lines.into_iter().map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_whole_over_several_lines() {
        let name = "log:compress=none:spare=15 on qlc-64k:capacity=2g";
        let lines = wrapped(name, 20.0 * CHARACTER);
        assert_eq!(lines, ["log:compress=none:", "spare=15 on qlc-64k:", "capacity=2g"]);
        assert_eq!(wrapped("short", 100.0), ["short"]);
        let solid = "x".repeat(50);
        let lines = wrapped(&solid, 20.0 * CHARACTER);
        assert_eq!(lines.concat(), solid);
        assert!(lines.iter().all(|line| width(line) <= 20.0 * CHARACTER));
    }
}
