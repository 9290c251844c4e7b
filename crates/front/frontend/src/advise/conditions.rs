//! The wear of layers side by side under the conditions that an advice examined.

use hostftl_layers::LayerKind;

use super::{Answer, Check, Placement};

/// Wear of layers under one condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// Name: the state of the drive, or the difference from the requested conditions.
    pub name: String,
    wafs: Vec<(String, f64)>,
}

impl Condition {
    fn of<'a>(name: &str, checks: impl Iterator<Item = &'a Check>) -> Self {
        let wafs = checks.map(|check| (check.layer.clone(), check.waf)).collect();
        Condition { name: name.to_owned(), wafs }
    }

    /// Returns the bytes that a layer programs per host byte; `None` if it was not examined.
    pub fn waf(&self, layer: &str) -> Option<f64> {
        self.wafs.iter().find(|(name, _)| name == layer).map(|(_, waf)| *waf)
    }
}

impl Answer {
    /// Returns all conditions: first the requested one, then other states of the drive, a smaller
    /// export and compressible data.
    pub fn conditions(&self) -> Vec<Condition> {
        let offers = self.offers.iter().filter_map(|told| told.offer.as_ref());
        let wafs = offers.map(|offer| (offer.layer.clone(), offer.waf)).collect();
        let mut all = vec![Condition { name: self.state.clone(), wafs }];
        for check in self.checks.iter().filter(|check| check.state != self.state) {
            if !all.iter().any(|it| it.name == check.state) {
                let same = self.checks.iter().filter(|it| it.state == check.state);
                all.push(Condition::of(&check.state, same));
            }
        }
        if let Some(roomier) = &self.roomier {
            all.push(Condition::of("3/4 of the export", roomier.checks.iter()));
        }
        if let Some(Placement { neither, layer, .. }) = &self.placement {
            let none = (LayerKind::Passthrough.name().to_owned(), *neither);
            let layer = layer.iter().map(|check| (check.layer.clone(), check.waf));
            let wafs = [none].into_iter().chain(layer).collect();
            all.push(Condition { name: "no placement ids".to_owned(), wafs });
        }
        if let Some(check) = &self.compressed {
            let mut condition = Condition::of("data 2:1", [check].into_iter());
            // Without a layer the data stays as it is.
            let none = all[0].waf("passthrough").map(|waf| ("passthrough".to_owned(), waf));
            condition.wafs.extend(none);
            all.push(condition);
        }
        all
    }
}
