//! `hostftl-chaos`: runs seeds against layers, and replays failing ones.

mod report;
mod seeds;
mod state;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use hostftl_chaos::membership::{Seen, run_memberships};
use hostftl_chaos::{
    Campaign, Goal, Violation, catch_panics, digest_seed, replay_command, run_seed,
};
use hostftl_layers::LayerKind;

use report::Format;
use state::State;

/// Test layers with power cuts, torn writes, timeouts and dead devices, and check every guarantee.
#[derive(Debug, Parser)]
#[command(version)]
struct Options {
    /// Seeds to run, from A up to but not including B.
    #[arg(long, value_name = "A..B", value_parser = parse_range, default_value = "0..1000")]
    seeds: (u64, u64),
    /// Run a single seed.
    #[arg(long, value_name = "N", conflicts_with = "seeds")]
    seed: Option<u64>,
    /// Layer by name, `exerciser` for the layer that tests the checks, or all.
    #[arg(long, default_value = "all")]
    layer: String,
    /// With --seed: print every input and output.
    #[arg(long, requires = "seed")]
    trace: bool,
    /// Continue after the last seed until each layer made this number of steps.
    #[arg(long, value_name = "N", default_value_t = 0)]
    steps_at_least: u64,
    /// Number of times each named event must occur; short runs may use less than 100.
    #[arg(long, value_name = "N", default_value_t = 100)]
    events_at_least: u64,
    /// Print the number of seeds in which each pair of faults and commands occurred on one stack;
    /// fail below N.
    #[arg(long, value_name = "N", conflicts_with_all = ["seed", "bugs", "bug", "digest"])]
    pairs_at_least: Option<u64>,
    /// Keep the state of the run in a file, and resume from it.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Number of threads; all processors by default.
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Enable a planted bug and report the first seed that finds it.
    #[arg(long, value_name = "NAME")]
    bug: Option<String>,
    /// Hunt every planted bug in five ranges of seeds and print a table.
    #[arg(long)]
    bugs: bool,
    /// Print a digest of each layer's behaviour in the seeds; it must not change when behaviour
    /// does not.
    #[arg(long, conflicts_with_all = ["bugs", "bug", "resume", "steps_at_least"])]
    digest: bool,
    /// Run sequences of faults of the member list instead of layers.
    #[arg(long, conflicts_with_all = ["layer", "bugs", "resume", "steps_at_least"])]
    membership: bool,
    /// Run the seeds that a file lists for each layer, in which every event occurs.
    #[arg(long, value_name = "FILE", conflicts_with_all = NOT_LISTED)]
    list: Option<PathBuf>,
    /// With --list: search for such seeds and write the file.
    #[arg(long, requires = "list")]
    renew: bool,
}

/// Options that are meaningless for a list of seeds.
const NOT_LISTED: [&str; 10] = [
    "seeds",
    "seed",
    "membership",
    "bugs",
    "bug",
    "digest",
    "resume",
    "steps_at_least",
    "pairs_at_least",
    "events_at_least",
];

fn parse_range(text: &str) -> Result<(u64, u64), String> {
    let wrong = || format!("{text:?} is not a range like 0..1000");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let from = from.parse().map_err(|_| wrong())?;
    let to = to.parse().map_err(|_| wrong())?;
    if from < to { Ok((from, to)) } else { Err(format!("{text:?} has no seed in it")) }
}

fn layers(name: &str) -> Result<Vec<LayerKind>, String> {
    let all = LayerKind::EVERY;
    match name {
        "all" => Ok(all.to_vec()),
        "none" => Ok(vec![LayerKind::Passthrough]),
        _ => match all.iter().find(|layer| layer.name() == name) {
            Some(layer) => Ok(vec![*layer]),
            None => {
                let names: Vec<_> = all.iter().map(|layer| layer.name()).collect();
                Err(format!("unknown layer {name}; use one of {}, all", names.join(", ")))
            }
        },
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    catch_panics();
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(what) => {
            eprintln!("hostftl-chaos: {what}");
            ExitCode::from(2)
        }
    }
}

/// Runs as the options request; returns whether all checks passed.
fn run(options: &Options) -> Result<bool, String> {
    if options.membership {
        return sequences(options);
    }
    let layers = layers(&options.layer)?;
    if options.bugs {
        return hunt::all(options);
    }
    if let Some(name) = &options.bug {
        return hunt::one(options, name);
    }
    if options.digest {
        return Ok(digests(options, &layers));
    }
    if let Some(path) = &options.list {
        return seeds::listed(options, path, &layers);
    }
    if let Some(seed) = options.seed {
        return Ok(replay(&layers, seed, options.trace));
    }
    campaign(options, &layers)
}

