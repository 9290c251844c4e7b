//! How a volume is started and served.

use std::path::PathBuf;
use std::time::Duration;

use crate::util::start_progress::Beginning;

/// When what changes a volume is answered, at the earliest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// When the layer has it: it may die with the process.
    #[default]
    Buffer,
    /// When the layer has it, and it is in memory that outlives the process.
    Memfd,
    /// When it is durable.
    Media,
}

/// How a volume is started.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// Where to record the layer's input stream; the file must not exist.
    pub record: Option<PathBuf>,
    /// How clients are served; without it nobody is, and the session's mark stays as it is.
    pub service: Option<Service>,
    /// When each write, trim and zeroing is answered.
    pub acks: Acks,
    /// How the process is protected, for the status.
    pub protection: Vec<String>,
    /// How long after a scrub the next one is begun; without it none is.
    pub scrub_every: Option<Duration>,
    /// Shows other threads how far the start is.
    pub beginning: Beginning,
    /// Called before the devices say that the volume is served. From then on only
    /// [`crate::Running::stop`] ends a run clean, and a start that is cut off counts as an unclean
    /// end.
    pub before_serving: Option<fn()>,
}

/// Who may be a client of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Processes of this machine.
    Machine,
    /// Others too.
    Beyond,
}

/// Why clients may be let in: how a volume is to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Who may come.
    pub reach: Reach,
    /// The operator's word that no client is left which believes in what is gone.
    pub go_on: bool,
}
