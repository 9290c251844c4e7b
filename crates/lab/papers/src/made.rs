//! The parameters of an experiment, recorded so that independent readers can reproduce it.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// Size of an experiment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Reduced for tests: preserves the shape and takes seconds.
    Quick,
    /// The default, which takes minutes on a workstation.
    Usual,
    /// The published size, without a limit on the duration.
    Full,
}

impl Size {
    /// Returns the value for this size.
    pub fn pick<T>(self, quick: T, usual: T, full: T) -> T {
        match self {
            Size::Quick => quick,
            Size::Usual => usual,
            Size::Full => full,
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.pick("quick", "usual", "full"))
    }
}

/// Parameters of an experiment.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size.
    pub size: Size,
    /// Whether to extend the experiment beyond the paper with a sweep of its parameters, if there
    /// is one.
    pub sweep: bool,
    /// Folder with traces, if any.
    pub traces: Option<PathBuf>,
    /// Maximum number of threads; at least 1.
    pub threads: usize,
    /// Seed of all random choices.
    pub seed: u64,
    /// Commit of the program; empty if unknown.
    pub commit: &'static str,
}

impl Options {
    /// Returns whether the experiment has the published size.
    pub fn full(&self) -> bool {
        self.size == Size::Full
    }
}

/// Record of an experiment: its parameters and its duration.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    /// Command.
    pub command: String,
    /// Version of HostFTL.
    pub version: &'static str,
    /// Commit of the program; empty if unknown.
    pub commit: &'static str,
    /// Seed of all random choices.
    pub seed: u64,
    /// Size.
    pub size: Size,
    /// Folder with traces, if any.
    pub traces: Option<String>,
    /// Duration in seconds, with `threads` threads.
    pub took_s: f64,
    /// Number of threads.
    pub threads: usize,
}

impl Made {
    /// Creates the record of the paper `name` with `options`.
    pub fn new(name: &str, options: &Options, took_s: f64) -> Self {
        let traces = options.traces.as_ref().map(|folder| folder.display().to_string());
        let mut command = format!("hostftl paper {name} --seed {}", options.seed);
        command += options.size.pick(" --quick", "", " --full");
        if options.sweep {
            command += " --sweep";
        }
        if let Some(folder) = &traces {
            command += &format!(" --traces '{folder}'");
        }
        Made {
            command,
            version: env!("CARGO_PKG_VERSION"),
            commit: options.commit,
            seed: options.seed,
            size: options.size,
            traces,
            took_s,
            threads: options.threads,
        }
    }

    /// Formats the record as lines.
    pub fn lines(&self) -> String {
        let traces = self.traces.as_deref().unwrap_or("none");
        let commit = match self.commit {
            "" => "unknown",
            known => known,
        };
        let how = format!("seed {}, size {}, traces {traces}", self.seed, self.size);
        let took = format!("run in {:.0} s, {} in parallel", self.took_s, self.threads);
        format!("{}\nversion {}, commit {commit}, {how}\n{took}", self.command, self.version)
    }
}
