//! Rate limits of exports, as given on the command line.

use hostftl_serve::Limits;

use crate::failure::Failure;
use crate::units;

/// A limit per second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    /// Name of the export; `None` for all that have no limit of their own.
    export: Option<String>,
    value: u64,
}

/// Parses `[EXPORT=]NUMBER`, in requests per second.
pub(super) fn requests(text: &str) -> Result<Limit, String> {
    let number = |text: &str| {
        text.parse().map_err(|_| format!("cannot read {text:?} as requests per second"))
    };
    limit(text, number)
}

/// Parses `[EXPORT=]SIZE`, in bytes per second.
pub(super) fn bytes(text: &str) -> Result<Limit, String> {
    limit(text, units::parse_size)
}

fn limit(text: &str, value: impl Fn(&str) -> Result<u64, String>) -> Result<Limit, String> {
    let (export, text) = match text.rsplit_once('=') {
        Some((export, text)) => (Some(export.to_owned()), text),
        None => (None, text),
    };
    match value(text)? {
        0 => Err("the limit must be larger than 0".into()),
        value => Ok(Limit { export, value }),
    }
}

/// Returns the limits of the export `name`: its own, or else those of all exports. The last one on
/// the command line applies.
pub(super) fn of(name: &str, requests: &[Limit], bytes: &[Limit]) -> Limits {
    let find = |limits: &[Limit]| {
        let own = limits.iter().rev().find(|limit| limit.export.as_deref() == Some(name));
        let each = || limits.iter().rev().find(|limit| limit.export.is_none());
        own.or_else(each).map(|limit| limit.value)
    };
    Limits { requests: find(requests), bytes: find(bytes) }
}

/// Checks that each limit is for one of `names` or for all.
pub(super) fn check(limits: &[Limit], names: &[String]) -> Result<(), Failure> {
    let unknown = |limit: &&Limit| limit.export.as_ref().is_some_and(|it| !names.contains(it));
    match limits.iter().find(unknown).and_then(|limit| limit.export.as_ref()) {
        None => Ok(()),
        Some(name) => {
            let names = names.join(", ");
            Err(Failure::usage(format!("cannot limit {name:?}: the exports are {names}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_has_its_own_or_the_default_limit() {
        let counts = ["500", "a=20", "a=30"].map(|text| requests(text).unwrap());
        let sizes = [bytes("b=4M").unwrap()];
        let limits = |requests, bytes| Limits { requests, bytes };
        assert_eq!(of("a", &counts, &sizes), limits(Some(30), None));
        assert_eq!(of("b", &counts, &sizes), limits(Some(500), Some(4 << 20)));
        assert_eq!(of("c", &[], &sizes), Limits::default());
        let names = ["a".to_owned(), "c".to_owned()];
        assert!(check(&counts, &names).is_ok());
        assert!(check(&sizes, &names).unwrap_err().text.contains("\"b\""));
    }

    #[test]
    fn zero_limits_are_refused() {
        for text in ["0", "a=0", "", "a=", "-1", "1.5"] {
            assert!(requests(text).is_err(), "{text:?}");
        }
        assert!(bytes("x=0").is_err() && bytes("many").is_err());
    }
}
