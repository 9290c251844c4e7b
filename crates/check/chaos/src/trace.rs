//! One line per input and output, for the replay of a failing seed and for digests of behaviour.

use hostftl_core::{Command, HostOp, Input, Output, Piece, Target};
use hostftl_format::page::crc32c;

/// Describes a command briefly.
pub(crate) fn command(command: &Command) -> String {
    match command {
        Command::Read { device, lba, into, cause } => {
            let what = if matches!(into, Target::Meta { .. }) { "meta" } else { "data" };
            format!("read {device}:{lba}+{} {what} {}", into.sectors(), cause.name())
        }
        Command::Program { device, lba, gather, tally, .. } => {
            let pieces: Vec<String> = gather.iter().map(piece).collect();
            format!("program {device}:{lba}+{} [{}]", tally.total(), pieces.join(" "))
        }
        Command::Reset { device, lba, sectors } => format!("reset {device}:{lba}+{sectors}"),
        Command::Mark { device, lba, bad } => format!("mark {device}:{lba} bad={bad}"),
        Command::Flush { device } => format!("flush {device}"),
        Command::Report { device, about, .. } => format!("report {device} {about:?}"),
        Command::Place { from, into } => {
            format!("place {} -> #{}@{}", piece(from), into.id(), into.from())
        }
        Command::Peek { from, .. } => format!("peek #{}@{}", from.id(), from.from()),
        Command::Pack { from, .. } => format!("pack #{}@{}", from.id(), from.from()),
        Command::Unpack { from, .. } => format!("unpack #{}@{}", from.id(), from.from()),
        Command::Digest { from, .. } => format!("digest #{}@{}", from.id(), from.from()),
        Command::Move { from, into, parts } => {
            let (from, to) = ((from.id(), from.from()), (into.id(), into.from()));
            format!("move {} of #{}@{} -> #{}@{}", parts.len(), from.0, from.1, to.0, to.1)
        }
        Command::Fold { into, .. } => format!("fold -> #{}@{}", into.id(), into.from()),
    }
}

fn piece(piece: &Piece) -> String {
    match piece {
        Piece::Data(view) => format!("#{}@{}+{}", view.id(), view.from(), view.bytes()),
        Piece::Meta { pages, .. } => format!("{pages} pages"),
        Piece::Zeros(bytes) => format!("zeros {bytes}"),
    }
}

/// Describes an input briefly.
pub(crate) fn input(input: &Input) -> String {
    match input {
        Input::Host(request) => {
            let what = match &request.op {
                HostOp::Read(_) => "read".into(),
                HostOp::Write { fua, .. } => format!("write fua={fua}"),
                HostOp::Flush => "flush".into(),
                HostOp::Trim { fua } => format!("trim fua={fua}"),
                HostOp::Zeroes { fua } => format!("zeroes fua={fua}"),
            };
            format!("host {} {what} {}+{}", request.ticket.id(), request.lba, request.sectors)
        }
        Input::Done(done) => {
            format!("done {} {} {:?}", done.token.0, command(&done.command), done.result)
        }
        Input::Timer => "timer".into(),
        Input::Stop => "stop".into(),
    }
}

/// Describes an output briefly.
pub(crate) fn output(output: &Output) -> String {
    match output {
        Output::Submit(token, what) => format!("submit {} {}", token.0, command(what)),
        Output::Reply(reply) => format!("reply {} {:?}", reply.ticket.id(), reply.result),
        Output::Reclaim(payload) => format!("reclaim #{}", payload.id()),
        Output::Event(event) => format!("event {event:?}"),
    }
}

/// Adds a line to a digest, without free choices of the layer: tokens, the buffers that it uses,
/// and the wording of its messages (the debug output of a string, in quotes).
pub(crate) fn weigh(digest: &mut u32, line: &str) {
    let line: String = line.split('"').step_by(2).collect();
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or_default();
    if matches!(first, "done" | "submit") {
        words.next();
    }
    *digest = crc32c(u64::from(*digest), first.as_bytes());
    for word in words {
        let word = word
            .split_once('#')
            .map_or(word, |(_, buffer)| buffer.split_once('@').map_or("", |(_, part)| part));
        *digest = crc32c(u64::from(*digest), word.as_bytes());
    }
}
