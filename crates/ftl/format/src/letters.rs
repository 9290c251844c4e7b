//! Characters that a terminal does not display as they are.

use core::fmt;

/// Returns whether a character controls a terminal, has no width, or changes the text direction.
/// Text from a foreign device or client must not contain such characters, or must be escaped.
pub fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(letter, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text as one line without effect on a terminal: each invisible character is escaped.
///
/// Printed text may come from a server, a client, a device or another process. Therefore all output
/// passes through this type or [`PlainLines`].
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_unseen) {
            let (seen, unseen) = rest.split_at(at);
            f.write_str(seen)?;
            let mut letters = unseen.chars();
            let letter = letters.next().expect("the entry exists");
            if letter.is_control() {
                write!(f, "{}", letter.escape_default())?
            } else {
                write!(f, "{}", letter.escape_unicode())?
            }
            rest = letters.as_str();
        }
        f.write_str(rest)
    }
}

/// Text of several lines, such as a table, escaped like [`Plain`].
#[derive(Clone, Copy, Debug)]
pub struct PlainLines<'a>(pub &'a str);

impl fmt::Display for PlainLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.0.split('\n').enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            Plain(line).fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::string::ToString;

    use super::*;

    #[test]
    fn only_terminal_control_sequences_are_escaped() {
        let evil = "\u{1b}[2J\u{7}\nhostftl: all is well\r\u{9b}31m \u{202e}txt";
        let plain = "\\u{1b}[2J\\u{7}\\nhostftl: all is well\\r\\u{9b}31m \\u{202e}txt";
        assert_eq!(Plain(evil).to_string(), plain);
        assert_eq!(Plain("Größe 容量\\n").to_string(), "Größe 容量\\n");
        assert_eq!(PlainLines("a\u{1b}\nb\n").to_string(), "a\\u{1b}\nb\n");
    }

    #[test]
    fn all_languages_are_shown_and_direction_marks_are_not() {
        assert!(!"Größe 容量 حجم נפח 🙂 a-b".chars().any(is_unseen));
        for letter in ['\u{1b}', '\n', '\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}', '\u{e0041}']
        {
            assert!(is_unseen(letter), "{letter:?}");
        }
    }
}
