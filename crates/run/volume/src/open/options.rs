//! Options for starting and serving a volume.

use std::time::Duration;

use crate::metadata::record::RecordOptions;
use crate::util::start_progress::StartProgress;

/// Earliest time at which changes of a volume are acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// Once the layer has the change, which may be lost with the process.
    #[default]
    Buffer,
    /// Once the layer has the change and it is in memory that outlives the process.
    Memfd,
    /// Once the change is durable.
    Media,
}

/// Options for starting a volume.
#[derive(Clone, Debug, Default)]
pub struct StartOptions {
    /// Records the layer's inputs.
    pub record: Option<RecordOptions>,
    /// How clients are served. Without it there are no clients, and the session mark does not
    /// change.
    pub service: Option<Service>,
    /// When each write, trim and zeroing is acknowledged.
    pub acks: Acks,
    /// Protection of the process, for the status.
    pub protection: Vec<String>,
    /// Interval between the end of a scrub and the start of the next one; `None` disables them.
    pub scrub_every: Option<Duration>,
    /// Shows the progress of the start to other threads.
    pub start_progress: StartProgress,
    /// Called before the devices are marked as serving. From then on only [`crate::Running::stop`]
    /// ends a run cleanly, and an interrupted start counts as an unclean end.
    pub before_serving: Option<fn()>,
}

/// Origin of the clients of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Processes of this machine only.
    Machine,
    /// Other machines too.
    Beyond,
}

/// How a volume is served to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Origin of the clients.
    pub reach: Reach,
    /// Operator's confirmation that no client still relies on acknowledged, unflushed writes of an
    /// earlier run.
    pub reuse_export_name: bool,
}
