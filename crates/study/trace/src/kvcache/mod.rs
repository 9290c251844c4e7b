//! The key-value cache of a language model on a drive, as a workload:
//! `kvcache:FILE,token=16k,capacity=64g`.
//!
//! The file has a request per line in the form of Mooncake's published traces: a JSON object with
//! `timestamp` in ms, `input_length` in tokens, and `hash_ids`, the ids of the prompt's blocks of
//! 512 tokens. An id stands for the block and for all blocks before it.
//!
//! A request reads the longest prefix of its blocks that the cache has, in order. The other blocks
//! are computed; those that the cache does not have are written, in order. A full cache evicts a
//! block for each, and the new block overwrites it: the cache never discards. Generated tokens are
//! not stored, because the traces do not state their blocks.

mod cache;

use std::collections::VecDeque;
use std::fmt;
use std::io::{BufRead, BufReader, Read};

use hostftl_core::{SECTOR, Size};
use serde::Deserialize;

use crate::compress::Compressibility;
use crate::error::TraceError;
use crate::file::TraceFile;
use crate::input::{self, About};
use crate::notes::Notes;
use crate::record::{Extras, Op, Record};
use cache::{Cache, Eviction};

/// Prefix of such workloads.
pub(crate) const PREFIX: &str = "kvcache:";
/// Tokens of a block.
const TOKENS: u64 = 512;
/// Maximum bytes of a line.
const MAX_LINE: u64 = 1 << 24;
/// Expected content of a line.
const REQUEST: &str =
    "a request such as {\"timestamp\": 0, \"input_length\": 700, \"hash_ids\": [0, 1]}";

/// A trace of requests to a language model, and the cache that serves them.
#[derive(Clone, Debug, PartialEq)]
pub struct KvCache {
    file: TraceFile,
    /// Sectors of a block.
    block: u64,
    /// Blocks that the cache holds.
    slots: u32,
    /// `eviction=`, lru by default.
    eviction: Eviction,
    /// `chunk=`: sectors of a read or write; blocks are transferred in such parts. 1m by default.
    chunk: u64,
    /// `head=`: number of blocks at the start of a prompt that are written with placement id 1; all
    /// others have 2. With 0, the default, writes have no placement id.
    head: usize,
    /// `compress=`: compressibility of the written data, unknown by default.
    pub compress: Option<Compressibility>,
}

impl fmt::Display for KvCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.file.fmt(f)
    }
}

/// Parses the text after `kvcache:`.
pub(crate) fn parse(text: &str) -> Result<KvCache, TraceError> {
    let wrong = |why: String| TraceError::Options { text: format!("{PREFIX}{text}"), why };
    let mut options = text.split(',');
    let file = TraceFile::new(options.next().unwrap_or_default());
    let (mut token, mut capacity) = (None, None);
    let (eviction, compress) = (Eviction::Lru, None);
    let (block, slots, chunk, head) = (0, 0, (1 << 20) / SECTOR as u64, 0);
    let mut cache = KvCache { file, block, slots, eviction, chunk, head, compress };
    for option in options.filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        let bytes = || {
            let size = Size::parse(value).map(Size::bytes).filter(|bytes| *bytes > 0);
            size.ok_or_else(|| format!("{key}={value}: expected a size such as 16k or 64g"))
        };
        match key {
            "token" => token = Some(bytes().map_err(wrong)?),
            "capacity" => capacity = Some(bytes().map_err(wrong)?),
            "chunk" => cache.chunk = sectors(key, bytes().map_err(wrong)?).map_err(wrong)?,
            "eviction" => cache.eviction = value.parse().map_err(wrong)?,
            "head" => {
                let number = || format!("head={value}: expected a number of blocks");
                cache.head = value.parse().map_err(|_| wrong(number()))?;
            }
            "compress" => cache.compress = Some(value.parse().map_err(wrong)?),
            _ => {
                let all = "token, capacity, eviction, chunk, head or compress";
                return Err(wrong(format!("'{key}' is not an option; use {all}")));
            }
        }
    }
    let (Some(token), Some(capacity)) = (token, capacity) else {
        let why = "token= (bytes of the cache per token) and capacity= (bytes of the cache) are \
                   needed, as in token=320k,capacity=1t";
        return Err(wrong(why.into()));
    };
    // 512 tokens are whole sectors for any number of bytes.
    cache.block = token * TOKENS / SECTOR as u64;
    let slots = capacity / (token * TOKENS);
    cache.slots = u32::try_from(slots).ok().filter(|slots| *slots > 0).ok_or_else(|| {
        let block = token * TOKENS;
        wrong(format!("the capacity must be 1 to 2^32 - 1 blocks of 512 tokens ({block} bytes)"))
    })?;
    Ok(cache)
}

/// Converts bytes to sectors.
fn sectors(key: &str, bytes: u64) -> Result<u64, String> {
    let is_valid = bytes.is_multiple_of(SECTOR as u64) && bytes <= 1 << 30;
    let wrong = || format!("{key}={bytes}: expected a multiple of 512 bytes, at most 1g");
    is_valid.then_some(bytes / SECTOR as u64).ok_or_else(wrong)
}

/// A line of the trace. Other fields are ignored.
#[derive(Deserialize)]
struct Line {
    timestamp: f64,
    input_length: u64,
    hash_ids: Vec<u64>,
}

/// Numbers of blocks so far.
#[derive(Clone, Copy, Debug, Default)]
struct Blocks {
    asked: u64,
    read: u64,
    written: u64,
    evicted: u64,
}

