//! `hostftl probe`: shows the indirection unit of a drive, or measures it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, IoSlice, IsTerminal, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Instant;

use hostftl_core::{BLOCK, Nanos, Page};
use hostftl_drives::DriveSpec;
use hostftl_frontend::Wrong;
use hostftl_io::{Device, Preferences};
use hostftl_nvme::Namespace;
use hostftl_sim::probe::{Cost, Modelled, Probed, Subject, probe};

use super::preferred::{hints, misalignment};
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, nanos};

/// Find the indirection unit of a drive, by timing writes if it reports none
///
/// A measurement times writes and overwrites the device. A drive model is measured in simulated
/// time.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl probe /dev/nvme0n1 --yes")]
pub(crate) struct Args {
    /// Block device, file or drive model (qlc-64k, hatl-1g:page_kib=16)
    target: String,
    /// Overwrite the device without asking
    #[arg(long)]
    yes: bool,
    /// Measure although the drive reports its unit
    #[arg(long)]
    measure: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let target = &args.target;
    let preferences = Preferences::query(target);
    let is_measured = args.measure || preferences.unit.is_none();
    if Path::new(target).exists() && is_measured && !args.yes {
        agree(target)?;
    }
    let stated = super::inspect::query(target).and_then(|facts| facts.namespace);
    if let Some(namespace) = stated.as_ref().filter(|_| !console.is_json()) {
        let sizes = super::inspect::statement(namespace);
        console.line(format!("{target}: the drive reports: {sizes}"))?;
        console.flush()?;
    }
    let probed = is_measured.then(|| of(target, args.seed)).transpose()?;
    let found = Found { target, stated: stated.as_ref(), preferences, probed: probed.as_ref() };
    if console.is_json() { found.json(console) } else { found.text(console) }
}

/// Results for a device.
struct Found<'a> {
    target: &'a str,
    stated: Option<&'a Namespace>,
    preferences: Preferences,
    /// Measurement; `None` if the drive reports its unit.
    probed: Option<&'a Probed>,
}

/// Probes a device, a file or a drive model, and overwrites its data.
pub(super) fn of(target: &str, seed: u64) -> Result<Probed, Failure> {
    let failed = |why: String| Failure::failed(format!("{target}: {why}"));
    if Path::new(target).exists() {
        let full = fs::canonicalize(target).map_err(|why| failed(why.to_string()))?;
        if let Some(user) = full.to_str().and_then(hostftl_volume::find_user) {
            return Err(failed(user));
        }
        let held = Device::open(target).map_err(|why| Failure::failed(why.to_string()))?;
        return of_held(&held, seed);
    }
    let spec = DriveSpec::find(target).map_err(|why| {
        let Failure { code, text } = Failure::from(Wrong::from(why));
        Failure { code, text: format!("{text}; no device has that name either") }
    })?;
    super::models::warn(target, &spec.left);
    let mut model = Modelled::new(&spec).map_err(failed)?;
    probe(&mut model, seed).map_err(failed)
}

/// Probes a device that this process holds, and overwrites its data.
pub(super) fn of_held(held: &Device, seed: u64) -> Result<Probed, Failure> {
    let failed = |why: String| Failure::failed(format!("{}: {why}", held.name()));
    probe(&mut Real::over(held)?, seed).map_err(failed)
}

/// Asks for permission to overwrite the device. Without a terminal, `--yes` is required.
fn agree(target: &str) -> Result<(), Failure> {
    let input = io::stdin();
    if !input.is_terminal() {
        let why = "probing overwrites the device; add --yes";
        return Err(Failure::usage(format!("{target}: {why}")));
    }
    eprint!("probing overwrites {target}. Type yes to continue: ");
    let mut answer = String::new();
    let read = input.lock().read_line(&mut answer);
    if read.is_ok() && answer.trim() == "yes" {
        Ok(())
    } else {
        Err(Failure::failed(format!("{target}: not probed")))
    }
}

