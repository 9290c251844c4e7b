//! Sends what a client does not take at once, or everything when it goes through TLS.
//!
//! Invariants
//! - Every answer is settled, also when the client is gone, so that all buffers come back.
//! - A client that does not read holds no more than its window, and none of the volume's buffers
//!   for longer than [`PATIENCE`] while the budget has room; after [`STUBBORN`] it is cut off, and
//!   after [`PRESSED`] while others wait.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hostftl_volume::front::{Answers, wait_writable};

use crate::channel::{AtOnce, Channel};
use crate::outlet::{Outlet, Sending};
use crate::tls::is_slow;

/// How long a client may take to read before its replies are moved out of the volume's buffers.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);
/// How long a client may read nothing at all.
const STUBBORN: Duration = Duration::from_secs(60);
/// The same while others wait for the memory that it holds.
const PRESSED: Duration = Duration::from_secs(5);

/// Sends until the last part in flight is answered and no request comes any more.
pub(crate) fn run(channel: Channel<'_>, outlet: &Outlet) {
    while outlet.wait() {
        let mut sending = outlet.sending();
        while !sending.batch.is_empty() || outlet.collect(&mut sending, false) {
            let broken = Outlet::is_broken(&sending);
            match if broken { Ok(()) } else { send(channel, outlet, &mut sending) } {
                Ok(()) => outlet.leave(&mut sending),
                Err(_) => outlet.give_up(&mut sending, channel.socket()),
            }
        }
        drop(sending);
        if let Channel::Plain(_) = channel {
            // Whoever could not send meanwhile left it to this.
            outlet.flush();
        }
    }
}

/// Sends a batch, and what is answered meanwhile when the client is slow.
fn send(channel: Channel<'_>, outlet: &Outlet, sending: &mut Sending) -> io::Result<()> {
    let (begun, mut moved) = (Instant::now(), (Instant::now(), 0));
    let (budget, mut is_short) = (outlet.table.budget(), false);
    loop {
        let sent = match channel {
            Channel::Plain(socket) => outlet.send(sending, AtOnce(socket)),
            Channel::Secure(_) => outlet.send(sending, channel),
        };
        match sent {
            Err(error) if is_slow(&error) => {}
            other => return other,
        }
        if sending.sent() != moved.1 {
            moved = (Instant::now(), sending.sent());
        } else {
            let most = if is_short || budget.is_wanted() { PRESSED } else { STUBBORN };
            if moved.0.elapsed() >= most {
                let why = format!("the client read nothing for {} s", most.as_secs());
                return Err(io::Error::other(why));
            }
        }
        if begun.elapsed() >= PATIENCE {
            outlet.collect(sending, true);
            // When one finds no room, the others would not either.
            is_short = !sending.batch.iter_mut().all(|piece| piece.body.keep_own(budget));
        }
        if let Channel::Plain(socket) = channel {
            wait_writable(socket.as_fd(), PATIENCE);
        }
    }
}
