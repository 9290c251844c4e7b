//! Figures of the shadow: write amplification of the volume without a layer, and with others.

use serde::{Deserialize, Serialize};

/// Figures of the shadow of a served volume. Those of layers that do not serve it are modelled.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct ShadowStatus {
    /// Drive model on which all figures depend.
    pub drive: String,
    /// Start of the period of the figures, in ms since 1970.
    pub since_unix_ms: u64,
    /// Share of the volume that is sampled.
    pub sampled: f64,
    /// Bytes written by clients in the period.
    pub host_bytes: u64,
    /// Bytes of them that the models processed.
    pub sampled_bytes: u64,
    /// Layer that serves the volume: bytes that it wrote to its devices, as measured, times the
    /// modelled write amplification of the drive.
    pub served_waf: Option<f64>,
    /// Layers; no layer is the first, and the layer that serves the volume is among them.
    pub candidates: Vec<ShadowCandidate>,
    /// Reasons not to trust the figures; empty if there are none.
    pub doubts: Vec<String>,
    /// The figures as a sentence.
    pub summary: String,
}

/// Modelled figures of one layer; absent before the first write, or if the layer can't run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs, reason = "the fields are the words of the documentation")]
pub struct ShadowCandidate {
    pub layer: String,
    /// Whether it serves the volume.
    pub served: bool,
    /// Bytes written to flash per byte of the clients.
    pub waf: Option<f64>,
    /// Half of the 95 % interval of `waf`.
    pub error: Option<f64>,
    /// `waf` relative to no layer.
    pub relative: Option<f64>,
    /// Half of the 95 % interval of `relative`.
    pub relative_error: Option<f64>,
    /// Reason why the layer can't run on the drive.
    pub failed: Option<String>,
}

impl ShadowCandidate {
    /// Returns the write amplification with its interval.
    pub fn text(&self) -> Option<String> {
        let waf = self.waf?;
        Some(match self.error {
            Some(error) => format!("{waf:.2} (±{error:.2})"),
            None => format!("{waf:.2}"),
        })
    }
}

impl ShadowStatus {
    /// Returns the sentence for `since`, the start of the period.
    pub fn sentence(&self, since: &str) -> String {
        if let Some(doubt) = self.doubts.first() {
            return format!("no figures yet: {doubt}");
        }
        let failed = || self.candidates.iter().find(|it| it.served)?.failed.as_ref();
        let served = match (self.served_waf, failed()) {
            (Some(served), _) => format!("your drive wrote {served:.2} bytes a byte"),
            (None, Some(why)) => format!("your layer could not be modelled ({why})"),
            (None, None) => return "no writes yet".to_owned(),
        };
        let others = self.candidates.iter().filter(|it| !it.served);
        let others = others.filter_map(|it| {
            let waf = it.text()?;
            Some(match it.layer.as_str() {
                "passthrough" => format!("without a layer it would have been {waf}"),
                layer => format!("with {layer} {waf}"),
            })
        });
        let others: Vec<String> = others.collect();
        let rest =
            if others.is_empty() { String::new() } else { format!("; {}", others.join(", ")) };
        format!("since {since} {served}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_has_all_layers_or_the_doubt() {
        let candidate = |layer: &str, waf, error| ShadowCandidate {
            layer: layer.into(),
            waf,
            error,
            ..ShadowCandidate::default()
        };
        let served = ShadowCandidate { served: true, ..candidate("log", Some(2.0), None) };
        let mut status = ShadowStatus {
            served_waf: Some(2.1),
            candidates: vec![
                candidate("passthrough", Some(3.4), Some(0.2)),
                served,
                candidate("log:spare=20", Some(1.7), None),
                candidate("hard", None, None),
            ],
            ..ShadowStatus::default()
        };
        assert_eq!(
            status.sentence("2026-11-30"),
            "since 2026-11-30 your drive wrote 2.10 bytes a byte; without a layer it would have \
             been 3.40 (±0.20), with log:spare=20 1.70"
        );
        let why = Some("the slice is too small".into());
        status.served_waf = None;
        status.candidates[1] = ShadowCandidate { failed: why, ..status.candidates[1].clone() };
        assert_eq!(
            status.sentence("2026-11-30"),
            "since 2026-11-30 your layer could not be modelled (the slice is too small); without a \
             layer it would have been 3.40 (±0.20), with log:spare=20 1.70"
        );
        status.doubts = vec!["too few writes".into()];
        assert_eq!(status.sentence("2026-11-30"), "no figures yet: too few writes");
    }
}
