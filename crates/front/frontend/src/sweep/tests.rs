//! A sweep that is interrupted, resumed, sharded and joined yields the same bytes as an
//! uninterrupted one.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;

/// Two layers that can run, and one that does not support block devices.
const PLAN: &str = "traces = \"synth:uniform:size=4k,span=16m,count=2000,compress={0%,50%}\"\n\
                    drives = \"hatl-1g:capacity=64m\"\nlayers = [\"none\", \"hard\", \"pblk\"]\n\
                    warm = [\"new\", \"fill=50%\"]\nclosed-loop = [1, 8]\nseeds = 2\n";

/// A folder that is deleted at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("hostftl-sweep-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = fs::read_dir(&self.0).expect("it is there").map(|it| it.expect("an entry"));
        let name = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
        entries.map(|it| (name(&it), fs::read(it.path()).expect("a file"))).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Cancels after a number of checks.
struct Impatient(AtomicUsize);

impl Watch for Impatient {
    fn progress(&self, _row: usize, _done: u64, _total: u64) {}

    fn cancelled(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        self.0.store(left.saturating_sub(1), Ordering::Relaxed);
        left == 0
    }
}

fn open(folder: &Folder, threads: u16) -> Opened {
    let plan = SweepPlan::parse(PLAN, "plan").expect("a plan");
    let means = Means { threads: Some(threads), ..Means::default() };
    let sweeping = Sweeping::open(plan, &means, &hostftl_sim::Unobserved).expect("it opens");
    let cells = Cells::open(&folder.0).expect("a folder");
    Opened { sweeping, cells }
}

/// A sweep and its folder.
struct Opened {
    sweeping: Sweeping,
    cells: Cells,
}

impl Opened {
    fn make(&self, wanted: &[usize], watch: &dyn Watch) -> Done {
        self.sweeping.make(wanted, watch, &|name, bytes| self.cells.keep(name, &bytes))
    }

    /// Runs all cells.
    fn all(&self) -> Done {
        self.make(&self.sweeping.of(Shard::default()), &hostftl_sim::Unobserved)
    }

    fn missing(&self, shard: &str) -> Vec<usize> {
        self.sweeping.missing(shard.parse().expect("a shard"), &self.cells)
    }

    fn collect(&self) -> Result<(Sheet, Vec<Summary>), Wrong> {
        self.sweeping.collect(&self.cells)
    }
}

fn bytes(sweeping: &Opened) -> (Vec<u8>, Vec<Summary>) {
    let (sheet, summaries) = sweeping.collect().expect("all cells are there");
    (sheet.parquet("test").expect("it fits together"), summaries)
}

#[test]
fn interrupted_sharded_and_joined_is_the_same_to_the_byte() {
    let (whole, parts) = (Folder::new("whole"), Folder::new("parts"));
    let sweeping = open(&whole, 2);
    let done = sweeping.all();
    assert_eq!((done.cells, done.made, done.failed), (48, 48, 16));
    assert_eq!((done.not_here.len(), done.violation, done.unkept), (0, None, None));
    let (joined, summaries) = bytes(&sweeping);

    // Four shards, the first of which is interrupted repeatedly.
    let sharded = open(&parts, 1);
    let mut interruptions = 0;
    while !sharded.missing("1/4").is_empty() {
        sharded.make(&sharded.missing("1/4"), &Impatient(AtomicUsize::new(4)));
        interruptions += 1;
        assert!(interruptions < 100, "it comes to an end");
    }
    assert!(interruptions >= 3, "{interruptions}");
    let why = sharded.collect().expect_err("three shards are missing").text;
    assert!(
        why.starts_with("36 of 48 cells are missing, the first is passthrough on hatl-1g"),
        "{why}"
    );
    for shard in ["2/4", "3/4", "4/4"] {
        sharded.make(&sharded.missing(shard), &hostftl_sim::Unobserved);
    }
    assert_eq!(parts.files(), whole.files());
    assert_eq!(bytes(&sharded).0, joined);
    assert_eq!(summaries.len(), 24);
    let hard = summaries.iter().find(|it| it.layer == "hard").expect("a layer");
    assert!(hard.busy_ratio.is_some_and(|it| it.seeds == 2 && it.half_interval.is_some()));
    let pblk = summaries.iter().find(|it| it.layer == "pblk").expect("a layer");
    assert!(pblk.rows == 0 && pblk.failed.as_ref().is_some_and(|why| why.contains("pblk")));
}

#[test]
fn joined_rows_are_relative_to_rows_without_a_layer() {
    let folder = Folder::new("related");
    let sweeping = open(&folder, 2);
    sweeping.all();
    let (sheet, _) = sweeping.collect().expect("all cells are there");
    let row = |wanted: &[(&str, &str)]| {
        let text = |name: &str| match sheet.get(name) {
            Some(hostftl_report::Values::Texts(values)) => values.clone(),
            other => panic!("{name}: {other:?}"),
        };
        let texts: Vec<_> = wanted.iter().map(|(name, word)| (text(name), *word)).collect();
        (0..sheet.rows()).find(|row| texts.iter().all(|(texts, word)| texts[*row] == *word))
    };
    let hard = [("layer", "hard"), ("warm", "new"), ("study_closed_loop", "8")];
    let hard = row(&[hard[0], hard[1], hard[2], ("workload_compress", "50%")]).expect("a row");
    let study = crate::Question {
        workloads: vec!["synth:uniform:size=4k,span=16m,count=2000,compress=50%".into()],
        drives: vec!["hatl-1g:capacity=64m".into()],
        warm: vec![hostftl_sim::Warm::NEW],
        closed_loop: Some(8),
        ..crate::Question::default()
    };
    let study = study.study(&|| false).expect("it makes sense");
    let rows = hostftl_sim::compare(&study, &hostftl_sim::Unobserved).expect("a study").rows;
    let Some(hostftl_report::Values::Reals(ratios)) = sheet.get("busy_ratio") else {
        panic!("a column")
    };
    assert_eq!((rows[1].layer.as_str(), ratios[hard]), ("hard", rows[1].busy_ratio));
}

#[test]
fn a_damaged_cell_is_named() {
    let folder = Folder::new("damaged");
    let sweeping = open(&folder, 2);
    sweeping.all();
    let name = sweeping.sweeping.names()[5].clone();
    fs::write(folder.0.join(&name), b"PAR1").expect("a file");
    let why = sweeping.collect().expect_err("it is damaged").text;
    assert!(why.contains(&name) && why.contains("remove the file"), "{why}");
}

#[test]
fn shards_partition_the_runs() {
    assert_eq!("3/16".parse::<Shard>().map(|it| it.to_string()), Ok("3/16".into()));
    assert!(["", "0/4", "5/4", "1", "a/b", "1/0"].iter().all(|it| it.parse::<Shard>().is_err()));
}
