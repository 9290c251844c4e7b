//! Requests: taking them in, and answering them.
//!
//! Invariants
//! - Writes and trims are worked on one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and nothing of it is under way.
//! - A flush or a FUA request that is complete waits until all that was published before it is
//!   durable. What is published only grows, so the first in the queue is the first to be answered.

use hostftl_core::Request;

use super::ops::Cx;
use super::space::Space;
use crate::kit::requests::Kind;
use crate::planted::{Bug, planted};

/// Takes a request in.
pub(super) fn accept(space: &mut Space, request: Request, cx: &mut Cx) {
    let journal = space.journal();
    let pending = journal.durable() < journal.published();
    let Some(req) = cx.take_request(request, pending) else { return };
    if cx.request(req).kind == Kind::Flush {
        complete(space, req, cx);
    }
}

/// Answers a request that has nothing left to do, or lets it wait to be durable.
fn complete(space: &mut Space, req: u16, cx: &mut Cx) {
    let (mark, durable) = (space.journal().published(), space.journal().durable());
    let skip = cx.request(req).kind == Kind::Flush && planted(Bug::FlushBeforeMap);
    if cx.end_request(req, mark, durable >= mark || skip) {
        space.journal_mut().demand(mark);
    }
}

/// Answers a request when nothing of it is left.
pub(super) fn complete_if_over(space: &mut Space, req: u16, cx: &mut Cx) {
    if cx.requests().is_complete(req) {
        complete(space, req, cx);
    }
}

/// Answers one request that waited for what is durable now.
pub(super) fn answer_durable(space: &Space, cx: &mut Cx) -> bool {
    let durable = space.journal().durable();
    let covered = cx.requests().waits_for().is_some_and(|mark| mark <= durable);
    covered && cx.answer_waiting(Ok(()))
}
