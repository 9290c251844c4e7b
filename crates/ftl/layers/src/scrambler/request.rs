//! Acceptance and completion of requests.
//!
//! Invariants
//! - Writes and trims are processed one at a time in the order of arrival, and so are reads.
//! - A request is complete when `cursor` has reached its end and none of its commands is in flight.
//! - A complete flush or FUA request waits until everything published before it is durable. The
//!   number of published changes only grows, so the queue is answered from its front.

use hostftl_core::Request;

use super::ops::Cx;
use super::space::Space;
use crate::kit::requests::Kind;
use crate::planted::{Bug, planted};

/// Accepts a request.
pub(super) fn accept(space: &mut Space, request: Request, cx: &mut Cx) {
    let journal = space.journal();
    let pending = journal.durable() < journal.published();
    let Some(req) = cx.take_request(request, pending) else { return };
    if cx.request(req).kind == Kind::Flush {
        complete(space, req, cx);
    }
}

/// Completes a request, or lets it wait for durability.
fn complete(space: &mut Space, req: u16, cx: &mut Cx) {
    let (mark, durable) = (space.journal().published(), space.journal().durable());
    let skip = cx.request(req).kind == Kind::Flush && planted(Bug::FlushBeforeMap);
    if cx.end_request(req, mark, durable >= mark || skip) {
        space.journal_mut().demand(mark);
    }
}

/// Completes a request if none of its work is left.
pub(super) fn complete_if_over(space: &mut Space, req: u16, cx: &mut Cx) {
    if cx.requests().is_complete(req) {
        complete(space, req, cx);
    }
}

/// Acknowledges one request whose changes are durable now.
pub(super) fn answer_durable(space: &Space, cx: &mut Cx) -> bool {
    let durable = space.journal().durable();
    let covered = cx.requests().waits_for().is_some_and(|mark| mark <= durable);
    covered && cx.answer_waiting(Ok(()))
}
