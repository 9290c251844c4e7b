//! Life cycle and health of an engine.

use hostftl_core::{DeviceError, HostError};

/// Stage of an engine's life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Life {
    /// The volume is being recovered or created.
    #[default]
    Starting,
    /// Requests are accepted.
    Running,
    /// The host has disconnected, and everything is made durable.
    Stopping,
    /// The layer is closed, or could not be opened.
    Over,
}

impl Life {
    /// Moves to the next stage.
    ///
    /// # Panics
    /// If the transition is not allowed.
    pub(crate) fn go(&mut self, next: Life) {
        let fits = matches!(
            (*self, next),
            (Life::Starting, Life::Running | Life::Over)
                | (Life::Running, Life::Stopping)
                | (Life::Stopping, Life::Over)
        );
        assert!(fits, "an engine can't go from {self:?} to {next:?}");
        *self = next;
    }
}

/// Health of an engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Health {
    /// Everything works.
    #[default]
    Good,
    /// Writing failed. Reads continue; all other requests fail with this error.
    ReadOnly(HostError),
    /// The device was removed.
    Failed,
}

impl Health {
    /// Returns the health after a device error that ends all writing.
    pub(crate) fn after(error: DeviceError) -> Self {
        match error {
            DeviceError::Removed => Health::Failed,
            DeviceError::NoSpace => Health::ReadOnly(HostError::NoSpace),
            DeviceError::Media | DeviceError::Unsupported => Health::ReadOnly(HostError::Io),
        }
    }

    /// Returns the error of all requests but reads; `None` while everything works.
    pub(crate) fn error(self) -> Option<HostError> {
        match self {
            Health::Good => None,
            Health::ReadOnly(error) => Some(error),
            Health::Failed => Some(HostError::Io),
        }
    }

    /// Worsens the health, and never improves it. Returns whether it changed.
    pub(crate) fn worsen(&mut self, worse: Health) -> bool {
        let worsens = match self {
            Health::Good => worse != Health::Good,
            Health::ReadOnly(_) => worse == Health::Failed,
            Health::Failed => false,
        };
        if worsens {
            *self = worse;
        }
        worsens
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_becomes_worse_and_never_better() {
        let mut health = Health::default();
        assert!(health.worsen(Health::after(DeviceError::NoSpace)));
        assert!(!health.worsen(Health::after(DeviceError::Media)), "the first error counts");
        assert_eq!(health.error(), Some(HostError::NoSpace));
        assert!(health.worsen(Health::after(DeviceError::Removed)));
        assert!(!health.worsen(Health::ReadOnly(HostError::Io)) && !health.worsen(Health::Good));
        assert_eq!(health, Health::Failed);
    }

    #[test]
    #[should_panic(expected = " to Running")]
    fn a_stopped_engine_does_not_restart() {
        let mut life = Life::default();
        life.go(Life::Over);
        life.go(Life::Running);
    }
}
