//! A synthetic workload as the user writes it: `uniform:size=4k,span=64m,count=100000,flush=64`.

use std::str::FromStr;

use hostftl_core::{SECTOR, Size};

use crate::compress::Compressibility;
use crate::error::TraceError;

/// Distribution of a workload's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Uniform over the units of the span.
    Uniform,
    /// Zipf: the unit of rank r has a probability proportional to r^-theta. Ranks are scattered
    /// over the span.
    Zipf,
    /// A percentage `share` of the requests goes to the first `hot` per cent of the span.
    Skew,
    /// Like [`Pattern::Skew`], but the hot part advances by its own length after every `every`
    /// requests.
    Moving,
    /// Sequential from the start of the span to its end, repeatedly.
    Sequential,
    /// Each unit of the span once per pass, in a new random order each pass.
    Permutation,
    /// Uniform, with 50 % reads by default.
    Mix,
    /// A mixture of flows with different addresses, lengths, reads, flushes and discards, drawn by
    /// `draw`.
    Drawn,
}

impl Pattern {
    const ALL: [(&'static str, Pattern); 9] = [
        ("uniform", Pattern::Uniform),
        ("zipf", Pattern::Zipf),
        ("skew", Pattern::Skew),
        ("hotcold", Pattern::Skew),
        ("moving", Pattern::Moving),
        ("sequential", Pattern::Sequential),
        ("permutation", Pattern::Permutation),
        ("mix", Pattern::Mix),
        ("drawn", Pattern::Drawn),
    ];

    /// Returns the options that have an effect.
    fn options(self) -> Vec<&'static str> {
        let own: &[&str] = match self {
            Pattern::Uniform | Pattern::Sequential | Pattern::Mix => &[],
            Pattern::Zipf => &["theta"],
            Pattern::Skew => &["hot", "share"],
            Pattern::Moving => &["hot", "share", "every"],
            // A read would take the place of a unit's write, so there are none.
            Pattern::Permutation => {
                return vec!["size", "span", "count", "flush", "iops", "compress", "placement"];
            }
            Pattern::Drawn => {
                return vec!["seed", "span", "count", "iops", "compress", "placement"];
            }
        };
        [&["size", "span", "count", "flush", "read", "iops", "compress", "placement"], own].concat()
    }
}

/// A synthetic workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Distribution of addresses.
    pub pattern: Pattern,
    /// Sectors of a request; requests are aligned to it. `size=`, 4k by default.
    pub size: u64,
    /// Sectors of the address range, a multiple of `size`. `span=`, 64m by default.
    pub span: u64,
    /// Number of reads and writes. `count=`, 100000 by default.
    pub count: u64,
    /// Number of writes between two flushes; 0 means no flushes. `flush=`, 0 by default.
    pub flush: u64,
    /// Percentage of reads. `read=`, 0 by default, 50 for a mix.
    pub read: u32,
    /// Arrivals per second; with 0 all requests arrive at once. `iops=`, 0 by default.
    pub iops: u64,
    /// Percentage of the span that is hot. `hot=`, 5 by default.
    pub hot: u32,
    /// Percentage of the requests that go to the hot part. `share=`, 90 by default.
    pub share: u32,
    /// Number of requests between two moves of the hot part. `every=`, 10000 by default.
    pub every: u64,
    /// Exponent of the Zipf distribution in thousandths. `theta=`, 0.99 by default.
    pub theta: u32,
    /// Number that determines the mixture of a drawn workload. `seed=`, 0 by default.
    pub draw: u64,
    /// Compressibility of the written data. `compress=`, unknown by default.
    pub compress: Option<Compressibility>,
    /// Placement id of all writes. `placement=`, 0 by default.
    pub placement: u8,
}

impl Default for Workload {
    fn default() -> Self {
        Workload {
            pattern: Pattern::Uniform,
            size: 8,
            span: 64 << 11,
            count: 100_000,
            flush: 0,
            read: 0,
            iops: 0,
            hot: 5,
            share: 90,
            every: 10_000,
            theta: 990,
            draw: 0,
            compress: None,
            placement: 0,
        }
    }
}

impl FromStr for Workload {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        workload(text).map_err(|why| TraceError::Workload { text: text.to_owned(), why })
    }
}

