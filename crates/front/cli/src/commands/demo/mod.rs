//! `hostftl demo`: the main job in about a minute, in a temporary folder.

mod client;
mod server;

use std::fs::OpenOptions;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use client::{BLOCK, Client};
use server::Server;
use tempfile::TempDir;

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::bytes;

/// Workload of the advice: writes of a database with a clock, much smaller than the indirection
/// unit of the drive, whose data compresses 2:1.
const WORKLOAD: &str =
    "synth:zipf:size=8k,span=256m,count=100000,iops=200,read=30,flush=20,compress=2";
/// Layer that the advice examines and the volume uses.
const LAYER: &str = "log";
/// Blocks that the client writes, and those of them that it overwrites when the server is killed.
const BLOCKS: u64 = 24 << 10;
const OVERWRITTEN: u64 = 4 << 10;
/// Distance of consecutive writes in blocks, which has no divisor in common with [`BLOCKS`].
const STRIDE: u64 = 10_007;

/// Show the main job: advice, a volume that is killed, and a device that dies
///
/// Runs in about a minute in a temporary folder, which is removed at the end. It needs neither root
/// nor a device.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl demo")]
pub(crate) struct Args {}

/// Runs the command.
pub(super) fn run(_args: &Args, console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return Err(Failure::usage("demo has no JSON form; use the commands that it shows"));
    }
    let mut demo = Demo::new(console)?;
    demo.advice()?;
    demo.crash()?;
    demo.failed_device()?;
    demo.console.line("")?;
    demo.console.paragraph(
        "Next: `hostftl advise YOUR.csv --drive DRIVE --load 12TB/day` for your own workload and \
         drive (`hostftl models` lists drives), and `hostftl create vol.toml --device /dev/YOURS \
         --layer log` for a volume.",
    )
}

/// A demonstration in progress.
struct Demo<'a> {
    console: &'a mut Console,
    program: PathBuf,
    /// All blocks in the order of the client.
    blocks: Vec<u64>,
    server: Option<Server>,
    // Removed after the server has ended.
    folder: TempDir,
}

impl<'a> Demo<'a> {
    fn new(console: &'a mut Console) -> Result<Self, Failure> {
        let program = std::env::current_exe()
            .map_err(|error| Failure::failed(format!("cannot find this program: {error}")))?;
        let folder = tempfile::Builder::new().prefix("hostftl-demo-").tempdir();
        let folder = folder.map_err(|error| {
            let place = std::env::temp_dir();
            Failure::failed(format!(
                "cannot make a folder in {}: {error}; set TMPDIR",
                place.display()
            ))
        })?;
        let blocks = (0..BLOCKS).map(|at| at * STRIDE % BLOCKS).collect();
        Ok(Demo { console, program, blocks, server: None, folder })
    }

    fn title(&mut self, text: &str) -> Result<(), Failure> {
        self.console.line("")?;
        self.console.line(text)
    }

    /// Prints a command or a step.
    fn show(&mut self, text: &str) -> Result<(), Failure> {
        if interrupt::asked() {
            return Err(Failure::interrupted("interrupted; the demonstration is removed"));
        }
        self.console.line("")?;
        self.console.line(format_args!("$ {text}"))?;
        self.console.flush()
    }