/// Records of the drive under the cache.
pub(crate) struct KvStream {
    kv: KvCache,
    lines: BufReader<Box<dyn Read + Send>>,
    about: About,
    cache: Cache,
    /// Blocks of the last request, and the rest of the first of them, that were not returned yet.
    records: VecDeque<Record>,
    line: u64,
    text: Vec<u8>,
    blocks: Blocks,
    over: bool,
}

impl KvStream {
    /// Opens the trace.
    pub(crate) fn open(kv: &KvCache) -> Result<Self, TraceError> {
        let path = || kv.file.path.clone();
        let raw = input::open(&kv.file);
        let raw = raw.map_err(|source| TraceError::Open { path: path(), source })?;
        let failed = |source| TraceError::Read { path: path(), line: 0, source };
        let input::Input { bytes, about, .. } = input::expand(raw).map_err(failed)?;
        Ok(KvStream {
            lines: BufReader::new(bytes),
            about,
            cache: Cache::new(kv.slots, kv.eviction),
            records: VecDeque::new(),
            line: 0,
            text: Vec::new(),
            blocks: Blocks::default(),
            over: false,
            kv: kv.clone(),
        })
    }

    /// Returns the fields that writes can have besides the usual ones.
    pub(crate) fn extras(&self) -> Extras {
        Extras { placement: self.kv.head > 0, ..Extras::default() }
    }

    /// Returns the notes so far.
    pub(crate) fn notes(&self) -> Notes {
        let Blocks { asked, read, written, evicted } = self.blocks;
        let mut remarks = self.about.remarks();
        remarks.push(format!(
            "of {asked} blocks the cache had {read} ({:.1} %); {written} were written and \
             {evicted} evicted",
            100.0 * read as f64 / asked.max(1) as f64
        ));
        Notes::of_remarks(remarks)
    }

    /// Reads the next line. Returns false at the end of the file.
    fn read(&mut self) -> Result<bool, TraceError> {
        let (path, line) = (self.kv.file.path.clone(), self.line);
        self.text.clear();
        let mut lines = (&mut self.lines).take(MAX_LINE);
        let read = lines.read_until(b'\n', &mut self.text);
        if read.map_err(|source| TraceError::Read { path, line, source })? == 0 {
            return Ok(false);
        }
        self.line += 1;
        if self.text.trim_ascii().is_empty() {
            return Ok(true);
        }
        let found: Line = serde_json::from_slice(&self.text)
            .map_err(|why| self.wrong(why.column(), REQUEST, why.to_string()))?;
        let blocks = found.input_length.div_ceil(TOKENS);
        if blocks != found.hash_ids.len() as u64 {
            let found = format!("{} for {} tokens", found.hash_ids.len(), found.input_length);
            return Err(self.wrong(1, "an id in hash_ids for each 512 tokens of input", found));
        }
        // Less than 584 years, so that ns fit into 64 bits.
        if !(0.0..1.8e13).contains(&found.timestamp) {
            let text = found.timestamp.to_string();
            return Err(self.wrong(1, "a timestamp in ms below 584 years", text));
        }
        self.serve((found.timestamp * 1e6) as u64, &found.hash_ids);
        Ok(true)
    }

    /// Reads the cached prefix of a prompt and writes the blocks that the cache does not have.
    fn serve(&mut self, t_ns: u64, ids: &[u64]) {
        self.blocks.asked += ids.len() as u64;
        let mut prefix = 0;
        while let Some(slot) = ids.get(prefix).and_then(|id| self.cache.touch(*id)) {
            self.transfer(t_ns, Op::Read, slot, 0);
            prefix += 1;
        }
        self.blocks.read += prefix as u64;
        for (at, id) in ids.iter().enumerate().skip(prefix) {
            if self.cache.touch(*id).is_none() {
                let (slot, evicted) = self.cache.insert(*id);
                self.blocks.written += 1;
                self.blocks.evicted += u64::from(evicted);
                let placement = match self.kv.head {
                    0 => 0,
                    head if at < head => 1,
                    _ => 2,
                };
                self.transfer(t_ns, Op::Write, slot, placement);
            }
        }
        // A block is useless without those before it, so these are evicted later.
        ids.iter().rev().for_each(|id| {
            self.cache.touch(*id);
        });
    }

    /// Adds the read or the write of a block.
    fn transfer(&mut self, t_ns: u64, op: Op, slot: u32, placement: u8) {
        let block = self.kv.block;
        let record = Record::new(t_ns, op, 0, u64::from(slot) * block, block);
        self.records.push_back(Record { placement, ..record });
    }

    fn wrong(&self, column: usize, expected: &'static str, found: String) -> TraceError {
        let (path, line) = (self.kv.file.path.clone(), self.line);
        TraceError::Line { path, line, column, expected, found }
    }
}

impl Iterator for KvStream {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.records.is_empty() && !self.over {
            match self.read() {
                Ok(more) => self.over = !more,
                Err(error) => {
                    self.over = true;
                    return Some(Err(error));
                }
            }
        }
        let block = self.records.front_mut()?;
        let chunk = Record { sectors: self.kv.chunk.min(block.sectors), ..*block };
        (block.lba, block.sectors) = (chunk.end(), block.sectors - chunk.sectors);
        self.records.pop_front_if(|block| block.sectors == 0);
        Some(Ok(chunk))
    }
}
