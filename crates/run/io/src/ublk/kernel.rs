//! Known failures of ublk by kernel release.
//!
//! From public reports: `ADD_DEV` is an oops that never returns on Linux 6.18.4 and 6.18.5, and on
//! 6.17 of some distributions. On 6.18.40 and 7.0 control commands are lost.

use std::fs;

/// Release of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    release: String,
    number: (u32, u32, u32),
}

/// Known reliability of a kernel's ublk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// No known failure.
    Nothing,
    /// It may fail, depending on the distribution.
    Doubtful(&'static str),
    /// It fails.
    Bad(&'static str),
}

impl Kernel {
    /// Returns the kernel of this machine.
    pub fn running() -> Self {
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Kernel::from_release(release.trim())
    }

    /// Parses a release such as `6.12.57+deb12-amd64`.
    pub fn from_release(release: &str) -> Self {
        let mut parts = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().ok());
        let mut next = || parts.next().flatten().unwrap_or(0);
        Kernel { release: release.into(), number: (next(), next(), next()) }
    }

    /// Returns the release as the kernel reports it.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// Returns the known reliability of its ublk.
    pub fn known(&self) -> Known {
        match self.number {
            (6, 18, 4 | 5) => Known::Bad("adding a ublk device hangs in this kernel"),
            (6, 18, 40) | (7, 0, _) => Known::Bad("it loses ublk control commands"),
            (6, 17, _) => {
                Known::Doubtful("adding a ublk device hangs in some builds of this kernel")
            }
            _ => Known::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faulty_kernels_are_recognised_by_release() {
        let known = |release| Kernel::from_release(release).known();
        for release in ["6.12.57+deb12-amd64", "6.5.0", "6.18.3", "6.18.6-arch1-1", "7.1", ""] {
            assert_eq!(known(release), Known::Nothing, "{release}");
        }
        for release in ["6.18.4", "6.18.5-generic", "6.18.40-lts", "7.0", "7.0.3-rc1"] {
            assert!(matches!(known(release), Known::Bad(_)), "{release}");
        }
        assert!(matches!(known("6.17.0-14-generic"), Known::Doubtful(_)));
    }
}
