//! Parameters that are tried of the layers that come near the best with their defaults.

use hostftl_sim::{LayerChoice, Row};

/// A layer is looked at more closely when it programs at most so many times as much as the best.
const NEAR: f64 = 1.6;

/// What is tried of each layer.
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
            "superpage=1m",
            "separation=rate",
            "separation=two",
            "separation=none",
            "gc=greedy",
            "spare=auto",
        ],
    ),
];

/// The variants to ask after `rows`, which were made with defaults.
pub fn after(rows: &[Row]) -> Vec<LayerChoice> {
    let waf = |row: &Row| row.waf_total.unwrap_or(1.0);
    let best = rows.iter().map(waf).fold(f64::INFINITY, f64::min);
    let near = rows.iter().filter(|row| waf(row) <= NEAR * best);
    let of = |row: &Row| -> Vec<LayerChoice> {
        let found = VARIANTS.iter().find(|(layer, _)| *layer == row.layer);
        let all = found.map_or(&[][..], |(_, variants)| *variants).iter();
        let parsed = all.map(|variant| LayerChoice::parse(&format!("{}:{variant}", row.layer)));
        parsed.map(|choice| choice.expect("the table has parameters that there are")).collect()
    };
    near.flat_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_a_layer() {
        for (layer, variants) in VARIANTS {
            for variant in variants {
                assert!(LayerChoice::parse(&format!("{layer}:{variant}")).is_ok(), "{variant}");
            }
        }
    }
}
