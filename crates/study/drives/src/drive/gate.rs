//! Host link and controller, through which every command of a timed drive passes at its end.
//!
//! Invariants
//! - A direction serves one command at a time, in the order of arrival. The additional latency is
//!   constant, so commands also leave in that order.
//! - Under the counting clock nothing passes, so both clocks count the same.

use std::collections::VecDeque;

use hostftl_core::{Command, Nanos};

use crate::model::Ended;
use crate::spec::Link;

/// Direction and length of a command on the link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passage {
    to_host: bool,
    sectors: u32,
}

impl Passage {
    pub(super) const NONE: Passage = Passage { to_host: false, sectors: 0 };

    /// Returns the passage of a command. A command without data is sent by the host.
    pub(super) fn of(command: &Command) -> Self {
        match command {
            Command::Read { into, .. } => Passage { to_host: true, sectors: into.sectors() },
            Command::Program { tally, .. } => Passage { to_host: false, sectors: tally.total() },
            _ => Passage::NONE,
        }
    }
}

/// One direction of the link.
#[derive(Debug, Default)]
struct Line {
    free: Nanos,
    /// Commands in order, each with the time at which it leaves.
    queue: VecDeque<(Nanos, Ended)>,
}

#[derive(Debug)]
pub(super) struct Gate {
    link: Link,
    /// From the host, and to the host.
    lines: [Line; 2],
}

impl Gate {
    pub(super) fn new(link: Link) -> Self {
        Gate { link, lines: [Line::default(), Line::default()] }
    }

    /// Queues a command whose work in the drive ended at `now`.
    pub(super) fn pass(&mut self, now: Nanos, passage: Passage, mut ended: Ended) {
        let line = &mut self.lines[usize::from(passage.to_host)];
        line.free = now.max(line.free) + self.link.occupied(passage.sectors);
        let leaves = line.free + self.link.latency;
        ended.spent.bus += leaves - now;
        line.queue.push_back((leaves, ended));
    }

    /// Returns the time at which the next command leaves.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        self.lines.iter().filter_map(|line| Some(line.queue.front()?.0)).min()
    }

    /// Removes the command that leaves next.
    pub(super) fn pop(&mut self) -> Option<Ended> {
        let next = self.next_at()?;
        let is_next = |line: &&mut Line| line.queue.front().is_some_and(|(at, _)| *at == next);
        self.lines.iter_mut().find(is_next)?.queue.pop_front().map(|(_, ended)| ended)
    }
}