impl Found<'_> {
    /// Returns the unit in bytes and its source.
    fn unit(&self) -> Option<(u64, &'static str)> {
        match self.probed {
            Some(probed) => probed.superpage.map(|bytes| (bytes, "timing")),
            None => self.preferences.unit.map(|unit| (unit.bytes, unit.source)),
        }
    }

    fn text(&self, console: &mut Console) -> Result<(), Failure> {
        let target = self.target;
        match self.unit() {
            Some((unit, source)) => {
                console.line(format!("{target}: superpage {} ({source})", bytes(unit)))?;
            }
            None if self.probed.is_some_and(Probed::is_hidden) => {
                let why = "a protected write buffer absorbs them";
                return console.line(format!("{target}: no measurement: {why}"));
            }
            None => console.line(format!("{target}: no superpage found"))?,
        }
        for (name, size) in
            [("writes", self.preferences.best_write), ("reclaims", self.preferences.reclaim_unit)]
        {
            if let Some(size) = size {
                console.field(name, format!("best in {} ({})", bytes(size.bytes), size.source))?;
            }
        }
        if self.preferences.misaligned > 0 {
            console.field("WARNING", misalignment(target, &self.preferences))?;
        }
        if let Some(probed) = self.probed {
            costs(probed, console)?;
        }
        let hints = self.unit().map(|(unit, _)| hints(unit)).unwrap_or_default();
        hints.iter().try_for_each(|(name, hint)| console.field(name, hint))
    }

    fn json(&self, console: &mut Console) -> Result<(), Failure> {
        let costs = self.probed.iter().flat_map(|it| &it.costs);
        let cost = |it: &Cost| serde_json::json!({ "bytes": it.bytes, "median_ns": it.median });
        let hints = self.unit().map(|(unit, _)| hints(unit)).unwrap_or_default();
        let hints = hints.into_iter().map(|(name, hint)| (name.to_lowercase(), hint.into()));
        let mut value = serde_json::json!({
            "target": self.target,
            "superpage_bytes": self.unit().map(|it| it.0),
            "source": self.unit().map(|it| it.1),
            "hidden": self.probed.is_some_and(Probed::is_hidden),
            "straddling": self.probed.and_then(|it| it.straddling),
            "costs": costs.map(cost).collect::<Vec<_>>(),
            "hints": hints.collect::<serde_json::Map<_, _>>(),
        });
        if let Some(stated) = self.stated {
            value["stated"] = serde_json::json!(stated);
        }
        console.value(&value)
    }
}

/// Prints the times of a measurement.
fn costs(probed: &Probed, console: &mut Console) -> Result<(), Failure> {
    for cost in &probed.costs {
        let each = cost.median as f64 / (cost.bytes as f64 / 1024.0) / 1e3;
        let text = format!("{} per write, {each:.2} us per KiB", nanos(cost.median));
        console.field(&bytes(cost.bytes), text)?;
    }
    if let Some(straddling) = probed.straddling {
        let text =
            format!("an unaligned write takes {straddling:.2} times as long as an aligned one");
        console.field("across", text)?;
    }
    Ok(())
}

/// A block device or file.
struct Real<'a> {
    file: File,
    /// Keeps the device locked.
    held: &'a Device,
    pages: Vec<Page>,
    written: u64,
}

impl<'a> Real<'a> {
    fn over(held: &'a Device) -> Result<Self, Failure> {
        let target = held.name();
        let failed = |why: io::Error| Failure::failed(format!("{target}: {why}"));
        let mut options = OpenOptions::new();
        options.write(true);
        // Without O_DIRECT the page cache is involved, but each write still reaches the device.
        let direct = options.custom_flags(libc::O_DIRECT | libc::O_DSYNC).open(target);
        let file = direct.or_else(|_| options.custom_flags(libc::O_DSYNC).open(target));
        let file = file.map_err(failed)?;
        let pages = vec![Page([0x5a; BLOCK]); 1024];
        Ok(Real { file, held, pages, written: 0 })
    }
}

impl Subject for Real<'_> {
    fn bytes(&self) -> u64 {
        self.held.bytes()
    }

    fn write(&mut self, offset: u64, bytes: u64) -> Result<Nanos, String> {
        self.written += 1;
        let count = bytes.div_ceil(BLOCK as u64) as usize;
        for page in &mut self.pages[..count] {
            page.0[..8].copy_from_slice(&self.written.to_le_bytes());
        }
        let mut slices: Vec<IoSlice> =
            self.pages[..count].iter().map(|page| IoSlice::new(&page.0)).collect();
        if let Some(last) = slices.last_mut().filter(|_| bytes < BLOCK as u64) {
            *last = IoSlice::new(&self.pages[0].0[..bytes as usize]);
        }
        let begun = Instant::now();
        let done = self.file.seek(SeekFrom::Start(offset));
        let done = done.and_then(|_| self.file.write_vectored(&slices));
        match done.map_err(|why| why.to_string())? {
            done if done as u64 == bytes => Ok(begun.elapsed().as_nanos() as Nanos),
            done => Err(format!("a write of {bytes} bytes stopped after {done}")),
        }
    }
}
