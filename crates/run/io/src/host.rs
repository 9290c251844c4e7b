//! Interfaces of a driver: the source of requests, and the observer of a layer.

use hostftl_core::{
    AdminCommand, Credits, Event, Input, Layer, Nanos, Output, Payload, Reply, Request,
};

/// Result of asking a host for work.
#[derive(Debug)]
pub enum Pull {
    /// Request within the credits.
    Request(Request),
    /// The next request is longer than the credits allow.
    TooLong,
    /// The host has a query for [`Host::query`].
    Query,
    /// No request now. The thread that adds one later must wake the driver's waker.
    Nothing,
    /// No request, now or later.
    Over,
}

/// Source of requests and receiver of replies. The driver calls it only from its own thread.
pub trait Host {
    /// Returns the next request; called only while `credits.requests` is not 0.
    fn pull(&mut self, credits: Credits) -> Pull;
    /// Executes the query of the last [`Pull::Query`], between two steps of the layer. A host
    /// without queries does not implement it.
    fn query(&mut self, _layer: &dyn Layer) {}
    /// Returns whether `pull` would return a request. Called after the driver announced that it
    /// will sleep.
    fn has_work(&self) -> bool;
    /// Delivers the reply to an earlier request. The host releases the ticket and takes the
    /// payload.
    fn answer(&mut self, reply: Reply);
    /// Returns a payload that an earlier reply could not include.
    fn reclaim(&mut self, payload: Payload);
    /// Reports an event of the layer.
    fn event(&mut self, event: Event);
}

/// Observer of all inputs and outputs of a layer, in order.
pub trait Tap: Send {
    /// Called before the layer processes `input`.
    fn input(&mut self, now: Nanos, input: &Input);
    /// Called before the layer executes an administrative command.
    fn admin_command(&mut self, now: Nanos, command: AdminCommand);
    /// Called for each output of the last input.
    fn output(&mut self, now: Nanos, output: &Output);
}
