//! Commands in flight: the purpose, device and deadline of each token.

use alloc::vec::Vec;

use hostftl_core::{DeviceSet, Nanos, Token};

/// A command in flight.
#[derive(Clone, Copy, Debug)]
struct Flying<Op> {
    op: Op,
    device: Option<u8>,
    /// Deadline; `Nanos::MAX` without one.
    deadline: Nanos,
    /// Whether the engine has abandoned it.
    abandoned: bool,
}

/// Table of the commands in flight, with the engine's own purposes. A token is an index into it.
#[derive(Debug)]
pub(crate) struct Commands<Op> {
    slots: Vec<Option<Flying<Op>>>,
    free: Vec<u16>,
    /// Number of abandoned commands.
    abandoned: usize,
    patience: [Nanos; 16],
    wake: Option<Nanos>,
}

impl<Op: Copy> Commands<Op> {
    /// Creates an empty table for `most` commands. A command to a device is late after the
    /// `patience` of that device in ns, or never if that is 0.
    pub(crate) fn new(most: u16, patience: [Nanos; 16]) -> Self {
        Commands {
            slots: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            abandoned: 0,
            patience,
            wake: None,
        }
    }

    /// Returns the number of commands that can still be sent.
    #[inline]
    pub(crate) fn commands_left(&self) -> usize {
        self.free.len()
    }

    /// Returns whether no command is in flight, except abandoned ones.
    pub(crate) fn is_empty(&self) -> bool {
        self.free.len() + self.abandoned == self.slots.len()
    }

    /// Registers a command that is about to be sent, and returns its token. `device` is `None` for
    /// a computation.
    ///
    /// # Panics
    /// If the table is full.
    #[inline]
    pub(crate) fn begin(&mut self, now: Nanos, op: Op, device: Option<u8>) -> Token {
        let index = self.free.pop().expect("space for the command was checked");
        let mut deadline = Nanos::MAX;
        let patience = device.map_or(0, |device| self.patience[usize::from(device)]);
        if patience > 0 {
            deadline = now.saturating_add(patience);
            self.wake = Some(self.wake.map_or(deadline, |wake| wake.min(deadline)));
        }
        self.slots[index as usize] = Some(Flying { op, device, deadline, abandoned: false });
        Token(index.into())
    }

