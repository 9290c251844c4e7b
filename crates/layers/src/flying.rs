//! Commands in flight: what each token stands for, and until when it is waited for.

use alloc::vec::Vec;

use hostftl_core::{Nanos, Token};

/// The table of commands in flight, at most `MOST`: what each was for, in the words of the layer.
/// A token is an index into it.
#[derive(Debug)]
pub struct Flying<Op, const MOST: usize> {
    slots: Vec<Option<(Op, Nanos)>>,
    free: Vec<u16>,
    patience: [Nanos; 16],
    wake: Option<Nanos>,
}

impl<Op, const MOST: usize> Flying<Op, MOST> {
    /// An empty table; a command of a device is abandoned after its `patience`, by index, in ns, or
    /// never when that is 0.
    pub fn new(patience: [Nanos; 16]) -> Self {
        Flying {
            slots: (0..MOST).map(|_| None).collect(),
            free: (0..MOST as u16).rev().collect(),
            patience,
            wake: None,
        }
    }

    /// How many more commands can be in flight.
    pub fn room(&self) -> usize {
        self.free.len()
    }

    /// How many commands are in flight.
    pub fn count(&self) -> usize {
        MOST - self.free.len()
    }

    /// Whether nothing is in flight.
    pub fn is_empty(&self) -> bool {
        self.free.len() == MOST
    }

    /// Notes a command that is about to be sent, to a device or not.
    #[inline]
    pub fn begin(&mut self, now: Nanos, op: Op, device: Option<u8>) -> Token {
        let index = self.free.pop().expect("room for a command was checked");
        let mut deadline = Nanos::MAX;
        let patience = device.map_or(0, |device| self.patience[usize::from(device)]);
        if patience > 0 {
            deadline = now.saturating_add(patience);
            self.wake = Some(self.wake.map_or(deadline, |wake| wake.min(deadline)));
        }
        self.slots[index as usize] = Some((op, deadline));
        Token(index.into())
    }

    /// What a command that is over was for.
    #[inline]
    pub fn end(&mut self, token: Token) -> Op {
        let (op, _) = self.slots[token.0 as usize].take().expect("a command is over once");
        self.free.push(token.0 as u16);
        op
    }

    /// When to look for late commands.
    pub fn wake(&self) -> Option<Nanos> {
        self.wake
    }

    /// Whether a command is past its deadline; sets the next wake-up.
    pub fn any_late(&mut self, now: Nanos) -> bool {
        let earliest = self.slots.iter().flatten().map(|(_, deadline)| *deadline).min();
        self.wake = earliest.filter(|deadline| *deadline != Nanos::MAX && *deadline > now);
        earliest.is_some_and(|deadline| deadline <= now)
    }
}

impl<Op: Copy, const MOST: usize> Flying<Op, MOST> {
    /// The commands past their deadline.
    pub fn late(&self, now: Nanos) -> impl Iterator<Item = Token> + '_ {
        let is_late = move |slot: &Option<(Op, Nanos)>| slot.is_some_and(|(_, at)| at <= now);
        (0..).zip(&self.slots).filter(move |(_, slot)| is_late(slot)).map(|(at, _)| Token(at))
    }

    /// Does not wait for a command any more, although it is in flight; what it is for.
    pub fn give_up(&mut self, token: Token) -> Option<Op> {
        let (op, deadline) = self.slots[token.0 as usize].as_mut()?;
        *deadline = Nanos::MAX;
        Some(*op)
    }
}
