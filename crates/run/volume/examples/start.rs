//! Measures the start of a `log` volume after a kill: its duration and the amount of data read.
//!
//! start fill VOLUME SIZE random|hot   make a full volume by writing its metadata; data are holes
//! start write VOLUME SIZE random|hot  the same by real writes; killed when replay is longest start
//! open VOLUME                   seconds to the first read's reply, MiB read until it was ready,
//! seconds to that, MiB of map memory
//!
//! The volume is `VOLUME` over one sparse file beside it. `random` overwrites blocks all over, so
//! that replay reads mostly map pages; `hot` overwrites a few blocks, so that it reads mostly
//! heads.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use hostftl_core::{BLOCK, DeviceInfo, MetaBuf, Page, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::{
    self, COUNTS, Counted, Entry, GRAIN, Head, Kind, PAIRS, Place, Root, seed,
};
use hostftl_format::page::crc32c;
use hostftl_format::superblock::data_window;
use hostftl_layers::{LayerConfig, LayerKind, LogAt, LogLayout};
use hostftl_volume::front::{Answer, Job, JobOp, Port};
use hostftl_volume::{CreateSpec, StartOptions, create, open};

/// Total length of heads and map pages after which a root is written.
const DELTA: u64 = 96 << 20;
/// Number of blocks that `hot` overwrites.
const HOT: u64 = 256;

type Any = Box<dyn std::error::Error>;

fn main() -> Result<(), Any> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["fill", volume, size, kind] => fill(Path::new(volume), bytes(size)?, kind == "hot"),
        ["write", volume, size, kind] => write(Path::new(volume), bytes(size)?, kind == "hot"),
        ["open", volume] => start(Path::new(volume)),
        _ => Err("usage: start fill|write VOLUME SIZE random|hot, or start open VOLUME".into()),
    }
}

/// Parses a size such as `16g` into bytes.
fn bytes(text: &str) -> Result<u64, Any> {
    Ok(hostftl_io::parse_bytes(text)?)
}

fn device_path(volume: &Path) -> PathBuf {
    volume.with_extension("data")
}

/// Creates a volume.
fn make(volume: &Path, size: u64) -> Result<LayerConfig, Any> {
    let name = device_path(volume).to_str().ok_or("the path is not UTF-8")?.to_owned();
    let mut layer = LayerConfig::new(LayerKind::Log);
    layer.log.compress = hostftl_core::Codec::Raw;
    let (path, label) = (volume.to_path_buf(), String::new());
    let made = create(&CreateSpec {
        allocate: false,
        path,
        devices: vec![name],
        size: Some(size),
        layer,
        label,
        force: false,
    })?;
    Ok(made.config.layer_config()?)
}

/// Generator of the blocks to overwrite, out of `blocks`.
struct Picker {
    state: u64,
    blocks: u64,
    hot: bool,
}

impl Picker {
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.state >> 20) % if self.hot { HOT } else { self.blocks }
    }
}

/// Checksums of zero blocks, each a sum over the bits of its seed.
struct Zeros {
    none: u32,
    bits: [u32; 64],
}

impl Zeros {
    fn new() -> Self {
        let of = |seed| crc32c(seed, &[0; BLOCK]);
        let none = of(0);
        Zeros { none, bits: std::array::from_fn(|bit| of(1 << bit) ^ none) }
    }

    fn of(&self, seed: u64) -> u32 {
        let set = (0..64).filter(|bit| seed >> bit & 1 == 1);
        set.fold(self.none, |sum, bit| sum ^ self.bits[bit])
    }
}

/// The only device, as a bit set.
const ALONE: u16 = 1;

/// Writer of the metadata of a full volume.
struct Filler {
    file: File,
    first: u64,
    layout: LogLayout,
    uuid: [u8; 16],
    zeros: Zeros,
    /// Number of images written, and the first segment with data.
    images: u64,
    data: u64,
}

impl Filler {
    fn put(&self, byte: u64, page: &Page) -> io::Result<()> {
        self.file.write_all_at(&page.0, self.first + byte)
    }

    fn row_pages(&self) -> u64 {
        self.layout.stripe_blocks()
    }

    /// Returns the byte offset of page `index` in stripes that are filled, after their heads, from
    /// segment `from` on.
    fn byte(&self, from: u64, index: u64) -> u64 {
        let (row, page) = (index / self.row_pages(), index % self.row_pages());
        let slots = u64::from(self.layout.slots);
        let (segment, slot) = ((from + row / slots) as u32, (row % slots) as u32);
        let head = u64::from(self.layout.head_pages(true));
        let at = LogAt { segment, slot, sector: 0 };
        self.layout.lba(at) * SECTOR as u64 + (head + page) * BLOCK as u64
    }

    /// Returns the location of a block after the volume was filled, and its checksum.
    fn home(&self, block: u64) -> (Place, u32) {
        let place = Place::new(0, self.byte(self.data, block), BLOCK as u32, 0);
        (place, self.zeros.of(seed(block, 0)))
    }