    /// Returns whether an abandoned command is in flight.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.abandoned > 0
    }

    /// Returns whether a command was abandoned.
    #[inline]
    pub(crate) fn is_abandoned(&self, token: Token) -> bool {
        self.abandoned > 0 && self.slots[token.0 as usize].as_ref().is_some_and(|it| it.abandoned)
    }

    /// Removes a completed command. Returns its purpose, and whether it went to a device.
    ///
    /// # Panics
    /// If no command with this token is in flight.
    #[inline]
    pub(crate) fn end(&mut self, token: Token) -> (Op, bool) {
        let flying = self.slots[token.0 as usize].take().expect("a command completes once");
        self.free.push(token.0 as u16);
        self.abandoned -= usize::from(flying.abandoned);
        (flying.op, flying.device.is_some())
    }

    /// Returns the time at which commands become late.
    #[inline]
    pub(crate) fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Returns whether a command is past its deadline, and sets the next wake-up.
    pub(crate) fn any_late(&mut self, now: Nanos) -> bool {
        let earliest = self.slots.iter().flatten().map(|flying| flying.deadline).min();
        self.wake = earliest.filter(|deadline| *deadline != Nanos::MAX && *deadline > now);
        earliest.is_some_and(|deadline| deadline <= now)
    }

    /// Returns the devices with commands past their deadline.
    pub(crate) fn late_devices(&self, now: Nanos) -> DeviceSet {
        let late = self.slots.iter().flatten().filter(|flying| flying.deadline <= now);
        late.filter_map(|flying| flying.device).collect()
    }

    /// Abandons the commands past their deadline, and calls `each` with their purpose and device.
    /// They remain in flight. Sets the next wake-up.
    pub(crate) fn abandon_late(&mut self, now: Nanos, mut each: impl FnMut(Op, u8)) {
        for flying in self.slots.iter_mut().flatten().filter(|flying| flying.deadline <= now) {
            assert!(!flying.abandoned, "a command is abandoned once");
            (flying.deadline, flying.abandoned) = (Nanos::MAX, true);
            self.abandoned += 1;
            each(flying.op, flying.device.expect("only commands of devices time out"));
        }
        assert!(!self.any_late(now), "an abandoned command is not late");
    }

    /// Abandons all commands of some devices, and calls `each` with their token, purpose
    /// and device. They remain in flight.
    pub(crate) fn abandon(&mut self, devices: DeviceSet, mut each: impl FnMut(Token, Op, u8)) {
        assert!(!devices.is_empty(), "only commands of devices are abandoned");
        for (slot, index) in self.slots.iter_mut().zip(0..) {
            let Some(flying) = slot.as_mut().filter(|flying| !flying.abandoned) else { continue };
            if let Some(device) = flying.device.filter(|device| devices.contains(*device)) {
                (flying.deadline, flying.abandoned) = (Nanos::MAX, true);
                self.abandoned += 1;
                each(Token(index), flying.op, device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Commands<u8> {
        let mut patience = [0; 16];
        patience[1] = 100;
        Commands::new(3, patience)
    }

    #[test]
    fn a_command_is_late_when_the_patience_of_its_device_is_over() {
        let mut commands = table();
        let slow = commands.begin(5, 1, Some(1));
        let fast = commands.begin(5, 2, Some(0));
        commands.begin(5, 3, None);
        assert_eq!((commands.commands_left(), commands.wake()), (0, Some(105)));
        assert!(!commands.any_late(104) && commands.any_late(105));
        assert_eq!(
            (commands.late_devices(104), commands.late_devices(105)),
            (DeviceSet::EMPTY, DeviceSet::single(1))
        );
        let mut given_up = Vec::new();
        commands
            .abandon(DeviceSet::single(1), |token, op, device| given_up.push((token, op, device)));
        assert_eq!(given_up, [(slow, 1, 1)]);
        assert!(!commands.any_late(1000) && commands.wake().is_none());
        assert!(commands.is_abandoned(slow) && !commands.is_abandoned(fast));
        assert_eq!((commands.end(fast), commands.end(slow)), ((2, true), (1, true)));
        assert_eq!(commands.commands_left(), 2);
    }

    #[test]
    fn abandoned_commands_block_no_waiter() {
        let mut commands = table();
        commands.begin(5, 1, Some(1));
        assert!(!commands.is_empty());
        commands.abandon(DeviceSet::single(1), |_, _, _| ());
        commands.abandon(DeviceSet::single(1), |_, _, _| panic!("a command is abandoned once"));
        assert!(commands.is_empty());
        commands.begin(5, 1, Some(1));
        assert!(!commands.is_empty(), "the next one is waited for");
    }

    #[test]
    fn late_commands_are_abandoned_and_others_awaited() {
        let mut commands = table();
        let late = commands.begin(5, 1, Some(1));
        commands.begin(6, 2, Some(1));
        let mut abandoned = Vec::new();
        assert!(commands.any_late(105));
        commands.abandon_late(105, |op, device| abandoned.push((op, device)));
        assert_eq!((abandoned.as_slice(), commands.wake()), (&[(1, 1)][..], Some(106)));
        assert!(commands.is_abandoned(late) && !commands.is_empty());
        commands.abandon_late(106, |op, device| abandoned.push((op, device)));
        assert_eq!((abandoned.as_slice(), commands.wake()), (&[(1, 1), (2, 1)][..], None));
        assert!(commands.is_empty() && commands.end(late) == (1, true));
    }

    #[test]
    #[should_panic(expected = "a command completes once")]
    fn a_command_is_over_once() {
        let mut commands = table();
        let token = commands.begin(0, 1, None);
        commands.end(token);
        commands.end(token);
    }
}
