//! Letters that a terminal does not show as they are.

/// Whether a letter commands a terminal, has no width, or turns the direction of what follows: text
/// from a foreign disk or client must have none, or have it escaped.
pub fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}')
        || matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(letter, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_any_language_is_seen_and_what_turns_it_is_not() {
        assert!(!"Größe 容量 حجم נפח 🙂 a-b".chars().any(is_unseen));
        for letter in ['\u{1b}', '\n', '\u{202e}', '\u{200b}', '\u{2066}', '\u{feff}', '\u{e0041}']
        {
            assert!(is_unseen(letter), "{letter:?}");
        }
    }
}