/// Parses the text after `synth:`.
pub(crate) fn workload(text: &str) -> Result<Workload, String> {
    let (name, options) = text.split_once(':').unwrap_or((text, ""));
    let pattern = Pattern::ALL.iter().find(|(known, _)| *known == name).map(|(_, it)| *it);
    let pattern = pattern.ok_or_else(|| {
        format!(
            "'{name}' is not a workload; use uniform, zipf, hotcold, moving, sequential, \
             permutation, mix, drawn or like:VOLUME"
        )
    })?;
    let read = if pattern == Pattern::Mix { 50 } else { 0 };
    let mut work = Workload { pattern, read, ..Workload::default() };
    let bytes = |sectors: u64| Size::exact(sectors * SECTOR as u64);
    let (mut size, mut span) = (bytes(work.size), bytes(work.span));
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option
            .split_once('=')
            .ok_or_else(|| format!("'{option}' is not an option; use the form size=4k"))?;
        let sized = || {
            let wrong = || format!("{key}={value}: expected a size such as 4k, 64m or 1.92TB");
            Size::parse(value).ok_or_else(wrong)
        };
        let number = || {
            let wrong = || format!("{key}={value}: expected a number, optionally with k, m or g");
            amount(value).ok_or_else(wrong)
        };
        if !pattern.options().contains(&key) {
            let known = pattern.options().join(", ");
            return Err(format!("'{key}' is not an option of {name}; use {known}"));
        }
        match key {
            "size" => size = sized()?,
            "span" => span = sized()?,
            "count" => work.count = number()?,
            "flush" => work.flush = number()?,
            "read" => work.read = percentage(key, number()?)?,
            "hot" => work.hot = percentage(key, number()?)?,
            "share" => work.share = percentage(key, number()?)?,
            "every" => work.every = number()?,
            "iops" => work.iops = number()?,
            "theta" => work.theta = theta(value)?,
            "seed" => work.draw = number()?,
            "placement" => work.placement = placement(value)?,
            _ => work.compress = Some(value.parse()?),
        }
    }
    checked(work, size, span)
}

/// Least span of a drawn workload, in bytes.
const MIN_DRAWN: u64 = 16 << 20;

/// Converts the sizes to sectors, and checks that the workload is possible.
fn checked(mut work: Workload, size: Size, span: Size) -> Result<Workload, String> {
    let sector = SECTOR as u64;
    let bytes = size.whole(sector);
    let bytes = bytes.map_err(|why| format!("size must be a multiple of 512 bytes: {why}"))?;
    let all = span.whole(bytes).map_err(|why| format!("span must be a multiple of size: {why}"))?;
    if work.count == 0 {
        return Err("count must be above 0".into());
    }
    if work.pattern == Pattern::Drawn && all < MIN_DRAWN {
        return Err("span must be at least 16m, because it is divided among several flows".into());
    }
    if work.hot == 0 || work.every == 0 {
        return Err("hot and every must be above 0".into());
    }
    (work.size, work.span) = (bytes / sector, all / sector);
    Ok(work)
}

fn percentage(key: &str, number: u64) -> Result<u32, String> {
    let small = u32::try_from(number).ok().filter(|number| *number <= 100);
    small.ok_or_else(|| format!("{key} is a percentage, 0 to 100"))
}

fn placement(text: &str) -> Result<u8, String> {
    text.parse().map_err(|_| format!("placement={text}: expected a placement id, 0 to 255"))
}

/// Parses an exponent such as 0.99, and returns thousandths.
fn theta(text: &str) -> Result<u32, String> {
    let number = text.parse::<f64>().ok().filter(|theta| (0.001..=10.0).contains(theta));
    let number = number.ok_or_else(|| format!("theta={text}: expected 0.001 to 10, as in 0.99"))?;
    Ok((number * 1000.0).round() as u32)
}

/// Parses a whole number with an optional binary unit: `64m` is 67,108,864.
pub(crate) fn amount(text: &str) -> Option<u64> {
    let is_plain = !text.contains(['.', 'b', 'B', ' ']);
    Size::parse(text).filter(|_| is_plain).map(Size::bytes)
}
