//! Commands under way: what each token stands for, its device, and until when it is waited for.

use alloc::vec::Vec;

use hostftl_core::{Nanos, Token};

/// A command under way.
#[derive(Clone, Copy, Debug)]
struct Flying<Op> {
    op: Op,
    device: Option<u8>,
    /// `Nanos::MAX` when it is waited for without end.
    deadline: Nanos,
}

/// The table of commands under way: what each was for, in the words of the engine. A token is an
/// index into it.
#[derive(Debug)]
pub struct Commands<Op> {
    slots: Vec<Option<Flying<Op>>>,
    free: Vec<u16>,
    patience: [Nanos; 16],
    wake: Option<Nanos>,
}

impl<Op: Copy> Commands<Op> {
    /// An empty table for `most` commands; one of a device is late after the device's `patience`,
    /// by index, in ns, or never when that is 0.
    pub fn new(most: u16, patience: [Nanos; 16]) -> Self {
        Commands {
            slots: (0..most).map(|_| None).collect(),
            free: (0..most).rev().collect(),
            patience,
            wake: None,
        }
    }

    /// How many more commands can be under way.
    #[inline]
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// How many commands are under way.
    pub fn count(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Whether no command is under way.
    pub fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// Notes a command that is about to be sent, to a device or not.
    ///
    /// # Panics
    /// When there is no room for one.
    #[inline]
    pub fn begin(&mut self, now: Nanos, op: Op, device: Option<u8>) -> Token {
        let index = self.free.pop().expect("room for a command was checked");
        let mut deadline = Nanos::MAX;
        let patience = device.map_or(0, |device| self.patience[usize::from(device)]);
        if patience > 0 {
            deadline = now.saturating_add(patience);
            self.wake = Some(self.wake.map_or(deadline, |wake| wake.min(deadline)));
        }
        self.slots[index as usize] = Some(Flying { op, device, deadline });
        Token(index.into())
    }

    /// What a command that is over was for.
    ///
    /// # Panics
    /// When no command with this token is under way.
    #[inline]
    pub fn end(&mut self, token: Token) -> Op {
        self.end_with_device(token).0
    }

    /// As [`Commands::end`], and the device that the command went to.
    #[inline]
    pub fn end_with_device(&mut self, token: Token) -> (Op, Option<u8>) {
        let flying = self.slots[token.0 as usize].take().expect("a command is over once");
        self.free.push(token.0 as u16);
        (flying.op, flying.device)
    }

    /// When to look for late commands.
    #[inline]
    pub fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Whether a command is past its deadline; sets the next wake-up.
    pub fn any_late(&mut self, now: Nanos) -> bool {
        let earliest = self.slots.iter().flatten().map(|flying| flying.deadline).min();
        self.wake = earliest.filter(|deadline| *deadline != Nanos::MAX && *deadline > now);
        earliest.is_some_and(|deadline| deadline <= now)
    }

    /// The commands past their deadline.
    pub fn late(&self, now: Nanos) -> impl Iterator<Item = Token> + '_ {
        let is_late = move |it: &Option<Flying<Op>>| it.is_some_and(|it| it.deadline <= now);
        (0..).zip(&self.slots).filter(move |(_, slot)| is_late(slot)).map(|(at, _)| Token(at))
    }

    /// Does not wait for a command any more, although it is under way; what it is for.
    pub fn give_up(&mut self, token: Token) -> Option<Op> {
        let flying = self.slots[token.0 as usize].as_mut()?;
        flying.deadline = Nanos::MAX;
        Some(flying.op)
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
        commands.begin(5, 2, Some(0));
        commands.begin(5, 3, None);
        assert_eq!((commands.room(), commands.wake()), (0, Some(105)));
        assert!(!commands.any_late(104));
        assert!(commands.any_late(105));
        assert_eq!(commands.late(105).collect::<Vec<_>>(), [slow]);
        assert_eq!(commands.give_up(slow), Some(1));
        assert!(!commands.any_late(1000) && commands.wake().is_none());
        assert_eq!(commands.end_with_device(slow), (1, Some(1)));
        assert_eq!((commands.room(), commands.count()), (1, 2));
    }

    #[test]
    #[should_panic(expected = "a command is over once")]
    fn a_command_is_over_once() {
        let mut commands = table();
        let token = commands.begin(0, 1, None);
        commands.end(token);
        commands.end(token);
    }
}
