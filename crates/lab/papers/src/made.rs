//! How an experiment was made, so that an independent reader can make it again.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// How large an experiment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Size {
    /// Reduced until tests can make it: the shape, in seconds.
    Quick,
    /// What a desk makes in minutes.
    Usual,
    /// At the published size, however long that takes.
    Full,
}

impl Size {
    /// One of three values.
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

/// How an experiment is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// How large it is.
    pub size: Size,
    /// Also what goes beyond the paper, where there is such a thing: a sweep of its parameters.
    pub sweep: bool,
    /// A folder with traces, when there is one.
    pub traces: Option<PathBuf>,
    /// How many threads may work at once; at least 1.
    pub threads: usize,
    /// What all draws begin with.
    pub seed: u64,
    /// The commit that the program was built from; empty where that is not known.
    pub commit: &'static str,
}

impl Options {
    /// Whether it is made at the published size.
    pub fn full(&self) -> bool {
        self.size == Size::Full
    }
}

/// What makes the same figures again, and how long that took here.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    /// The command.
    pub command: String,
    /// The version of HostFTL.
    pub version: &'static str,
    /// The commit that the program was built from; empty where that is not known.
    pub commit: &'static str,
    /// What all draws began with.
    pub seed: u64,
    /// How large it was.
    pub size: Size,
    /// The folder of traces, when there was one.
    pub traces: Option<String>,
    /// How long it took, in seconds, with so many threads.
    pub took_s: f64,
    /// See `took_s`.
    pub threads: usize,
}

impl Made {
    /// Of the paper `name` as `options` say.
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

    /// All of it in lines.
    pub fn lines(&self) -> String {
        let traces = self.traces.as_deref().unwrap_or("none");
        let commit = match self.commit {
            "" => "unknown",
            known => known,
        };
        let how = format!("seed {}, size {}, traces {traces}", self.seed, self.size);
        let took = format!("made in {:.0} s, {} at once", self.took_s, self.threads);
        format!("{}\nversion {}, commit {commit}, {how}\n{took}", self.command, self.version)
    }
}
