//! Commands: one module for each, with its arguments and its `run`.

mod advise;
mod calibrate;
mod check;
mod clear;
mod compare;
mod completions;
mod copying;
mod create;
mod delete;
mod demo;
mod device;
mod dump;
mod estimate_memory;
mod events;
mod import;
mod inspect;
mod layer_limits;
mod layers;
mod list;
mod man;
mod models;
mod output;
#[cfg(feature = "paper")]
mod paper;
mod preferred;
mod probe;
mod replay;
mod scrub;
mod serve;
mod set;
mod shadow;
mod status;
mod sweep;
mod targets;
mod top;
mod trace;
mod ublk;
mod wait;
mod witness;

use hostftl_frontend::Wrong;
use hostftl_layers::LayerConfig;
use hostftl_trace::TraceError;
use hostftl_volume::{AdminErrorKind, Error, Memory};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::bytes;

/// Declares [`Command`] from pairs of a variant and a module with `Args` and `run`. A command that
/// is optional names its feature.
macro_rules! commands {
    ($($(#[$attribute:meta])* $name:ident => $module:ident $(if $feature:literal)?,)*) => {
        /// A command with its arguments. [`crate::help`] has their order in the help.
        #[derive(clap::Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* $(#[cfg(feature = $feature)])? $name(Box<$module::Args>),)*
        }

        impl Command {
            /// Runs the command.
            pub(crate) fn run(&self, console: &mut Console) -> Result<(), Failure> {
                match self {
                    $($(#[cfg(feature = $feature)])? Command::$name(args) => {
                        $module::run(args, console)
                    })*
                }
            }
        }
    };
}

commands! {
    Compare => compare,
    Sweep => sweep,
    Advise => advise,
    Shadow => shadow,
    Paper => paper if "paper",
    Targets => targets,
    Probe => probe,
    Layers => layers,
    Models => models,
    Calibrate => calibrate,
    EstimateMemory => estimate_memory,
    Create => create,
    Serve => serve,
    List => list,
    Status => status,
    Top => top,
    Device => device,
    Check => check,
    Events => events,
    Clear => clear,
    Scrub => scrub,
    Wait => wait,
    Set => set,
    Import => import,
    Dump => dump,
    Delete => delete,
    Replay => replay,
    Trace => trace,
    Ublk => ublk,
    Demo => demo,
    Completions => completions,
    #[command(hide = true)]
    Man => man,
}

/// Parses a layer with its parameters, for clap.
fn layer_config(text: &str) -> Result<LayerConfig, String> {
    hostftl_frontend::layer_kind(text.split(':').next().unwrap_or_default())?;
    LayerConfig::parse(text)
}

/// Derives the exit code from the kind of the error. It does not depend on the process that ran the
/// request, this one or the server of the volume.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error.kind() {
            AdminErrorKind::Usage => Failure::usage(error),
            AdminErrorKind::Violation => Failure::violation(error),
            AdminErrorKind::NeedsHand => Failure::needs_attention(error),
            AdminErrorKind::Interrupted => Failure::interrupted(error),
            AdminErrorKind::Refused | AdminErrorKind::Failed | AdminErrorKind::Unknown => {
                Failure::failed(error)
            }
        }
    }
}

/// Converts an error of a trace or its options.
impl From<TraceError> for Failure {
    fn from(error: TraceError) -> Self {
        Wrong::from(error).into()
    }
}

/// Formats the planned memory of a volume and its parts.
fn memory(memory: &Memory) -> String {
    let Memory { map_bytes, meta_bytes, arena_bytes, clients_bytes, fixed_bytes, .. } = memory;
    let [map, meta, arena] = [map_bytes, meta_bytes, arena_bytes].map(|it| bytes(*it));
    let [clients, fixed, all] =
        [clients_bytes, fixed_bytes, &memory.planned_bytes].map(|it| bytes(*it));
    let parts = format!("map {map}, metadata {meta}, buffers {arena}");
    format!("{all} ({parts}, clients {clients}, fixed {fixed})")
}

/// Describes an acknowledgement policy.
fn acknowledges(ack: &str) -> &'static str {
    match ack {
        "buffer" => "acknowledged when buffered; durable after flush",
        "memfd" => "acknowledged when in memory that outlives the server; durable after flush",
        "durable" => "acknowledged when durable",
        _ => "acknowledged when the device has completed them; durable after flush",
    }
}
