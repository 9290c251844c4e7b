//! Client that knows which data must survive a crash.
//!
//! `run SOCKET STATE SEED` writes, trims, reads and flushes at random until the server is killed,
//! and stores in STATE which versions of each sector may be found afterwards. A final argument
//! `kept` expects a server that loses no acknowledged write. `check SOCKET STATE` reads every
//! sector from the restarted server and compares it. `sum STATE` prints totals. The exit code is
//! not 0 when the server broke a guarantee.

#[path = "../../tests/client/mod.rs"]
mod client;
mod content;
mod load;
mod state;

use std::io::{self, Error, ErrorKind};
use std::path::Path;
use std::process::ExitCode;

use client::{Client, send};
use hostftl_core::SECTOR;
use hostftl_nbd_proto::{Command, Request};
use load::Load;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;
use state::{SECTORS, State};

/// Start of the writer's sectors in the volume, in bytes.
const BASE: u64 = 64 << 20;
/// Sectors per read of a check.
const STRIDE: usize = 512;

/// Creates an error for a fault of the server, in contrast to a broken connection.
fn wrong(text: String) -> Error {
    Error::new(ErrorKind::InvalidData, text)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["run", socket, state, seed] => run(socket.as_ref(), state.as_ref(), seed, false),
        ["run", socket, state, seed, "kept"] => run(socket.as_ref(), state.as_ref(), seed, true),
        ["check", socket, state] => check(socket.as_ref(), state.as_ref()),
        ["sum", state] => sum(state.as_ref()),
        _ => Err(Error::other("usage: verified_writer run|check|sum [SOCKET] STATE [SEED [kept]]")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("verified_writer: {error}");
            ExitCode::FAILURE
        }
    }
}

fn connect(socket: &Path) -> io::Result<Client> {
    let client = Client::connect(socket, "")?;
    let end = BASE + (SECTORS * SECTOR) as u64;
    if client.export.bytes < end {
        return Err(Error::other(format!("the volume must have at least {end} bytes")));
    }
    Ok(client)
}

fn run(socket: &Path, path: &Path, seed: &str, kept: bool) -> io::Result<()> {
    let seed = seed.parse().map_err(|_| Error::other(format!("{seed} is no seed")))?;
    let mut state = State::load(path)?;
    let client = connect(socket)?;
    let rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut load = Load::new(client, &mut state, rng, kept);
    let broke = load.run().expect_err("it ends only with the server");
    state.save(path)?;
    match broke.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Ok(()),
        _ => Err(broke),
    }
}

/// Reads and compares all sectors, and makes the found versions the durable ones.
fn check(socket: &Path, path: &Path) -> io::Result<()> {
    let mut state = State::load(path)?;
    let mut client = connect(socket)?;
    let mut faults = Vec::new();
    for begin in (0..SECTORS).step_by(STRIDE) {
        let bytes = STRIDE * SECTOR;
        let data = ask(&mut client, Command::Read, BASE + (begin * SECTOR) as u64, bytes)?;
        for (sector, bytes) in (begin..).zip(data.chunks_exact(SECTOR)) {
            let found = content::check(sector as u64, bytes);
            faults.extend(state.survived(sector, found).err());
        }
    }
    if let Some(first) = faults.first() {
        return Err(wrong(format!("{} sectors are wrong; {first}", faults.len())));
    }
    ask(&mut client, Command::Flush, 0, 0)?;
    state.epoch = state.next;
    state.save(path)
}

fn ask(client: &mut Client, command: Command, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let request = Request { flags: 0, command, cookie: 1, offset, length: bytes as u32 };
    send(&client.stream, request, &[])?;
    let (_, result) = client.reply(|_| bytes)?;
    result.map_err(|errno| wrong(format!("{command:?} at {offset}: {errno:?}")))
}

fn sum(path: &Path) -> io::Result<()> {
    let State { answered, flushes, lost, .. } = State::load(path)?;
    println!("{answered} requests answered, {flushes} flushes kept, {lost} unflushed sectors lost");
    Ok(())
}
