//! Mutated input for every parser that reads what others wrote: `make fuzz RUNS=n`.
//!
//! Each run takes a good input, damages it, and gives it to a target, which checks what must hold
//! for any input at all. A run is fixed by its target and seed, so a failure names the command that
//! repeats it. Nothing here is random between two calls.

mod mutate;
mod targets;

use std::panic;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use targets::{ALL, Target};

/// Damages good input and gives it to every parser
#[derive(Parser)]
struct Args {
    /// How many inputs each target gets
    #[arg(long, default_value_t = 100_000)]
    runs: u64,
    /// Only this target
    #[arg(long)]
    target: Option<String>,
    /// The seed of the first run; each run after it has the next
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let wanted = |target: &&Target| args.target.as_ref().is_none_or(|name| name == target.name);
    let chosen: Vec<&Target> = ALL.iter().filter(wanted).collect();
    if chosen.is_empty() {
        let names: Vec<&str> = ALL.iter().map(|target| target.name).collect();
        eprintln!("fuzz: no such target; there are: {}", names.join(", "));
        return ExitCode::from(2);
    }
    let passed = chosen.iter().filter(|target| fuzz(target, args.seed, args.runs)).count();
    if passed == chosen.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs one target and prints its line; false when an input broke it.
fn fuzz(target: &Target, first: u64, runs: u64) -> bool {
    let corpus = (target.corpus)();
    let begin = Instant::now();
    for seed in first..first.saturating_add(runs) {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let input = mutate::mutate(&corpus, &mut rng);
        let outcome = panic::catch_unwind(|| (target.check)(&input, seed));
        let why = match outcome {
            Ok(Ok(())) => continue,
            Ok(Err(error)) => format!("{error:#}"),
            Err(_) => "it panicked, see above".to_owned(),
        };
        println!("{:<14} FAILED: {why}", target.name);
        println!("  input: {}", input.escape_ascii());
        let again = "cargo run --release -p hostftl-fuzz -- --runs 1";
        println!("  again: {again} --target {} --seed {seed}", target.name);
        return false;
    }
    let rate = runs as f64 / begin.elapsed().as_secs_f64();
    println!("{:<14} {runs} inputs, {rate:.0}/s, nothing broke", target.name);
    true
}
