//! The two ends of a driver: where requests come from, and who listens in.

use hostftl_core::{Credits, Event, Input, Layer, Nanos, Output, Payload, Reply, Request, Verb};

/// What a host has for a driver.
#[derive(Debug)]
pub enum Pull {
    /// A request within the credits.
    Request(Request),
    /// A request is there, but longer than the credits allow.
    TooLong,
    /// The host has a question that [`Host::look`] answers.
    Look,
    /// Nothing now. Whoever adds work later wakes the driver's waker.
    Nothing,
    /// Nothing, and there never will be.
    Over,
}

/// Where requests come from, and where answers go. The driver calls it from its own thread only.
pub trait Host {
    /// The next request; called only while `credits.requests` is not 0.
    fn pull(&mut self, credits: Credits) -> Pull;
    /// Answers the question behind the last [`Pull::Look`], between two steps of the layer. A host
    /// that asks none has nothing to do.
    fn look(&mut self, _layer: &dyn Layer) {}
    /// Whether `pull` would give something. Called after the driver said that it will sleep.
    fn has_work(&self) -> bool;
    /// An answer to an earlier request. The host closes the ticket and takes the payload.
    fn answer(&mut self, reply: Reply);
    /// A payload that an earlier answer had to leave behind.
    fn reclaim(&mut self, payload: Payload);
    /// Something happened in the layer.
    fn event(&mut self, event: Event);
}

/// Listens to everything that goes into a layer and comes out, in order.
pub trait Tap: Send {
    /// The layer is about to take `input`.
    fn input(&mut self, now: Nanos, input: &Input);
    /// The layer is about to be told what an operator wants.
    fn verb(&mut self, now: Nanos, verb: Verb);
    /// The layer made `output` from the last input.
    fn output(&mut self, now: Nanos, output: &Output);
}
