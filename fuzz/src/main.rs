//! Mutated input for every parser of external data: `make fuzz RUNS=n`.
//!
//! Each run mutates a valid input and passes it to a target, which checks the properties that hold
//! for any input. A run is determined by its target and seed, so a failure prints the command that
//! repeats it. Two calls with the same arguments are identical.

mod corpus;
mod guard;
mod mutate;
mod targets;

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use targets::{ALL, Target};

/// Mutate valid input and pass it to every parser
#[derive(Parser)]
struct Args {
    /// Number of inputs for each target; slow targets get fewer, unless they are named
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// Run only this target
    #[arg(long)]
    target: Option<String>,
    /// Seed of the first run; each later run has the next seed
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Add the present output of the emitters to the corpus, without a run
    #[arg(long)]
    keep: bool,
}

/// Seed that is being run; `u64::MAX` if none is.
static RUNNING: AtomicU64 = AtomicU64::new(u64::MAX);

fn main() -> ExitCode {
    let args = Args::parse();
    let wanted = |target: &&Target| args.target.as_ref().is_none_or(|name| name == target.name);
    let chosen: Vec<&Target> = ALL.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
        eprintln!("fuzz: no such target; there are: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let passed = chosen.iter().filter(|target| {
        let outcome = match args.keep {
            true => corpus::keep_made(target).map(|()| true),
            false if args.target.is_some() => fuzz(target, args.seed, args.runs),
            false => fuzz(target, args.seed, args.runs.div_ceil(target.share())),
        };
        outcome.unwrap_or_else(|error| {
            eprintln!("fuzz: {}: {error:#}", target.name);
            false
        })
    });
    if passed.count() == chosen.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one target and prints its result. Returns false if an input failed.
fn fuzz(target: &Target, first: u64, runs: u64) -> anyhow::Result<bool> {
    let seeds = corpus::seeds(target)?;
    let begin = Instant::now();
    RUNNING.store(first, Ordering::Relaxed);
    guard::watch(target.name, &RUNNING);
    for seed in first..first.saturating_add(runs) {
        RUNNING.store(seed, Ordering::Relaxed);
        let (input, Err(why)) = run(target, &seeds, seed) else { continue };
        println!("{:<14} FAILED: {why:#}", target.name);
        println!("  input: {}", input.escape_ascii());
        let again = "cargo run --release -p hostftl-fuzz -- --runs 1";
        println!("  again: {again} --target {} --seed {seed}", target.name);
        let path = corpus::keep(target, &format!("broken-{seed}"), &input)?;
        println!("  kept:  {}; the tests fail until it is mended", path.display());
        RUNNING.store(u64::MAX, Ordering::Relaxed);
        return Ok(false);
    }
    RUNNING.store(u64::MAX, Ordering::Relaxed);
    let (count, rate) = (seeds.len(), runs as f64 / begin.elapsed().as_secs_f64());
    println!("{:<14} {runs} inputs from {count} seeds, {rate:.0}/s, nothing broke", target.name);
    Ok(true)
}

/// Runs one seed. Returns its input and the outcome.
fn run(target: &Target, seeds: &[Vec<u8>], seed: u64) -> (Vec<u8>, anyhow::Result<()>) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let input = mutate::mutate(seeds, &mut rng);
    let outcome = guard::check(target, &input, seed);
    (input, outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a target like `make fuzz`.
    fn short(name: &str, runs: u64) {
        let target = ALL.iter().find(|target| target.name == name).expect("a target");
        let seeds = corpus::seeds(target).expect("a corpus");
        for seed in 0..runs {
            let (_, outcome) = run(target, &seeds, seed);
            let again = format!("make fuzz RUNS=1 TARGET={name} SEED={seed}");
            outcome.unwrap_or_else(|why| panic!("{why:#}; again: {again}"));
        }
    }

    #[test]
    fn mutated_images_are_refused_or_read() {
        short("drawn-image", 3000);
    }

    #[test]
    fn mutated_volumes_are_inspected_and_started() {
        short("whole-volume", 150);
    }
}
