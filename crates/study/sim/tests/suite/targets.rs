//! Targets on one raw drive: garbage collection of one does not affect the other.

use hostftl_sim::{TargetRow, TargetsFile, run_targets};

/// Runs reads on one half of the parallel units, and `neighbour` on the other.
fn study(drive: &str, neighbour: &str) -> Vec<TargetRow> {
    let text = format!(
        "drive = \"{drive}\"
         [[target]]
         pus = \"0-3\"
         layer = \"pblk\"
         requests = 40000
         [[target]]
         pus = \"4-7\"
         layer = \"pblk\"
         {neighbour}"
    );
    let file = TargetsFile::parse(&text).expect("it is right");
    run_targets(&file, 1).unwrap_or_else(|why| panic!("{why}"))
}

const CHANNELS: &str = "open-channel:channels=8:ways=1:capacity=256m:pages=16";
const SHARED: &str = "open-channel:capacity=256m:pages=16";

#[test]
fn collection_in_one_target_does_not_touch_the_latency_of_another() {
    let quiet = study(CHANNELS, "depth = 0");
    let busy = study(CHANNELS, "write_percent = 100\ndepth = 16");
    assert!(busy[1].gc_runs > 10, "the neighbour collects: {:?}", busy[1]);
    assert_eq!((quiet[1].gc_runs, quiet[1].requests), (0, 0));
    assert_eq!(busy[0], quiet[0], "nothing is shared, so nothing differs");
}

#[test]
fn targets_that_share_channels_share_no_more_than_these() {
    let quiet = study(SHARED, "depth = 0");
    let busy = study(SHARED, "write_percent = 100\ndepth = 16");
    assert!(busy[1].gc_runs > 10, "the neighbour collects: {:?}", busy[1]);
    // A strip crosses a bus in 98 us. Each way has at most one program and one read on it.
    let more = busy[0].p999_ns - quiet[0].p999_ns;
    assert!(more < 400_000, "{more} ns more, of {} ns", quiet[0].p999_ns);
    let mixed = format!(
        "drive = \"{SHARED}\"\n[[target]]\npus = \"0-7\"\nlayer = \"pblk\"\n\
         write_percent = 50\ndepth = 20\nrequests = 8000"
    );
    let mixed = run_targets(&TargetsFile::parse(&mixed).unwrap(), 1).unwrap();
    println!("quiet {:?}\nbusy {:?}\nmixed {:?}", quiet[0], busy, mixed[0]);
    assert!(mixed[0].p999_ns > busy[0].p999_ns, "one layer for both is slower for readers");
}

#[test]
fn invalid_targets_are_refused_with_a_reason() {
    let why = |text: &str| {
        let file = TargetsFile::parse(text);
        file.and_then(|file| run_targets(&file, 1)).expect_err("it is refused")
    };
    let two = |one: &str, other: &str| {
        let target = |pus: &str| format!("[[target]]\npus = \"{pus}\"\nlayer = \"pblk\"\n");
        why(&format!("drive = \"{CHANNELS}\"\n{}{}", target(one), target(other)))
    };
    assert!(two("0-3", "3-7").contains("share a parallel unit"));
    assert!(two("0-3", "4-8").contains("existing parallel units"));
    assert!(two("0-3", "all").contains("as in \"0-3\""));
    assert!(
        why("drive = \"mlc-32g:capacity=1g\"\n[[target]]\npus = \"0\"\nlayer = \"pblk\"")
            .contains("zoned device")
    );
    assert!(why("drive = \"x\"\ntarget = []\ncolour = 1").contains("unknown field"));
}