    fn image(&mut self, page: &Page) -> io::Result<(Place, u32)> {
        let byte = self.byte(0, self.images);
        self.images += 1;
        self.put(byte, page)?;
        Ok((Place::new(0, byte, BLOCK as u32, 0), log::page_crc(page, &self.uuid)))
    }

    /// Writes the images of counts, map and directory, and returns those that a root points at.
    fn images(&mut self) -> io::Result<Vec<(Place, u32)>> {
        let (layout, mut page) = (self.layout, Page::default());
        let each = u64::from(layout.slots) * self.row_pages();
        let count = |segment: u64| {
            let first = segment.saturating_sub(self.data) * each;
            let blocks = layout.blocks.saturating_sub(first).min(each);
            let blocks = if segment < self.data { 0 } else { blocks };
            let grains = blocks as u32 * (BLOCK as u32 / GRAIN);
            Counted { grains, members: ALONE, lacking: 0, newest: 0 }
        };
        let counts: Vec<Counted> = (0..u64::from(layout.segments)).map(count).collect();
        let mut tops = Vec::new();
        for (number, counts) in counts.chunks(COUNTS).enumerate() {
            log::emit_counts(&mut page, number as u32, counts.iter().copied());
            tops.push(self.image(&page)?);
        }
        let mut pages = Vec::new();
        for number in 0..layout.tree.pages {
            let first = u64::from(number) * PAIRS as u64;
            let blocks = first..(first + PAIRS as u64).min(layout.blocks);
            let pairs = blocks.map(|block| self.home(block));
            log::emit_page(&mut page, Kind::Map, number, pairs);
            pages.push(self.image(&page)?);
        }
        let mut directory = Vec::new();
        for (number, pairs) in pages.chunks(PAIRS).enumerate() {
            log::emit_page(&mut page, Kind::Directory, number as u32, pairs.iter().copied());
            directory.push(self.image(&page)?);
        }
        directory.extend(tops);
        Ok(directory)
    }

    /// Writes stripes of overwrites until replay reads the maximum: full ones, or stripes of one
    /// block, as a host causes that flushes after each write.
    fn rows(&self, root: &Root, from: u32, hot: bool) -> io::Result<u64> {
        let (layout, mut row) = (self.layout, 0);
        let mut picker = Picker { state: 1, blocks: layout.blocks, hot };
        let mut touched = std::collections::BTreeSet::new();
        let pages = u64::from(layout.head_pages(true));
        let entries = if hot { 1 } else { self.row_pages() };
        let sectors = (pages + entries) as u32 * SECTORS_PER_BLOCK;
        let sectors = if hot { sectors } else { layout.chunk };
        let per = u64::from(layout.chunk / sectors);
        let slots = u64::from(layout.slots);
        let mut head = MetaBuf::new(pages as usize);
        loop {
            let delta = (row * pages + touched.len() as u64) * BLOCK as u64;
            let crowd = layout.tree.frames < layout.tree.pages
                && touched.len() as u32 > layout.tree.frames / 4;
            let full = u64::from(from + layout.reserves.host + 2) + row / per / slots;
            if delta > DELTA || crowd || full >= layout.segments.into() {
                return Ok(row);
            }
            let (segment, slot) = (from + (row / per / slots) as u32, (row / per % slots) as u32);
            let at = LogAt { segment, slot, sector: (row % per) as u32 * sectors };
            let byte = layout.lba(at) * SECTOR as u64;
            for index in 0..entries {
                let block = picker.next();
                touched.insert(block / PAIRS as u64);
                let place = byte + (pages + index) * BLOCK as u64;
                let place = Place::new(0, place, BLOCK as u32, 1);
                let crc = self.zeros.of(seed(block, 1));
                let entry = Entry { kind: Kind::Data, block, place, crc };
                log::put_entry(&mut head, index as u32, &entry);
            }
            let seq = root.replay_from + row;
            let line = Head {
                seq,
                durable: seq.saturating_sub(64).max(root.durable),
                journal: 0,
                epoch: root.epoch,
                next: segment + 1,
                entries: entries as u32,
                first_sectors: sectors,
                last_sectors: sectors,
                chunks: 1,
                stream: 0,
                members: ALONE,
                next_members: ALONE,
                lacking: 0,
            };
            log::seal(&mut head, &self.uuid, layout.lba(at), &line);
            for (index, page) in head.pages().iter().enumerate() {
                self.put(byte + (index * BLOCK) as u64, page)?;
            }
            row += 1;
        }
    }

    /// Returns the newest root on the device.
    fn newest(&self) -> io::Result<Root> {
        let mut best = Root::default();
        for number in 0..2 {
            let at = self.layout.root_at(number, 0);
            let mut buf = MetaBuf::new(self.layout.root_pages() as usize);
            for (index, page) in buf.pages_mut().iter_mut().enumerate() {
                let byte = at * SECTOR as u64 + (index * BLOCK) as u64;
                self.file.read_exact_at(&mut page.0, self.first + byte)?;
            }
            let root = log::open_root(&buf, &self.uuid, at, self.layout.tree.counts);
            let root = root.unwrap_or_default();
            best = if root.number > best.number { root } else { best };
        }
        Ok(best)
    }

