//! The kernel's letters for an operation, such as `WS`, `FWFSM` or `ZA`.

use crate::record::Op;

/// An operation of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rwbs {
    /// Whether the device flushes its cache first.
    pub flushes: bool,
    /// Action that follows.
    pub action: Action,
}

/// Effect of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// An operation with a counterpart.
    Op(Op),
    /// No action besides the flush, if there was one.
    Nothing,
    /// An operation without a counterpart: its name in the plural.
    Other(&'static str),
}

impl Rwbs {
    /// Parses the letters in `word`. Returns `None` if they are not an operation.
    ///
    /// A leading F is a flush before the request, or the whole request. Letters such as F, A, S and
    /// M after the operation are flags.
    pub(super) fn parse(word: &[u8]) -> Option<Self> {
        if word.is_empty() || !word.iter().all(u8::is_ascii_uppercase) {
            return None;
        }
        let (flushes, rest) = match word {
            [b'F', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let action = match rest {
            [b'R', ..] => Action::Op(Op::Read),
            [b'W', b'Z', ..] => Action::Other("write-zeroes commands"),
            [b'W', ..] | [b'Z', b'A', ..] => Action::Op(Op::Write),
            [b'D', ..] => Action::Op(Op::Discard),
            [b'Z', b'R', ..] => Action::Other("zone resets"),
            [b'Z', b'F' | b'O' | b'C', ..] => Action::Other("zone open, close and finish commands"),
            [] | [b'F' | b'N' | b'S' | b'M' | b'A', ..] if flushes => Action::Nothing,
            [b'N', ..] => Action::Other("commands other than read, write, flush and discard"),
            // Linux before 4.10 wrote a secure discard as E.
            [b'E', ..] => Action::Op(Op::Discard),
            _ => return None,
        };
        Some(Rwbs { flushes, action })
    }
}

#[cfg(test)]
mod tests {
    use super::{Action, Rwbs};
    use crate::record::Op;

    #[test]
    fn words_of_the_kernel() {
        let is = |word: &str| Rwbs::parse(word.as_bytes()).map(|it| (it.flushes, it.action));
        for (word, op) in [("R", Op::Read), ("RA", Op::Read), ("RSM", Op::Read)] {
            assert_eq!(is(word), Some((false, Action::Op(op))));
        }
        for word in ["W", "WS", "WFSM", "ZA", "ZAS"] {
            assert_eq!(is(word), Some((false, Action::Op(Op::Write))), "{word}");
        }
        assert_eq!(is("FWFSM"), Some((true, Action::Op(Op::Write))));
        for word in ["D", "DS", "DE"] {
            assert_eq!(is(word), Some((false, Action::Op(Op::Discard))), "{word}");
        }
        for word in ["F", "FF", "FN", "FS"] {
            assert_eq!(is(word), Some((true, Action::Nothing)), "{word}");
        }
        for word in ["ZR", "ZRA", "ZF", "ZO", "ZC", "N", "WZ"] {
            assert!(matches!(is(word), Some((false, Action::Other(_)))), "{word}");
        }
        for word in ["", "r", "X", "Z", "ZX", "8", "-"] {
            assert_eq!(is(word), None, "{word}");
        }
    }
}
