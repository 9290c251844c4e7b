//! The NBD codec. Messages of a peer may arrive in any pieces, and every split gives the same
//! conversation.

use anyhow::{Context, ensure};
use hostftl_nbd_proto::{
    BlockSizes, CHUNK_BYTES, Chunk, ChunkHead, ClientHandshake, ClientOutcome, Command, Errno,
    Offer, Outcome, REQUEST_BYTES, Request, ServerHandshake, SimpleReply, Tls,
};

fn offer(tls: Tls) -> Offer {
    Offer {
        name: "volume".into(),
        also: None,
        held: None,
        description: "a volume".into(),
        bytes: 1 << 30,
        flags: 0x16d,
        block: BlockSizes { min: 512, preferred: 4096, max: 1 << 20 },
        contexts: vec!["base:allocation", "hostftl:state"],
        tls,
    }
}

/// Returns messages of a client after the server's greeting: each option once.
pub(super) fn client_says() -> Vec<Vec<u8>> {
    let option = |number: u32, data: &[u8]| {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let go = b"\0\0\0\x06volume\0\x02\0\x01\0\x03";
    let wish = b"\0\0\0\x06volume\0\0\0\x01\0\0\0\x0fbase:allocation";
    let options = [
        (1, &b"volume"[..]),
        (2, b""),
        (3, b""),
        (6, go),
        (7, go),
        (8, b""),
        (9, wish),
        (10, wish),
        (5, b""),
    ];
    let mut all = vec![0, 0, 0, 3];
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    for (number, data) in options {
        corpus.push([&[0, 0, 0, 3][..], &option(number, data)].concat());
        if ![1, 2, 7].contains(&number) {
            all.extend(option(number, data));
        }
    }
    all.extend(option(7, go));
    corpus.push(all);
    let secure = [option(5, b""), option(8, b""), option(10, wish), option(7, go)].concat();
    corpus.push([&[0, 0, 0, 3][..], &secure].concat());
    corpus
}

/// Returns messages of a server to a client that requests `volume`.
pub(super) fn server_says() -> Vec<Vec<u8>> {
    client_says()
        .iter()
        .map(|input| {
            let mut out = Vec::new();
            let mut server = ServerHandshake::greet(&mut out);
            server.feed(&[offer(Tls::No)], input, &mut out).expect("the corpus is good");
            out
        })
        .collect()
}

/// Returns a request of each kind.
pub(super) fn requests() -> Vec<Vec<u8>> {
    let commands = [
        Command::Read,
        Command::Write,
        Command::Flush,
        Command::Trim,
        Command::WriteZeroes,
        Command::Cache,
        Command::BlockStatus,
    ];
    commands
        .map(|command| Request { flags: 1, command, cookie: 7, offset: 4096, length: 8192 })
        .map(|request| request.emit().to_vec())
        .to_vec()
}

/// Passes `input` in pieces of `piece` bytes to `feed`, which returns the number of consumed bytes
/// and whether the handshake has ended. Returns the total number of consumed bytes.
fn in_pieces(
    input: &[u8],
    piece: usize,
    mut feed: impl FnMut(&[u8]) -> anyhow::Result<(usize, bool)>,
) -> anyhow::Result<usize> {
    let (mut used, mut seen) = (0, 0);
    while seen < input.len() {
        seen = (seen + piece).min(input.len());
        let (more, over) = feed(&input[used..seen])?;
        ensure!(more <= seen - used, "used {more} of {} bytes", seen - used);
        used += more;
        if over {
            break;
        }
    }
    Ok(used)
}

/// Checks that the server gives the same answers to a whole input and to pieces of it.
pub(super) fn check_server(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let others = Offer { name: "other".into(), ..offer(Tls::No) };
    let offers = [offer(Tls::No), others];
    let talk = |piece: usize| {
        let mut out = Vec::new();
        let mut server = ServerHandshake::greet(&mut out);
        let used = in_pieces(input, piece, |bytes| {
            let (used, outcome) = server.feed(&offers, bytes, &mut out)?;
            Ok((used, outcome != Outcome::More))
        });
        (used.map_err(|error| error.to_string()), out)
    };
    check_secure(input, 1 + seed as usize % 40)?;
    let whole = talk(input.len().max(1));
    let pieces = talk(1 + seed as usize % 40);
    // Data in the same piece as the answer to STARTTLS is an error, but data in a later piece is
    // not.
    let same = whole == pieces || seed % 4 == 1;
    ensure!(same, "whole: {whole:?}, in pieces: {pieces:?}");
    Ok(())
}

/// Checks a server that requires TLS: no transmission starts without TLS, and earlier messages have
/// no effect.
fn check_secure(input: &[u8], piece: usize) -> anyhow::Result<()> {
    let (mut out, mut secure) = (Vec::new(), false);
    let mut server = ServerHandshake::greet(&mut out);
    // The outcome depends on the pieces: no data may follow STARTTLS in the same piece.
    let _refused = in_pieces(input, piece, |bytes| {
        let (used, outcome) = server.feed(&[offer(Tls::Required)], bytes, &mut out)?;
        match outcome {
            Outcome::StartTls => {
                assert!(!secure, "TLS began twice");
                server.secured();
                secure = true;
                Ok((used, false))
            }
            Outcome::Transmission(_) => {
                assert!(secure, "it begins without TLS");
                Ok((used, true))
            }
            other => Ok((used, other == Outcome::Aborted)),
        }
    });
    Ok(())
}

/// Checks that the client gives the same answers to a whole input and to pieces of it.
pub(super) fn check_client(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let talk = |piece: usize| {
        let mut out = Vec::new();
        let mut client = ClientHandshake::new("volume");
        match seed % 4 {
            0 => client = client.structured(&["base:allocation"]),
            1 => client = client.secure(),
            _ => {}
        }
        let used = in_pieces(input, piece, |bytes| {
            let (used, outcome) = client.feed(bytes, &mut out)?;
            Ok((used, outcome != ClientOutcome::More))
        });
        (used.map_err(|error| error.to_string()), out)
    };
    let whole = talk(input.len().max(1));
    let pieces = talk(1 + seed as usize % 40);
    // Data in the same piece as the answer to STARTTLS is an error, but data in a later piece is
    // not.
    let same = whole == pieces || seed % 4 == 1;
    ensure!(same, "whole: {whole:?}, in pieces: {pieces:?}");
    Ok(())
}

/// Checks that a request or reply that parses is emitted identically.
pub(super) fn check_request(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    if let Some(bytes) = input.first_chunk::<REQUEST_BYTES>()
        && let Ok(request) = Request::parse(bytes)
    {
        ensure!(request.emit() == *bytes, "{request:?} is emitted in another way");
    }
    if let Some(bytes) = input.first_chunk()
        && let Ok(reply) = SimpleReply::parse(bytes)
    {
        let again = SimpleReply::parse(&reply.emit()).context("an emitted reply must parse")?;
        ensure!(again == reply, "{reply:?} is emitted in another way");
    }
    Ok(())
}

/// Returns a chunk of each kind.
pub(super) fn chunks() -> Vec<Vec<u8>> {
    let extents = vec![(4096, 0), (512, 3)];
    let errno = Errno::Io;
    let all = [
        Chunk::None,
        Chunk::Data { offset: 4096, bytes: b"data" },
        Chunk::Hole { offset: 4096, length: 512 },
        Chunk::Status { context: 1, extents },
        Chunk::Error { errno, offset: None, message: "why" },
        Chunk::Error { errno, offset: Some(512), message: "" },
    ];
    let emit = |chunk: &Chunk<'_>| {
        let mut out = Vec::new();
        chunk.emit(7, true, &mut out);
        out
    };
    all.iter().map(emit).collect()
}

/// Checks that a chunk that parses is emitted identically.
pub(super) fn check_chunk(input: &[u8], _seed: u64) -> anyhow::Result<()> {
    let Some((bytes, content)) = input.split_first_chunk::<CHUNK_BYTES>() else { return Ok(()) };
    let Ok(head) = ChunkHead::parse(bytes) else { return Ok(()) };
    ensure!(head.emit() == *bytes, "{head:?} is emitted in another way");
    let Some(content) = content.get(..head.length as usize) else { return Ok(()) };
    if let Ok(chunk) = Chunk::parse(head.kind, content) {
        let mut out = Vec::new();
        chunk.emit(head.cookie, head.done, &mut out);
        let whole = &input[..CHUNK_BYTES + content.len()];
        // An error with the invalid code 0 may be emitted with another code.
        let same = out == whole || matches!(chunk, Chunk::Error { .. });
        ensure!(same, "{chunk:?} is emitted in another way");
    }
    Ok(())
}
