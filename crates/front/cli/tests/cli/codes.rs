//! Exit codes: 2 for an invalid value anywhere on the command line, 1 for a fault of files and
//! devices.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::volume::{Server, run};

/// A short workload.
const WORK: &str = "synth:uniform:count=10";

/// Commands with an invalid value or an unknown name.
const WRONG: &[&str] = &[
    "models tlc:capacity=64X",
    "models tlc:colour=3",
    "models nodrive",
    "layers nolayer",
    "compare WORK --drive 17*tlc",
    "compare WORK --drive tlc:gc=foo",
    "compare WORK --drive tlc:capacity=1000001k",
    "compare WORK --drive tlc+nodrive",
    "compare WORK --warm fill=700%",
    "compare WORK --export 0%",
    "compare WORK --export 3X",
    "compare WORK --layers hard:spare=95",
    "compare WORK --layers raid5:x=1",
    "compare WORK --memory much",
    "compare WORK --scale-to 3X",
    "compare synth:nothing",
    "compare synth:uniform:size=1000",
    "compare good.csv:format=foo",
    "compare good.csv:shift=18446744073709551615",
    "compare workload.xml:capacity=2X",
    "advise WORK --drive tlc:x=3",
    "advise synth:nothing --drive tlc",
    "trace info synth:nothing",
    "trace info good.csv:op=foo",
    "trace convert good.csv good.foo",
    "trace synth --pattern nothing --output new.csv",
    "create x.toml --device mem:64X --layer log",
    "create x.toml --device nbd:foo --layer log",
    "create x.toml --device zoned:mem:64M#zones=9 --layer log",
    "create x.toml --device drive:foo@a --layer log",
    "create x.toml --device drive:tlc:capacity=3X@a --layer log",
    "create x.toml --drive tlc:capacity=3X --layer log",
    "create x.toml --device mem:64M --device y --layer log",
    "create x.toml --device y --device y --size 64M --layer log",
    "create x.toml --device y --size 3X --layer log",
    "create x.toml --device mem:64M --layer hard:spare=95",
    "create x.toml --device mem:64M --layer log --map-memory much",
    "create x.toml --device mem:64M --layer scrambler --sample synth:nothing",
    "estimate-memory --size 3X",
    "estimate-memory --layer nolayer",
    "probe tlc:capacity=1Q",
    "set m.toml foo=1",
    "set m.toml rebuild-share=900",
    "set m.toml superpage=64k",
    "serve m.toml --nbd foo",
    "serve m.toml --nbd unix:s.sock --deadline mem:64M=9999999",
    "sweep plan.toml --out cells --shard 5/3",
    "sweep plan.toml --out cells --collect all.xlsx",
    "paper nothing",
];

/// Valid commands that fail with the existing files and devices.
const FAILED: &[&str] = &[
    "compare nowhere.csv",
    "compare good.csv --drive nowhere.toml",
    "compare good.csv --drive drive.toml",
    "compare good.csv --drive stack.toml",
    "compare good.csv --layers tier",
    "compare good.csv:dev=9",
    "trace info nowhere.csv",
    "trace info good.csv --html nowhere/page.html",
    "trace convert good.csv nowhere/new.csv",
    "sweep nowhere.toml --out cells",
    "sweep drive.toml --out cells",
    "sweep plan.toml --out cells",
    "create x.toml --device nowhere.img --layer log",
    "create x.toml --device mem:64M --layer scrambler --sample nowhere.csv",
    "create x.toml --device mem:64M --layer tier",
    "create m.toml --device mem:64M --layer log",
    "status nowhere.toml",
    "status wrong.toml",
    "serve wrong.toml --nbd unix:s.sock",
    "probe nowhere/device --yes",
    "replay nowhere",
    "targets nowhere.toml",
];

fn folder() -> TempDir {
    let dir = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).expect("a file");
    };
    write("good.csv", "0,0,W,0,4096\n");
    write("drive.toml", "cell = \"tlc\"\ncolour = 3\n");
    write("stack.toml", "devices = [\"tlc:capacity=64X\"]\n");
    write("plan.toml", "traces = \"good.csv\"\ndrives = \"nodrive\"\nlayers = \"none\"\n");
    write(
        "wrong.toml",
        "uuid = \"6a6ee6fd-2b5c-4b3f-9d5a-1e1f3a3f9b10\"\nlayer = \"log\"\n\
         devices = [\"mem:64X\"]\n",
    );
    ends(dir.path(), "create m.toml --device mem:64M --layer log", 0);
    dir
}

fn ends(dir: &Path, command: &str, code: i32) {
    let args: Vec<&str> =
        command.split(' ').map(|word| if word == "WORK" { WORK } else { word }).collect();
    let (found, _, err) = run(dir, &args);
    assert_eq!(found, code, "{command}: {err}");
    assert_eq!(err.lines().count(), usize::from(code > 0), "{command}: {err}");
}

#[test]
fn wrong_values_are_usage_errors_everywhere() {
    let dir = folder();
    WRONG.iter().for_each(|command| ends(dir.path(), command, 2));
    FAILED.iter().for_each(|command| ends(dir.path(), command, 1));
    let left = fs::read_dir(dir.path()).expect("a folder").map(|it| it.expect("a file"));
    let mut left: Vec<_> = left.map(|it| it.file_name()).collect();
    left.sort();
    let ours =
        ["cells", "drive.toml", "good.csv", "m.toml", "plan.toml", "stack.toml", "wrong.toml"];
    assert_eq!(left, ours, "nothing was left behind");
}

#[test]
fn a_code_is_the_same_whether_the_volume_is_served_or_not() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let dir = folder.path();
    ends(dir, "create v.toml --device d --journal j --size 96M --layer log", 0);
    fs::rename(dir.join("j"), dir.join("away")).expect("it is there");
    let codes = || {
        ends(dir, "set v.toml superpage=64k", 2);
        ends(dir, "device offline v.toml 9", 1);
        ends(dir, "device add v.toml n", 4);
    };
    codes();
    let mut server = Server::start(dir, "v.toml", "s.sock", &[]);
    codes();
    assert_eq!(server.end("-TERM").0, Some(0));
}