    /// Returns a command of this program in the folder.
    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args.split(' ')).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Shows and runs a command. Returns an error if it fails, unless its code is `accepted`.
    fn run(&mut self, args: &str, accepted: i32) -> Result<(), Failure> {
        self.show(&format!("hostftl {args}"))?;
        let output = self.command(args).stderr(Stdio::inherit()).output();
        let output = output.map_err(Failure::failed)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let folder = format!("{}/", self.folder.path().display());
        self.console.lines(text.replace(&folder, "").trim_end())?;
        match output.status.code() {
            Some(code) if code == 0 || code == accepted => Ok(()),
            _ => Err(Failure::failed(format!("hostftl {args} ended with {}", output.status))),
        }
    }

    /// Starts the server.
    fn serve(&mut self, args: &str) -> Result<(), Failure> {
        self.show(&format!("hostftl {args} &"))?;
        let log = self.folder.path().join("serve.log");
        self.server = Some(Server::start(self.command(args), &log)?);
        Ok(())
    }

    /// Runs a step of a client, and prints it with the result.
    fn client(
        &mut self,
        step: &str,
        run: impl FnOnce(&mut Client, &[u64]) -> std::io::Result<()>,
    ) -> Result<(), Failure> {
        self.show(&format!("# client: {step}"))?;
        let socket = self.folder.path().join("demo.sock");
        let result = Client::new(&socket).and_then(|mut client| run(&mut client, &self.blocks));
        result.map_err(|error| Failure::failed(format!("the client could not {step}: {error}")))?;
        self.console.line("done")
    }

    fn advice(&mut self) -> Result<(), Failure> {
        self.title("1. How long does a 30 TB QLC drive last at 5 TB/day, and would a layer help?")?;
        let drive = "--drive solidigm-d5-p5316-30t --load 5TB/day --export 70% --seeds 1";
        self.run(&format!("advise {WORKLOAD} {drive} --layers {LAYER} --max-latency 2x"), 0)
    }

    fn crash(&mut self) -> Result<(), Failure> {
        self.title("2. A compressed volume with parity, whose server is killed under load")?;
        let devices = "--device a.img --device b.img --device c.img";
        let create = format!("create demo.toml {devices} --size 256M --layer {LAYER} --parity");
        self.run(&create, 0)?;
        self.serve("serve demo.toml --nbd unix:demo.sock")?;
        let size = bytes(BLOCKS * BLOCK as u64);
        self.client(&format!("write {size} in random blocks of 4 KiB, then flush"), |it, all| {
            it.write(all, 1)?;
            it.flush()
        })?;
        self.client("overwrite a sixth of it without a flush", |it, all| {
            it.write(&all[..OVERWRITTEN as usize / 2], 2)?;
            // These are in progress when the server is killed.
            it.send_writes(&all[OVERWRITTEN as usize - 32..OVERWRITTEN as usize], 2)
        })?;
        let server = self.server.take().expect("it was started");
        self.show(&format!("kill -9 {}", server.pid()))?;
        server.kill().map_err(Failure::failed)?;
        // No client is left that could miss unflushed writes, so the export keeps its name.
        self.serve("serve demo.toml --nbd unix:demo.sock --reuse-export-name")?;
        let verify = "verify each block: flushed data is there, overwritten blocks are old or new";
        self.client(verify, |it, all| {
            let (overwritten, others) = all.split_at(OVERWRITTEN as usize);
            it.verify(others, |_| 1..=1)?;
            it.verify(overwritten, |_| 1..=2)?;
            it.write(overwritten, 3)?;
            it.flush()
        })?;
        self.run("status demo.toml", 0)
    }

    fn failed_device(&mut self) -> Result<(), Failure> {
        self.title("3. A device dies: all of b.img is gone")?;
        self.show("truncate -s 0 b.img")?;
        let lost = OpenOptions::new().write(true).open(self.folder.path().join("b.img"));
        lost.and_then(|file| file.set_len(0)).map_err(Failure::failed)?;
        let step = "verify each block, and overwrite a sixth";
        self.client(step, |it, all| {
            let (overwritten, others) = all.split_at(OVERWRITTEN as usize);
            it.verify(others, |_| 1..=1)?;
            it.verify(overwritten, |_| 3..=3)?;
            it.write(overwritten, 4)?;
            it.flush()
        })?;
        // The volume needs attention until the device is replaced.
        self.run("wait demo.toml", 4)?;
        self.run("device replace demo.toml 1 new.img", 0)?;
        self.run("wait demo.toml", 0)?;
        self.client("verify each block", |it, all| {
            let (overwritten, others) = all.split_at(OVERWRITTEN as usize);
            it.verify(others, |_| 1..=1)?;
            it.verify(overwritten, |_| 4..=4)
        })?;
        self.run("status demo.toml", 0)?;
        self.server.take().expect("it was started").stop()?;
        self.run("check demo.toml --data", 0)
    }
}
