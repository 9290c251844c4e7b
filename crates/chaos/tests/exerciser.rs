//! The exerciser passes in the world that breaks things: every command, over one to four devices.
//! And seeds that found what few others do.

use hostftl_chaos::run_seed;
use hostftl_layers::LayerKind;

#[test]
fn every_command_holds_under_power_cuts_and_any_order_of_completion() {
    let mut spare = None;
    let mut cuts = 0;
    for seed in 0..40 {
        let report = run_seed(seed, LayerKind::Exerciser, false, &mut spare);
        cuts += report.unwrap_or_else(|violation| panic!("{violation:?}")).cuts;
    }
    assert!(cuts > 100, "only {cuts} power cuts");
}

/// The program of a row was over before the row counted as being written, and nobody noticed.
#[test]
fn log_notices_a_program_that_is_over_at_once() {
    let mut spare = None;
    let report = run_seed(2762, LayerKind::Log, false, &mut spare);
    report.unwrap_or_else(|violation| panic!("{violation:?}"));
}
