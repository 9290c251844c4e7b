//! One line per input and output, for the replay of a failing seed.

use hostftl_core::{Command, HostOp, Input, Output, Piece, Target};

/// A command in few words.
pub fn command(command: &Command) -> String {
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

/// An input in few words.
pub fn input(input: &Input) -> String {
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

/// An output in few words.
pub fn output(output: &Output) -> String {
    match output {
        Output::Submit(token, what) => format!("  submit {} {}", token.0, command(what)),
        Output::Reply(reply) => format!("  reply {} {:?}", reply.ticket.id(), reply.result),
        Output::Reclaim(payload) => format!("  reclaim #{}", payload.id()),
        Output::Event(event) => format!("  event {event:?}"),
    }
}
