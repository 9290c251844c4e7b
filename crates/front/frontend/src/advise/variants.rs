//! Variants of layers that are close to the best with their defaults, and of layers that can't run
//! with their defaults on this drive.

use std::ops::RangeInclusive;

use hostftl_layers::size_text;
use hostftl_sim::{Hole, LayerSpec, Outcome, Row, Why};

/// Variants are tried if a layer programs at most this factor more than the best.
const NEAR: f64 = 1.4;

/// Variants of each layer whose parameters do not depend on the drive.
const VARIANTS: [(&str, &[&str]); 3] = [
    ("hard", &["superpage=128k"]),
    ("mhatl", &["gather=vsp"]),
    (
        "log",
        &[
            "superpage=128k",
            "superpage=256k",
            "superpage=512k",
            "separation=rate",
            "separation=none",
            "gc=greedy",
            "spare=auto",
        ],
    ),
];

/// A variant of a layer with a parameter in proportion to the capacity of the drive.
struct Sized {
    layer: &'static str,
    /// Text of the variant before the number.
    text: &'static str,
    /// Bytes of the drive for each unit of the number.
    bytes: u64,
    limits: RangeInclusive<u64>,
    /// Formats the number.
    format: fn(u64) -> String,
}

/// Limits of a hidden area in bytes.
const HIDDEN: RangeInclusive<u64> = 4 << 20..=512 << 30;
/// Limits of a memory budget in bytes.
const BUDGET: RangeInclusive<u64> = 64 << 10..=1 << 40;

const SIZED: [Sized; 5] = [
    // A map with as many leaves as the published one has on a drive of 32 GiB.
    Sized {
        layer: "mhatl",
        text: "leaves=",
        bytes: 512 << 10,
        limits: 1..=64 << 20,
        format: |count| count.to_string(),
    },
    Sized { layer: "shatl", text: "hidden=", bytes: 64, limits: HIDDEN, format: size_text },
    Sized {
        layer: "shatl",
        text: "mode=ressd:hidden=",
        bytes: 64,
        limits: HIDDEN,
        format: size_text,
    },
    Sized {
        layer: "hatl-auto",
        text: "budget=",
        bytes: 32 << 10,
        limits: BUDGET,
        format: size_text,
    },
    Sized {
        layer: "hatl-auto",
        text: "budget=",
        bytes: 2 << 10,
        limits: BUDGET,
        format: size_text,
    },
];

/// Returns the variants to run after `outcome`, which was obtained with defaults, on a drive of
/// `bytes`.
pub(super) fn after(outcome: &Outcome, bytes: u64) -> Vec<LayerSpec> {
    let waf = |row: &Row| row.waf_total.unwrap_or(1.0);
    let best = outcome.rows.iter().map(waf).fold(f64::INFINITY, f64::min);
    let near = outcome.rows.iter().filter(|row| waf(row) <= NEAR * best).map(|row| &row.layer);
    // Another segment size or another spare may be possible where the default is not.
    let unfit = outcome.holes.iter().filter(|hole| can_not_be(hole)).map(|hole| &hole.layer);
    near.chain(unfit).flat_map(|layer| of(layer, bytes)).collect()
}

/// Returns whether a combination has no row because it is impossible, as opposed to a failure.
pub(super) fn can_not_be(hole: &Hole) -> bool {
    matches!(hole.why, Why::Failed(_)) && !hole.is_violation() && !hole.is_of_machine()
}

/// Returns the variants of a layer with its defaults on a drive of `bytes`. Numbers in proportion
/// to it are powers of two.
fn of(layer: &str, bytes: u64) -> Vec<LayerSpec> {
    let fixed = VARIANTS.iter().filter(|(name, _)| *name == layer).flat_map(|(_, all)| *all);
    let sized = SIZED.iter().filter(|it| it.layer == layer).map(|it| {
        let number = 1 << (bytes / it.bytes).max(1).ilog2();
        format!("{}{}", it.text, (it.format)(number.clamp(*it.limits.start(), *it.limits.end())))
    });
    let all = fixed.map(|variant| (*variant).to_owned()).chain(sized);
    let parsed = all.map(|variant| LayerSpec::parse(&format!("{layer}:{variant}")));
    parsed.map(|choice| choice.expect("the tables list existing parameters")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_a_layer() {
        for bytes in [1 << 20, 1 << 35, 1 << 48] {
            let all = ["hard", "mhatl", "shatl", "hatl-auto", "log"].map(|it| of(it, bytes).len());
            assert_eq!(all, [1, 2, 2, 2, 7]);
        }
    }
}
