//! Receivers of the events of a server: the journal or standard error, and the program of
//! `--on-event`.

use std::io;
use std::path::Path;
use std::time::Duration;

use hostftl_serve::Log;
use hostftl_volume::Event;

use crate::failure::Failure;

use super::journal::Journal;
use super::on_event::OnEvent;

/// Maximum time to wait for the last log lines to reach standard error.
const LAST_LINES: Duration = Duration::from_secs(1);
/// Maximum time to wait for the programs of the last events.
const LAST_PROGRAMS: Duration = Duration::from_secs(10);

/// The receivers.
#[derive(Debug)]
pub(super) struct EventSinks {
    lines: Log,
    journal: Option<Journal>,
    program: Option<OnEvent>,
}

impl EventSinks {
    /// Returns the receivers of this process, with a program of the operator.
    pub(super) fn new(program: Option<&Path>) -> Result<Self, Failure> {
        let lines = Log::to(io::stderr()).map_err(Failure::failed)?;
        let program = program.map(|program| OnEvent::start(program, &lines)).transpose()?;
        Ok(EventSinks { lines, journal: Journal::of_standard_error(), program })
    }

    /// Passes an event of the volume whose file is `file`.
    pub(super) fn pass(&self, file: &Path, volume: &str, event: &Event) {
        let is_in_journal = self.journal.as_ref().is_some_and(|it| it.send(volume, event));
        if !is_in_journal {
            self.lines.line(event.level, volume, &event.line());
        }
        if let Some(program) = &self.program {
            program.pass(file, volume, event);
        }
    }

    /// Waits for the last events, for a bounded time.
    pub(super) fn finish(&self) {
        if let Some(program) = &self.program {
            program.finish(LAST_PROGRAMS);
        }
        self.lines.finish(LAST_LINES);
    }
}
