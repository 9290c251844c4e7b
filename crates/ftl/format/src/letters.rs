//! Letters that a terminal does not show as they are.

use core::fmt;

/// Whether a letter commands a terminal, has no width, or turns the direction of what follows: text
/// from a foreign disk or client must have none, or have it escaped.
pub fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(letter, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Text as one line that changes nothing on a terminal: each letter that is not seen is escaped.
///
/// Text that is printed may come from a server, a client, a device or another process. So
/// everything passes through this, or through [`PlainLines`], on its way out.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a>(pub &'a str);

impl fmt::Display for Plain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        while let Some(at) = rest.find(is_unseen) {
            let (seen, unseen) = rest.split_at(at);
            f.write_str(seen)?;
            let mut letters = unseen.chars();
            let letter = letters.next().expect("it was found");
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

/// The same of text that has several lines of its own, such as a table.
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
    fn text_that_commands_a_terminal_is_escaped_and_other_text_is_not() {
        let evil = "\u{1b}[2J\u{7}\nhostftl: all is well\r\u{9b}31m \u{202e}txt";
        let plain = "\\u{1b}[2J\\u{7}\\nhostftl: all is well\\r\\u{9b}31m \\u{202e}txt";
        assert_eq!(Plain(evil).to_string(), plain);
        assert_eq!(Plain("Größe 容量\\n").to_string(), "Größe 容量\\n");
        assert_eq!(PlainLines("a\u{1b}\nb\n").to_string(), "a\\u{1b}\nb\n");
    }

    #[test]
    fn text_of_any_language_is_seen_and_what_turns_it_is_not() {
        assert!(!"Größe 容量 حجم נפח 🙂 a-b".chars().any(is_unseen));
        for letter in ['\u{1b}', '\n', '\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}', '\u{e0041}']
        {
            assert!(is_unseen(letter), "{letter:?}");
        }
    }
}
