//! The effect of placement ids: the wear of the drive alone and of layers, on the drive and on the
//! same drive without placement ids.

use hostftl_layers::LayerKind;
use hostftl_sim::{LayerSpec, Offer, Row, Stack, Study};
use serde::Serialize;

use super::rounds::check;
use super::{Answer, Check};
use crate::question::stack;
use crate::wrong::Wrong;

/// Wear with and without placement ids, in bytes programmed per byte written by the host. A layer
/// that translates does not use the ids of the workload, but `log` has ids of its own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Placement {
    /// No layer, and the drive ignores placement ids.
    pub neither: f64,
    /// No layer, and the drive uses the placement ids of the workload.
    pub placement: f64,
    /// Best layer on a drive that ignores placement ids; `None` if no layer was examined in full.
    pub layer: Option<Check>,
    /// Best layer on the drive with placement ids.
    pub both: Option<Check>,
}

/// Returns whether the workload has placement ids.
pub(super) fn has_ids(study: &Study) -> Result<bool, Wrong> {
    let stream = study.workloads[0].source.open(study.seed, false)?;
    Ok(stream.extras().placement)
}

/// Returns the study of none, of the layers that were examined in full, and of the default `log`,
/// on the drive of `study` without placement ids; `None` if the workload or the drive has none.
pub(super) fn without_ids(
    study: &Study,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Option<Study>, Wrong> {
    let has_handles = study.drives[0].infos()[0].placements > 1;
    if !has_handles || !has_ids(study)? {
        return Ok(None);
    }
    let is_asked = |layer: &&LayerSpec| {
        let is_plain = [LayerKind::Passthrough, LayerKind::Log].map(LayerKind::name);
        is_plain.contains(&layer.name.as_str()) || is_wanted(&layer.name)
    };
    let layers = study.layers.iter().filter(is_asked).cloned().collect();
    Ok(Some(Study { drives: vec![ignoring(&study.drives[0])?], layers, ..study.clone() }))
}

/// Returns the same slice of a drive that ignores placement ids.
fn ignoring(drive: &Stack) -> Result<Stack, Wrong> {
    let name = |text: &str| format!("{text}:placements=1");
    let mut whole = drive.whole.clone();
    for (key, value) in whole.iter_mut().flat_map(|it| &mut it.options) {
        if *key == "drive" {
            *value = name(value);
        }
    }
    Ok(Stack { whole, ..stack(&name(&drive.name))? })
}

impl Placement {
    /// Compares the rows of [`without_ids`] with the offers of the drive with placement ids.
    /// Returns `None` if a drive alone has no figure. `is_final` selects offers examined in full.
    pub(super) fn of(
        rows: &[Row],
        seed: u64,
        (offers, state): (&[Offer], &str),
        is_final: impl Fn(&Offer) -> bool,
    ) -> Option<Self> {
        let all: Vec<Check> = rows.iter().map(|row| check(row, seed)).collect();
        let (none, layers): (Vec<Check>, Vec<Check>) =
            all.into_iter().partition(|it| it.layer == LayerKind::Passthrough.name());
        let (with_none, with): (Vec<&Offer>, Vec<&Offer>) =
            offers.iter().filter(|it| is_final(it)).partition(|it| it.is_none);
        let both = with.into_iter().min_by(|one, other| one.waf.total_cmp(&other.waf));
        let both = both.map(|it| Check {
            layer: it.layer.clone(),
            state: state.to_owned(),
            seed,
            waf: it.waf,
        });
        Some(Placement {
            neither: none.first()?.waf,
            placement: with_none.first()?.waf,
            layer: layers.into_iter().min_by(|one, other| one.waf.total_cmp(&other.waf)),
            both,
        })
    }
}

impl Answer {
    /// Returns a sentence about the effect of placement ids, if it was examined.
    pub fn placement_text(&self) -> Option<String> {
        let it = self.placement.as_ref()?;
        let (neither, placement) = (it.neither, it.placement);
        let layer = |check: &Option<Check>| match check {
            Some(check) => format!("{:.2} ({})", check.waf, check.layer),
            None => "not examined".to_owned(),
        };
        Some(format!(
            "Placement ids: bytes programmed per host byte: neither ids nor a layer {neither:.2}; \
             placement alone {placement:.2}; a layer alone {}; both {}.",
            layer(&it.layer),
            layer(&it.both)
        ))
    }
}
