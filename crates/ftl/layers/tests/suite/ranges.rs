//! Every parameter value that a registration lists is accepted.

use crate::memory::devices;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind, Parameter};

/// The size of the devices, in GiB.
const SIZE: u64 = 64;

/// Returns whether parameter and plan accept a value.
fn is_taken(kind: LayerKind, parameter: &Parameter, word: &str) -> bool {
    let mut config = LayerConfig::new(kind);
    let (devices, _) = devices(kind, SIZE);
    (parameter.set)(&mut config, word).is_ok() && AnyLayer::plan(&config, &devices).is_ok()
}

/// Returns the values just outside a range from `low` to `high`; sizes are powers of two.
fn outside(low: &str, high: &str) -> [String; 2] {
    let unit = |word: &str| word.trim_start_matches(|it: char| it.is_ascii_digit()).to_owned();
    let number = |word: &str| word.trim_end_matches(['k', 'm', 'g']).parse::<i64>().unwrap();
    if unit(low).is_empty() && unit(high).is_empty() {
        [(number(low) - 1).to_string(), (number(high) + 1).to_string()]
    } else {
        [format!("{}{}", number(low) / 2, unit(low)), format!("{}{}", number(high) * 2, unit(high))]
    }
}

#[test]
fn only_values_within_the_documented_ranges_are_accepted() {
    let (mut ranges, mut words) = (0, 0);
    for &kind in LayerKind::ALL {
        for parameter in kind.registration().parameters {
            let of =
                |word: &str| format!("{kind}: {}={word} of {}", parameter.key, parameter.value);
            assert!(!parameter.value.contains("SIZE"), "{} without a range", of("SIZE"));
            for value in parameter.value.split('|') {
                if let Some((low, high)) = value.split_once("..=") {
                    ranges += 1;
                    for word in [low, high] {
                        assert!(is_taken(kind, parameter, word), "{} is refused", of(word));
                    }
                    for word in outside(low, high) {
                        assert!(!is_taken(kind, parameter, &word), "{} is taken", of(&word));
                    }
                } else if let Some(low) = value.strip_suffix("..") {
                    // The devices determine the upper end.
                    let taken = (parameter.set)(&mut LayerConfig::new(kind), low);
                    assert!(taken.is_ok(), "{} is refused", of(low));
                } else if !value.contains(|it: char| it.is_ascii_uppercase()) {
                    words += 1;
                    let taken = (parameter.set)(&mut LayerConfig::new(kind), value);
                    assert!(taken.is_ok(), "{} is refused", of(value));
                }
            }
            let taken = (parameter.set)(&mut LayerConfig::new(kind), "strange");
            assert!(taken.is_err(), "{} is taken", of("strange"));
        }
    }
    assert!(ranges >= 10 && words >= 20, "{ranges} ranges and {words} words");
}
