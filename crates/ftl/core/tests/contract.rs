//! Misuse of the contract's types: each panics at the place of the mistake.

use std::panic::{AssertUnwindSafe, catch_unwind};

use hostftl_core::{
    Cause, Command, Event, MAX_OUTPUTS, Out, Output, Payload, Piece, StreamDigest, Tally, Target,
    Ticket, Token,
};

/// Returns the message of the panic in `misuse`.
fn panic_message(misuse: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(misuse)).expect_err("the misuse is noticed");
    match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(other) => other.downcast::<&str>().expect("a text").to_string(),
    }
}

#[test]
fn tokens_that_must_be_returned_cannot_be_dropped() {
    assert!(panic_message(|| drop(Payload::issue(1, 8))).contains("Payload was dropped"));
    assert!(panic_message(|| drop(Ticket::issue(1))).contains("Ticket was dropped"));
    let mut payload = Payload::issue(1, 8);
    let view = payload.view_sectors(0, 1);
    assert!(panic_message(|| drop(view)).contains("View was dropped"));
    let into = Target::Data(payload.view_mut_sectors(1, 1));
    let read = Command::Read { device: 0, lba: 0, into, cause: Cause::Host };
    assert!(panic_message(|| drop(read)).contains("View was dropped"));
    payload.void();
}

#[test]
fn a_payload_is_kept_until_its_views_return() {
    let mut payload = Payload::issue(7, 8);
    let (one, two) = (payload.view_sectors(0, 4), payload.view_mut_sectors(4, 4));
    assert!(!payload.is_idle());
    payload.repay(one);
    assert!(panic_message(|| _ = payload.surrender()).contains("while a command uses it"));
    let mut other = Payload::issue(8, 8);
    assert!(panic_message(|| other.repay_mut(two)).contains("a different payload"));
    other.void();
}

#[test]
fn a_view_is_within_its_payload() {
    let mut payload = Payload::issue(1, 8);
    assert!(panic_message(|| drop(payload.view_sectors(4, 5))).contains("a view of"));
    assert!(panic_message(|| drop(payload.view(0, 0))).contains("a view of"));
    assert_eq!(payload.surrender(), 1);
}

#[test]
fn a_step_has_a_bounded_number_of_outputs() {
    let mut out = Out::new();
    for _ in 0..MAX_OUTPUTS {
        out.push(Output::Event(Event::Stopped));
    }
    assert!(panic_message(|| out.push(Output::Event(Event::Stopped))).contains("outputs"));
    assert_eq!(out.drain().count(), MAX_OUTPUTS);
    assert_eq!(out.outputs_left(), MAX_OUTPUTS);
}

#[test]
fn a_tally_is_a_sum() {
    let mut tally = Tally::single(Cause::Host, 3);
    tally.add(Cause::Pad, 5);
    tally += Tally::single(Cause::Host, 2);
    assert_eq!((tally.get(Cause::Host), tally.get(Cause::Pad), tally.total()), (5, 5, 10));
}

#[test]
fn the_digest_sees_order_content_and_time() {
    let flush = |device| Output::Submit(Token(1), Command::Flush { device });
    let digest = |list: &[(u64, Output)]| {
        let mut digest = StreamDigest::default();
        list.iter().for_each(|(now, output)| digest.absorb(*now, output));
        digest.value()
    };
    let base = digest(&[(1, flush(0)), (2, flush(1))]);
    assert_eq!(base, digest(&[(1, flush(0)), (2, flush(1))]));
    assert_ne!(base, digest(&[(1, flush(1)), (2, flush(0))]));
    assert_ne!(base, digest(&[(1, flush(0)), (3, flush(1))]));
    assert_ne!(base, digest(&[(1, flush(0))]));
}

#[test]
fn pieces_know_their_length() {
    let mut payload = Payload::issue(1, 8);
    let piece = Piece::Data(payload.view_sectors(2, 3));
    assert_eq!((piece.bytes(), Piece::zero_sectors(2).bytes()), (1536, 1024));
    piece.void();
    payload.void();
}

/// Commands are moved several times, which is most of the cost of a simulated one.
#[test]
fn commands_are_small() {
    assert!(size_of::<Piece>() <= 24, "{}", size_of::<Piece>());
    assert!(size_of::<Command>() <= 160, "{}", size_of::<Command>());
    assert!(size_of::<Output>() <= 168, "{}", size_of::<Output>());
}