fn threads(options: &Options) -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    options.threads.unwrap_or(processors).max(1)
}

fn goal(options: &Options) -> Goal {
    let (seeds, steps) = (options.seeds, options.steps_at_least);
    Goal { seeds, steps, threads: threads(options) }
}

fn campaign(options: &Options, layers: &[LayerKind]) -> Result<bool, String> {
    let format = Format::new(options.json, options.events_at_least);
    let mut state = State::open(options.resume.as_deref())?;
    let mut fine = true;
    for &layer in layers {
        let mut campaign = Campaign::new(layer, goal(options), state.summary(layer.name()));
        let mut trouble = Ok(());
        let result = campaign.run(|summary| {
            format.progress(layer, summary);
            trouble = state.keep(layer.name(), summary);
            trouble.is_ok()
        });
        trouble?;
        if !format.summary(layer, &campaign.summary) {
            fine = false;
            println!("  some events were too rare: run more seeds, or lower --events-at-least");
        }
        if let Some(least) = options.pairs_at_least {
            fine &= format.pairs(layer, &campaign.summary.pairs, least);
        }
        if let Err(violation) = result {
            format.violation(&violation, "");
            return Ok(false);
        }
    }
    Ok(fine)
}

/// Prints the combined digest of the seeds of each layer.
fn digests(options: &Options, layers: &[LayerKind]) -> bool {
    let (from, to) = options.seed.map_or(options.seeds, |seed| (seed, seed + 1));
    let threads = threads(options) as u64;
    for &layer in layers {
        let share = |first: u64| {
            let seeds = (from + first..to).step_by(threads as usize);
            let mix = |seed: u64| {
                let both = seed << 32 | u64::from(digest_seed(seed, layer));
                both.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            };
            seeds.map(mix).fold(0, u64::wrapping_add)
        };
        let all = std::thread::scope(|scope| {
            let all: Vec<_> = (0..threads).map(|first| scope.spawn(move || share(first))).collect();
            let each = all.into_iter().map(|one| one.join().expect("a seed's panic is caught"));
            each.fold(0, u64::wrapping_add)
        });
        println!("{layer}, seeds {from}..{to}: digest {all:016x}");
    }
    true
}

/// Runs sequences of faults of the member list.
fn sequences(options: &Options) -> Result<bool, String> {
    if let Some(name) = &options.bug {
        hunt::plant_in_membership(name)?;
    }
    let (from, to) = options.seed.map_or(options.seeds, |seed| (seed, seed + 1));
    let mut seen = Seen::default();
    for part in run_memberships((from, to), threads(options)) {
        match part {
            Ok(part) => seen += part,
            Err(breach) => {
                println!("{breach}\nagain: hostftl-chaos --membership --seed {}", breach.seed);
                return Ok(false);
            }
        }
    }
    if options.json {
        println!("{}", serde_json::to_string(&seen).map_err(|error| error.to_string())?)
    } else {
        println!("membership, seeds {from}..{to}: no violations; {seen:?}")
    }
    Ok(true)
}

fn replay(layers: &[LayerKind], seed: u64, trace: bool) -> bool {
    let mut fine = true;
    for &layer in layers {
        match run_seed(seed, layer, trace, &mut None) {
            Ok(report) => println!(
                "{layer}, seed {seed}: no violations in {} steps, {} cuts, {} requests",
                report.steps, report.cuts, report.requests
            ),
            Err(violation) => {
                fine = false;
                Format::new(false, 0).violation(&violation, "");
            }
        }
    }
    fine
}

#[cfg(feature = "planted")]
mod hunt;

/// Replacement without planted bugs.
#[cfg(not(feature = "planted"))]
mod hunt {
    const HOW: &str = "built without planted bugs; build with: \
                       cargo build --release -p hostftl-chaos --features planted";

    pub(crate) fn all(_options: &crate::Options) -> Result<bool, String> {
        Err(HOW.into())
    }

    pub(crate) fn one(_options: &crate::Options, _name: &str) -> Result<bool, String> {
        Err(HOW.into())
    }

    pub(crate) fn plant_in_membership(_name: &str) -> Result<(), String> {
        Err(HOW.into())
    }
}

/// Returns the command that reproduces a violation, with the options it needs.
fn again(violation: &Violation, bug: &str) -> String {
    format!("{}{bug}", replay_command(violation))
}
