//! Rust source as words and signs with their lines. Comments and literals have been blanked.

/// A word, number or sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    /// Text. A sign has one character, except `::`, `->` and `=>`.
    pub text: &'a str,
    /// Line, counted from 0.
    pub line: usize,
}

/// Returns the tokens of `code`, which [`crate::tidy::mask::mask`] has blanked.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut all = Vec::new();
    for (line, text) in code.lines().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            let pair = ["::", "->", "=>"].iter().any(|pair| rest.starts_with(pair));
            let length = match (word, pair) {
                (0, true) => 2,
                (0, false) => first.len_utf8(),
                (length, _) => length,
            };
            all.push(Token { text: &rest[..length], line });
            rest = rest[length..].trim_start();
        }
    }
    all
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns whether a token is a word that can be part of a path.
pub(super) fn is_name(text: &str) -> bool {
    text.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
}

/// Returns the position of the closing sign of the group at `from`, which is `{`, `(` or `[`.
pub(super) fn group_end(tokens: &[Token<'_>], from: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index;
        }
    }
    tokens.len() - 1
}

/// Returns the position after the generics that open with `<` at `from`, or `from` if there are
/// none.
pub(super) fn behind_generics(tokens: &[Token<'_>], from: usize) -> usize {
    if tokens.get(from).map(|token| token.text) != Some("<") {
        return from;
    }
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            "<" => depth += 1,
            ">" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}
