//! MQSim's files: an error with its line, or a possible drive and valid flows.

use anyhow::ensure;
use hostftl_mqsim::{Flow, Kind};

/// Returns drives in XML.
pub(super) fn drives() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../../crates/study/mqsim/tests/drive.xml").to_vec()]
}

/// Returns workloads in XML.
pub(super) fn workloads() -> Vec<Vec<u8>> {
    vec![include_bytes!("../../../crates/study/mqsim/tests/work.xml").to_vec()]
}

/// Parses the input as workloads, with invalid UTF-8 replaced.
pub(super) fn check_workloads(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let text = String::from_utf8_lossy(input);
    match hostftl_mqsim::scenarios(&text) {
        Ok(scenarios) => {
            ensure!(!scenarios.is_empty() && scenarios.iter().all(|flows| !flows.is_empty()));
            scenarios.iter().flatten().try_for_each(sound)
        }
        Err(fault) => {
            let lines = text.lines().count().max(1) + 1;
            ensure!((1..=lines).contains(&fault.line), "line {}: {}", fault.line, fault.why);
            ensure!(!fault.why.contains('\n'), "more than one line: {}", fault.why);
            Ok(())
        }
    }
}

fn sound(flow: &Flow) -> anyhow::Result<()> {
    match &flow.kind {
        Kind::Made(made) => {
            ensure!(made.sectors > 0 && made.read <= 100, "{flow:?}");
            ensure!((1..=100).contains(&made.working_set), "{flow:?}");
        }
        Kind::Played(played) => ensure!(played.rounds > 0 && !played.path.is_empty(), "{flow:?}"),
    }
    ensure!(flow.left.iter().all(|text| !text.contains('\n')), "{:?}", flow.left);
    Ok(())
}
