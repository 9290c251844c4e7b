//! Variants of layers that are close to the best with their defaults, and of layers that can't run
//! with their defaults on this drive.

use hostftl_sim::{Hole, LayerSpec, Outcome, Row, Why};

/// Variants are tried if a layer programs at most this factor more than the best.
const NEAR: f64 = 1.4;

/// Variants of each layer.
const VARIANTS: [(&str, &[&str]); 5] = [
    ("hard", &["superpage=128k"]),
    ("mhatl", &["leaves=8192", "gather=vsp"]),
    ("shatl", &["hidden=8m", "hidden=32m", "mode=ressd"]),
    ("hatl-auto", &["budget=1m", "budget=16m"]),
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

/// Returns the variants to run after `outcome`, which was obtained with defaults.
pub(super) fn after(outcome: &Outcome) -> Vec<LayerSpec> {
    let waf = |row: &Row| row.waf_total.unwrap_or(1.0);
    let best = outcome.rows.iter().map(waf).fold(f64::INFINITY, f64::min);
    let near = outcome.rows.iter().filter(|row| waf(row) <= NEAR * best).map(|row| &row.layer);
    // Another segment size or another spare may be possible where the default is not.
    let unfit = outcome.holes.iter().filter(|hole| can_not_be(hole)).map(|hole| &hole.layer);
    near.chain(unfit).flat_map(|layer| of(layer)).collect()
}

/// Returns whether a combination has no row because it is impossible, as opposed to a failure.
pub(super) fn can_not_be(hole: &Hole) -> bool {
    matches!(hole.why, Why::Failed(_)) && !hole.is_violation() && !hole.is_of_machine()
}

/// Returns the variants of a layer with its defaults.
fn of(layer: &str) -> Vec<LayerSpec> {
    let found = VARIANTS.iter().find(|(name, _)| *name == layer);
    let all = found.map_or(&[][..], |(_, variants)| *variants).iter();
    let parsed = all.map(|variant| LayerSpec::parse(&format!("{layer}:{variant}")));
    parsed.map(|choice| choice.expect("the table lists existing parameters")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_a_layer() {
        for (layer, variants) in VARIANTS {
            for variant in variants {
                assert!(LayerSpec::parse(&format!("{layer}:{variant}")).is_ok(), "{variant}");
            }
        }
    }
}