    /// Writes both copies of a root.
    fn root(&self, root: &Root, tops: &[(Place, u32)]) -> io::Result<()> {
        for copy in 0..2 {
            let at = self.layout.root_at(root.number, copy);
            let on_it = |&(place, crc): &(Place, u32)| (place, crc, ALONE);
            let mut buf = MetaBuf::new(self.layout.root_pages() as usize);
            log::emit_root(&mut buf, &self.uuid, at, root, tops.iter().map(on_it));
            for (index, page) in buf.pages().iter().enumerate() {
                self.put(at * SECTOR as u64 + (index * BLOCK) as u64, page)?;
            }
        }
        Ok(())
    }
}

fn fill(volume: &Path, size: u64, hot: bool) -> Result<(), Any> {
    let config = make(volume, size)?;
    let (first, sectors) = data_window(size / SECTOR as u64);
    let layout = LogLayout::new(&config, &[DeviceInfo::block(sectors, 1)]).map_err(|why| why.0)?;
    let file = OpenOptions::new().read(true).write(true).open(device_path(volume))?;
    let (uuid, first) = (config.uuid, first * SECTOR as u64);
    let images = u64::from(layout.tree.pages + layout.tree.tops());
    let each = layout.stripe_blocks() * u64::from(layout.slots);
    let data = images.div_ceil(each);
    let zeros = Zeros::new();
    let mut filler = Filler { file, first, layout, uuid, zeros, images: 0, data };
    let old = filler.newest()?;
    let tops = filler.images()?;
    let from = (data + layout.blocks.div_ceil(each)) as u32;
    let number = old.number + 1;
    let (replay_from, durable) = (1 << 20, (1 << 20) - 1);
    let mut streams = old.streams.map(|_| None);
    streams[0] =
        Some(log::Begin { segment: from, slot: 0, sector: 0, members: ALONE, ahead: None });
    let mapped = layout.blocks;
    let root = Root { number, replay_from, durable, mapped, streams, epoch: old.life, ..old };
    let rows = filler.rows(&root, from, hot)?;
    filler.root(&root, &tops)?;
    filler.file.sync_all()?;
    println!("{} blocks mapped, {rows} rows to replay", layout.blocks);
    Ok(())
}

/// Submits a job and waits for its reply.
fn ask(port: &Port, op: JobOp, offset: u64, bytes: u64) -> Result<Answer, Any> {
    let (sender, answers) = channel();
    port.submit(Job { op, offset, bytes, cookie: 0, reply: std::sync::Arc::new(sender) });
    let answer: Answer = answers.recv()?;
    answer.result.map_err(|error| format!("{error:?}"))?;
    Ok(answer)
}

fn write(volume: &Path, size: u64, hot: bool) -> Result<(), Any> {
    make(volume, size)?;
    let (running, port) = open(volume)?.start(&StartOptions::default())?;
    let (exported, mib) = (port.export().bytes, 1 << 20);
    let noise: Vec<u8> =
        (0..mib as u32).map(|at| (at.wrapping_mul(2654435761) >> 24) as u8).collect();
    for offset in (0..exported).step_by(mib) {
        let mut data = port.buffer((exported - offset).min(mib as u64) as u32);
        let length = data.len();
        data.copy_from_slice(&noise[..length]);
        ask(&port, JobOp::Write { data, fua: false }, offset, length as u64)?;
    }
    ask(&port, JobOp::Flush, 0, 0)?;
    let mut picker = Picker { state: 1, blocks: exported / BLOCK as u64, hot };
    let mut longest = 0;
    for round in 1.. {
        for _ in 0..256 {
            let mut data = port.buffer(BLOCK as u32);
            data.copy_from_slice(&noise[..BLOCK]);
            let offset = picker.next() * BLOCK as u64;
            ask(&port, JobOp::Write { data, fua: hot }, offset, BLOCK as u64)?;
        }
        let replay = running.status().layer_state.get("replay_bytes").copied().unwrap_or(0);
        longest = longest.max(replay);
        // Stop just before the next root is written.
        if replay > DELTA - (1 << 20) || round > 2000 {
            ask(&port, JobOp::Flush, 0, 0)?;
            println!("killed with {} MiB to replay", replay >> 20);
            std::process::exit(0);
        }
    }
    Ok(())
}

fn start(volume: &Path) -> Result<(), Any> {
    let begun = Instant::now();
    let (running, port) = open(volume)?.start(&StartOptions::default())?;
    let ready = begun.elapsed();
    let middle = port.export().bytes / 2 / BLOCK as u64 * BLOCK as u64;
    ask(&port, JobOp::Read(port.buffer(BLOCK as u32)), middle, BLOCK as u64)?;
    let served = begun.elapsed();
    std::thread::sleep(Duration::from_millis(300)); // The figures are updated a few times a second.
    let status = running.status();
    let read = status.layer_state.get("start_read_bytes").copied().unwrap_or(0);
    let (mib, seconds) = (read as f64 / f64::from(1 << 20), served.as_secs_f64());
    let (ready, map) = (ready.as_secs_f64(), status.memory.map_bytes >> 20);
    println!("{seconds:.2} {mib:.1} {ready:.2} {map}");
    std::process::exit(0)
}
