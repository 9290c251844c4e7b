//! Masking of comments and literals in Rust source, so that rules about words see only code.

use std::ops::Range;

/// Returns `text` with every byte of a comment, string or character literal replaced by a space.
/// Line breaks stay, so lines and columns still match.
pub(crate) fn mask(text: &str) -> String {
    let mut out = text.as_bytes().to_vec();
    for span in spans(text) {
        for byte in &mut out[span] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
    }
    String::from_utf8(out).expect("whole literals were blanked")
}

/// Returns the ranges of the comments and of the string and character literals in `text`.
pub(crate) fn spans(text: &str) -> Vec<Range<usize>> {
    let bytes = text.as_bytes();
    let (mut spans, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        match literal_end(bytes, at) {
            Some(end) => {
                spans.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    spans
}

/// Returns the end of the comment or literal that begins at `at`, if there is one.
fn literal_end(bytes: &[u8], at: usize) -> Option<usize> {
    let rest = &bytes[at..];
    let in_word = at > 0 && is_word(bytes[at - 1]);
    match rest[0] {
        b'/' if rest.starts_with(b"//") => {
            Some(at + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()))
        }
        b'/' if rest.starts_with(b"/*") => Some(at + block_comment(rest)),
        b'"' => Some(at + quoted(rest, b'"')),
        b'r' if !in_word || at > 0 && bytes[at - 1] == b'b' => raw(rest).map(|len| at + len),
        b'\'' => char_literal(rest).map(|len| at + len),
        _ => None,
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Returns the length of a block comment, which can contain others.
fn block_comment(text: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            (at, depth) = (at + 2, depth + 1);
        } else if text[at..].starts_with(b"*/") {
            (at, depth) = (at + 2, depth - 1);
        } else {
            at += 1;
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Returns the length of a literal with escapes that begins and ends with `quote`.
fn quoted(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() && text[at] != quote {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

/// Returns the length of the raw string that begins here, if there is one.
fn raw(text: &[u8]) -> Option<usize> {
    let hashes = text[1..].iter().take_while(|&&byte| byte == b'#').count();
    if text.get(1 + hashes) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let body = 2 + hashes;
    let found = text[body..].windows(close.len()).position(|window| window == close);
    Some(found.map_or(text.len(), |from| body + from + close.len()))
}

/// Returns the length of a character literal, or `None` for a lifetime.
fn char_literal(text: &[u8]) -> Option<usize> {
    if text.get(1) == Some(&b'\\') {
        return Some(quoted(text, b'\''));
    }
    let close = text.iter().skip(2).take(4).position(|&byte| byte == b'\'')? + 2;
    let inner = std::str::from_utf8(&text[1..close]).ok()?;
    (inner.chars().count() == 1).then_some(close + 1)
}
