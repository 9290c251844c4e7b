//! Repeated display of a status.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use hostftl_volume::Status;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios};
use rustix::termios::{tcgetattr, tcsetattr};

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;

/// Interval between checks for Ctrl-C; a read from the terminal takes at most 0.1 s.
const POLL: Duration = Duration::from_millis(50);

/// Earlier status of a volume, and the time since then.
pub(in crate::commands) type Since<'a> = (Duration, &'a Status);

/// Shows the status of volumes repeatedly until Ctrl-C or q; a terminal is redrawn.
pub(in crate::commands) fn watch(
    volumes: &[PathBuf],
    every: Duration,
    console: &mut Console,
    show: impl Fn(&Status, Option<Since<'_>>, &mut Console) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let keys = Keys::new(console);
    let mut before: Option<Vec<(Instant, Status)>> = None;
    let mut due = Instant::now();
    loop {
        let read = |volume: &PathBuf| Ok((Instant::now(), hostftl_volume::status(volume)?));
        let now = volumes.iter().map(read).collect::<Result<Vec<_>, Failure>>()?;
        let redraws = !console.is_json() && console.is_terminal();
        if redraws {
            console.clear()?;
        }
        for (index, (at, status)) in now.iter().enumerate() {
            let is_first = index == 0 && (redraws || before.is_none());
            if !is_first && !console.is_json() {
                console.line("")?;
            }
            let since = before.as_ref().map(|all| (*at - all[index].0, &all[index].1));
            show(status, since, console)?;
        }
        console.flush()?;
        before = Some(now);
        due += every;
        while Instant::now() < due {
            if interrupt::asked() || keys.ends(due.saturating_duration_since(Instant::now())) {
                return Ok(());
            }
        }
    }
}

/// Keys of a terminal, which are read without echo and without Enter.
struct Keys(Option<Termios>);

impl Keys {
    /// Switches the terminal. Without a terminal there are no keys.
    fn new(console: &Console) -> Self {
        let is_interactive = io::stdin().is_terminal() && console.is_terminal();
        let saved = is_interactive.then(|| tcgetattr(io::stdin()).ok()).flatten();
        if let Some(saved) = &saved {
            let mut direct = saved.clone();
            direct.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
            direct.special_codes[SpecialCodeIndex::VMIN] = 0;
            // Tenths of a second.
            direct.special_codes[SpecialCodeIndex::VTIME] = 1;
            // Without it, q needs Enter.
            tcsetattr(io::stdin(), OptionalActions::Now, &direct).ok();
        }
        Keys(saved)
    }

    /// Waits for a short time, at most `most`. Returns whether q was pressed.
    fn ends(&self, most: Duration) -> bool {
        let mut pressed = [0; 16];
        if self.0.is_none() {
            thread::sleep(POLL.min(most));
            return false;
        }
        match rustix::io::read(io::stdin(), &mut pressed) {
            Ok(count) => pressed[..count].contains(&b'q'),
            Err(_) => {
                thread::sleep(POLL.min(most));
                false
            }
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(saved) = &self.0 {
            tcsetattr(io::stdin(), OptionalActions::Now, saved).ok();
        }
    }
}
