//! Events of requests that end with an error.

use hostftl_core::HostError;

use super::Jobs;
use crate::running::status::latency::RequestKind;
use crate::util::events::Level;
use crate::util::lock;

impl Jobs {
    /// Reports an error of a host's request: the first one, and then each time their number
    /// doubles.
    pub(super) fn report_error(&mut self, kind: RequestKind, range: (u64, u64), error: HostError) {
        self.errors += 1;
        if !self.errors.is_power_of_two() {
            return;
        }
        let (level, event, why) = match error {
            HostError::NoSpace => (Level::Error, "no-space", "no space"),
            HostError::Io => (Level::Warning, "request-failed", "a device failed"),
            HostError::Range => (Level::Warning, "request-failed", "outside the volume"),
            HostError::ReadOnly => (Level::Warning, "request-failed", "the volume is read-only"),
        };
        let text = format!(
            "a {} of {} bytes at {} failed: {why}; {} so far",
            kind.name(),
            range.1,
            range.0,
            self.errors
        );
        let event_host = lock(&self.event_host);
        event_host.events.report(level, event, text);
    }
}
