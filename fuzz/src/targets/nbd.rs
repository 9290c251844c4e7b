//! The NBD codec: what a peer sends may come in any pieces, and each gives the same conversation.

use anyhow::{Context, ensure};
use hostftl_nbd_proto::{
    BlockSizes, ClientHandshake, ClientOutcome, Command, Offer, Outcome, REQUEST_BYTES, Request,
    ServerHandshake, SimpleReply,
};

fn offer() -> Offer {
    Offer {
        name: "volume".into(),
        description: "a volume".into(),
        bytes: 1 << 30,
        flags: 0x16d,
        block: BlockSizes { min: 512, preferred: 4096, max: 1 << 20 },
    }
}

/// What a client sends after a server's greeting: each option once.
pub fn client_says() -> Vec<Vec<u8>> {
    let option = |number: u32, data: &[u8]| {
        let mut bytes = b"IHAVEOPT".to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend((data.len() as u32).to_be_bytes());
        bytes.extend(data);
        bytes
    };
    let go = b"\0\0\0\x06volume\0\x02\0\x01\0\x03";
    let options = [(1, &b"volume"[..]), (2, b""), (3, b""), (6, go), (7, go), (8, b""), (9, b"x")];
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
    corpus
}

/// What a server sends to a client that wants `volume`.
pub fn server_says() -> Vec<Vec<u8>> {
    client_says()
        .iter()
        .map(|input| {
            let mut out = Vec::new();
            let mut server = ServerHandshake::greet(&mut out);
            server.feed(&offer(), input, &mut out).expect("the corpus is good");
            out
        })
        .collect()
}

/// One request of each kind.
pub fn requests() -> Vec<Vec<u8>> {
    [Command::Read, Command::Write, Command::Flush, Command::Trim, Command::WriteZeroes]
        .map(|command| Request { flags: 1, command, cookie: 7, offset: 4096, length: 8192 })
        .map(|request| request.emit().to_vec())
        .to_vec()
}

/// Feeds `input` in pieces of `piece` bytes to `feed`, which says how much it used and whether the
/// handshake is over. Returns how much was used in all.
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

/// The server's side: whole or in pieces, the same answers.
pub fn check_server(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let talk = |piece: usize| {
        let mut out = Vec::new();
        let mut server = ServerHandshake::greet(&mut out);
        let used = in_pieces(input, piece, |bytes| {
            let (used, outcome) = server.feed(&offer(), bytes, &mut out)?;
            Ok((used, outcome != Outcome::More))
        });
        (used.map_err(|error| error.to_string()), out)
    };
    let whole = talk(input.len().max(1));
    let pieces = talk(1 + seed as usize % 40);
    ensure!(whole == pieces, "whole: {whole:?}, in pieces: {pieces:?}");
    Ok(())
}

/// The client's side: whole or in pieces, the same answers.
pub fn check_client(input: &[u8], seed: u64) -> anyhow::Result<()> {
    let talk = |piece: usize| {
        let mut out = Vec::new();
        let mut client = ClientHandshake::new("volume");
        let used = in_pieces(input, piece, |bytes| {
            let (used, outcome) = client.feed(bytes, &mut out)?;
            Ok((used, outcome != ClientOutcome::More))
        });
        (used.map_err(|error| error.to_string()), out)
    };
    let whole = talk(input.len().max(1));
    let pieces = talk(1 + seed as usize % 40);
    ensure!(whole == pieces, "whole: {whole:?}, in pieces: {pieces:?}");
    Ok(())
}

/// A request or reply that parses is emitted as the same bytes.
pub fn check_request(input: &[u8], _seed: u64) -> anyhow::Result<()> {
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
