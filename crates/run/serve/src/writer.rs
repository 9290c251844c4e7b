//! Writer thread of a connection: sends the replies that the client does not take at once, or all
//! replies under TLS.
//!
//! Invariants
//! - Every answer is settled, even when the client has disconnected, so that all buffers are
//!   returned.
//! - A client that does not read holds at most its window. While the budget has room, it holds
//!   buffers of the volume for at most [`PATIENCE`]. It is disconnected after [`STUBBORN`], or
//!   after [`PRESSED`] while others wait for memory.

use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hostftl_volume::front::{Answers, wait_writable};

use crate::channel::{Channel, NonBlocking};
use crate::outlet::{Outlet, Sending};
use crate::tls::is_slow;

/// Time after which unread replies are copied out of the volume's buffers.
pub(crate) const PATIENCE: Duration = Duration::from_millis(50);
/// Time after which a client that reads nothing is disconnected.
const STUBBORN: Duration = Duration::from_secs(60);
/// The same limit while others wait for the memory that it holds.
const PRESSED: Duration = Duration::from_secs(5);

/// Sends until no more requests come and the last one in flight is answered.
pub(crate) fn run(channel: Channel<'_>, outlet: &Outlet) {
    while outlet.wait() {
        let mut sending = outlet.sending();
        while !sending.batch.is_empty() || outlet.collect(&mut sending, false) {
            let broken = Outlet::is_broken(&sending);
            match if broken { Ok(()) } else { send(channel, outlet, &mut sending) } {
                Ok(()) => outlet.leave(&mut sending),
                Err(_) => outlet.break_connection(&mut sending, channel.socket()),
            }
        }
        drop(sending);
        if let Channel::Plain(_) = channel {
            // Other threads that found this one sending left their answers to it.
            outlet.flush();
        }
    }
}

/// Sends a batch. Replies that complete while the client is slow join it.
fn send(channel: Channel<'_>, outlet: &Outlet, sending: &mut Sending) -> io::Result<()> {
    let (begun, mut moved) = (Instant::now(), (Instant::now(), 0));
    let (budget, mut is_short) = (outlet.table.budget(), false);
    loop {
        let sent = match channel {
            Channel::Plain(socket) => outlet.send(sending, NonBlocking(socket)),
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
                let why = format!("the client read no data for {} s", most.as_secs());
                return Err(io::Error::other(why));
            }
        }
        if begun.elapsed() >= PATIENCE {
            outlet.collect(sending, true);
            // If one part finds no room, the others would not either.
            is_short = !sending.batch.iter_mut().all(|part| part.body.keep_own(budget));
        }
        if let Channel::Plain(socket) = channel {
            wait_writable(socket.as_fd(), PATIENCE);
        }
    }
}
