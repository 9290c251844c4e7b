//! Output of a run: progress, the table of events, violations.

use std::io::{IsTerminal, Write, stderr};

use hostftl_chaos::{Pairs, Summary, Violation};
use hostftl_layers::LayerKind;
use serde_json::json;

/// Output format.
#[derive(Debug)]
pub(crate) struct Format {
    json: bool,
    least: u64,
}

impl Format {
    /// Creates a format in text or JSON; each named event must have occurred `least` times.
    pub(crate) fn new(json: bool, least: u64) -> Self {
        Format { json, least }
    }

    /// Prints a progress line that replaces itself on a terminal.
    pub(crate) fn progress(&self, layer: LayerKind, summary: &Summary) {
        if stderr().is_terminal() {
            eprint!("\r{layer}: {}\x1b[K", figures(summary));
            let _ = stderr().flush();
        }
    }

    /// Prints the table of one layer. Returns false when a required event is too rare.
    pub(crate) fn summary(&self, layer: LayerKind, summary: &Summary) -> bool {
        if stderr().is_terminal() {
            eprint!("\r\x1b[K");
        }
        let rows: Vec<_> = summary.tallies.rows(layer).collect();
        let rare = |&(_, count, needed): &(&str, u64, bool)| needed && count < self.least;
        let fine = summary.tallies.cover(layer, self.least);
        if self.json {
            let events: Vec<_> = rows.iter().map(|row| json!([row.0, row.1, row.2])).collect();
            let line = json!({
                "layer": layer.name(), "seeds": summary.seeds, "next": summary.next,
                "steps": summary.steps, "cuts": summary.cuts, "requests": summary.requests,
                "seconds": summary.elapsed.as_secs_f64(), "events_at_least": self.least,
                "events": events, "covered": fine,
            });
            println!("{line}");
            return fine;
        }
        println!("{layer}: {}", figures(summary));
        println!("  events (* must occur at least {} times):", self.least);
        for row in rows.iter().filter(|row| row.2 || row.1 > 0) {
            let (name, count, needed) = row;
            let mark = if *needed { "*" } else { " " };
            let rare = if rare(row) { "   TOO RARE" } else { "" };
            println!("  {mark} {count:>10}  {name}{rare}");
        }
        fine
    }

    /// Prints the combinations on one stack, the rarest first. Returns false when one is too rare.
    pub(crate) fn pairs(&self, layer: LayerKind, pairs: &Pairs, least: u64) -> bool {
        let mut rows: Vec<_> = pairs.rows().collect();
        rows.sort_by_key(|row| row.2);
        let rare = rows.iter().filter(|row| row.2 < least).count();
        if self.json {
            let pairs: Vec<_> = rows.iter().map(|row| json!([row.0, row.1, row.2])).collect();
            let line = json!({
                "layer": layer.name(), "pairs_at_least": least, "pairs": pairs, "rare": rare,
            });
            println!("{line}");
            return rare == 0;
        }
        println!(
            "  pairs that met in {least} seeds at least: {} of {}",
            rows.len() - rare,
            rows.len()
        );
        for (one, other, count) in rows {
            let rare = if count < least { "   TOO RARE" } else { "" };
            println!("    {count:>8}  {one} + {other}{rare}");
        }
        rare == 0
    }

    /// Prints a violation and the command that reproduces it.
    pub(crate) fn violation(&self, violation: &Violation, bug: &str) {
        let Violation { seed, layer, step, what } = violation;
        let again = crate::again(violation, bug);
        if self.json {
            let line = json!({
                "violation": what, "layer": layer, "seed": seed, "step": step, "replay": again,
            });
            println!("{line}");
        } else {
            println!("VIOLATION by {layer}, seed {seed}, step {step}: {what}");
            println!("  replay: {again} --trace");
        }
    }
}

fn figures(summary: &Summary) -> String {
    let Summary { seeds, steps, cuts, requests, elapsed, .. } = summary;
    let rate = *steps as f64 / elapsed.as_secs_f64().max(1e-9) / 1e3;
    format!(
        "{seeds} seeds, {steps} steps, {cuts} cuts, {requests} requests, {:.1} s, \
         {rate:.0} K steps/s",
        elapsed.as_secs_f64()
    )
}
