//! The server of the volume of a demonstration: a child process.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::failure::Failure;
use crate::interrupt;

/// Time limit of a start and of an orderly stop.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between two checks.
const PAUSE: Duration = Duration::from_millis(50);

/// A running `hostftl serve`. It is killed when it is dropped.
pub(super) struct Server {
    child: Child,
    log: PathBuf,
}

impl Server {
    /// Starts `command` with its output in `log`, and waits until it is ready.
    pub(super) fn start(mut command: Command, log: &Path) -> Result<Self, Failure> {
        let file = File::create(log).map_err(Failure::failed)?;
        let errors = file.try_clone().map_err(Failure::failed)?;
        let child = command.stdout(file).stderr(errors).spawn().map_err(Failure::failed)?;
        let mut server = Server { child, log: log.to_owned() };
        let end = Instant::now() + PATIENCE;
        while !server.log().lines().any(|line| line.starts_with("ready ")) {
            if server.has_ended()? || Instant::now() > end || interrupt::asked() {
                let log = server.log();
                return Err(Failure::failed(format!("the server did not get ready: {log}")));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(server)
    }

    /// Returns the output of the server.
    fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default().trim().to_owned()
    }

    fn has_ended(&mut self) -> Result<bool, Failure> {
        Ok(self.child.try_wait().map_err(Failure::failed)?.is_some())
    }

    /// Returns the process id.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Kills the server as a crash would.
    pub(super) fn kill(mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Stops the server in an orderly way.
    pub(super) fn stop(mut self) -> Result<(), Failure> {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a child has a process id"), Signal::TERM)
            .map_err(|error| Failure::failed(io::Error::from(error)))?;
        let end = Instant::now() + PATIENCE;
        while !self.has_ended()? {
            if Instant::now() > end {
                return Err(Failure::failed("the server does not stop"));
            }
            std::thread::sleep(PAUSE);
        }
        let status = self.child.wait().map_err(Failure::failed)?;
        if status.success() {
            return Ok(());
        }
        let log = self.log();
        Err(Failure::failed(format!("the server ended with {status}: {log}")))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
