//! A drive as its TOML file describes it.

use std::path::{Path, PathBuf};

use hostftl_core::{DeviceInfo, DeviceKind, Nanos, SECTOR, Segments};
use serde::Deserialize;
use thiserror::Error;
use toml::Spanned;

/// The drives that every program has built in, by name.
const BUILT_IN: [(&str, &str); 3] = [
    ("hatl-1g", include_str!("../../../stacks/drives/hatl-1g.toml")),
    ("hatl-2g", include_str!("../../../stacks/drives/hatl-2g.toml")),
    ("hatl-32g", include_str!("../../../stacks/drives/hatl-32g.toml")),
];
/// Superblocks that the drive must have beyond what it exports: frontier, reserve and a victim.
const MIN_SPARE: u64 = 4;
/// The most superpages that a map entry can name.
const MAX_SUPERPAGES: u64 = 1 << 31;

/// A superpage-mapped drive. Lengths are in sectors, times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriveSpec {
    /// What the user called it.
    pub name: String,
    /// Sectors of a superpage, the grain in which the drive maps.
    pub superpage: u32,
    /// Superpages of a superblock, the unit of erasing.
    pub superblock: u32,
    /// Superblocks of flash.
    pub superblocks: u32,
    /// Sectors that the host sees.
    pub exported: u64,
    /// Reading a superpage.
    pub read: Nanos,
    /// Programming a superpage.
    pub program: Nanos,
    /// Erasing a superblock.
    pub erase: Nanos,
    /// Moving a superpage over the bus, in addition to reading or programming it.
    pub bus: Nanos,
}

/// Why there is no such drive.
#[derive(Debug, Error)]
pub enum DriveError {
    /// Neither a built-in drive nor a file.
    #[error("no drive '{name}': use {known}, or the path of a TOML file")]
    Unknown {
        /// What was asked for.
        name: String,
        /// The built-in names.
        known: String,
    },
    /// The file can't be read.
    #[error("{}: can't read the drive: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what it should be.
    #[error("{origin}:{line}: {why}")]
    Line {
        /// The file, or the built-in name.
        origin: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

#[derive(Clone, Copy, Deserialize)]
enum Kind {
    #[serde(rename = "superpage-mapped")]
    SuperpageMapped,
}

/// The file's keys; each keeps its place for messages.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kind: Kind,
    channels: Spanned<u32>,
    ways: Spanned<u32>,
    page_kib: Spanned<u32>,
    superpages_per_superblock: Spanned<u32>,
    exported_mib: Spanned<u64>,
    over_provisioning_percent: Spanned<f64>,
    read_us: Spanned<f64>,
    program_us: Spanned<f64>,
    erase_us: Spanned<f64>,
    bus_us: Option<Spanned<f64>>,
}

impl DriveSpec {
    /// The names of the built-in drives.
    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// The built-in drive `name`, or else the one that the file `name` describes.
    ///
    /// # Errors
    /// When there is neither, or the file does not describe a possible drive.
    pub fn find(name: &str) -> Result<Self, DriveError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(text, name);
        }
        let path = Path::new(name);
        if !path.exists() && !name.contains('/') && path.extension().is_none() {
            let known = Self::names().collect::<Vec<_>>().join(", ");
            return Err(DriveError::Unknown { name: name.to_owned(), known });
        }
        let text = std::fs::read_to_string(path)
            .map_err(|source| DriveError::Read { path: path.to_owned(), source })?;
        Self::parse(&text, name)
    }

    /// The drive that `text` describes; `origin` is its name in messages.
    ///
    /// # Errors
    /// The line that is wrong, and why.
    pub fn parse(text: &str, origin: &str) -> Result<Self, DriveError> {
        let fault = |at: usize, why: String| DriveError::Line {
            origin: origin.to_owned(),
            line: 1 + text.bytes().take(at).filter(|&byte| byte == b'\n').count(),
            why,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            fault(error.span().map_or(0, |span| span.start), error.message().replace('\n', " "))
        })?;
        file.spec(origin).map_err(|(at, why)| fault(at, why))
    }

    /// What the host sees of the drive. Its write buffer is protected against power loss.
    pub fn device_info(&self) -> DeviceInfo {
        let block = DeviceInfo::block(self.exported, self.superpage);
        DeviceInfo { volatile_cache: false, discard: true, ..block }
    }

    /// What the drive's own translation sees of the flash: superblocks are segments.
    pub fn flash_info(&self) -> DeviceInfo {
        let segments = Segments {
            size: self.superblock * self.superpage,
            write_unit: self.superpage,
            count: self.superblocks,
        };
        DeviceInfo {
            sectors: u64::from(segments.size) * u64::from(segments.count),
            map_unit: self.superpage,
            discard: false,
            placements: 1,
            volatile_cache: false,
            kind: DeviceKind::Zoned(segments),
        }
    }
}

/// Where in the file, and what is wrong there.
type Fault = (usize, String);

impl File {
    fn spec(&self, name: &str) -> Result<DriveSpec, Fault> {
        let Kind::SuperpageMapped = self.kind;
        let channels = within("channels", &self.channels, 1, 64)?;
        let ways = within("ways", &self.ways, 1, 64)?;
        let page = within("page_kib", &self.page_kib, 1, 1024)?;
        let superpage = channels * ways * page * (1024 / SECTOR as u32);
        if superpage > 1 << 16 {
            let why = "channels * ways * page_kib is a superpage; it can't be above 32 MiB";
            return Err((self.page_kib.span().start, why.into()));
        }
        let superblock =
            within("superpages_per_superblock", &self.superpages_per_superblock, 2, 1 << 14)?;
        let exported =
            within("exported_mib", &self.exported_mib, 1, 1 << 27)? * ((1 << 20) / SECTOR as u64);
        if !exported.is_multiple_of(superpage.into()) {
            let why = "exported_mib must be a whole number of superpages";
            return Err((self.exported_mib.span().start, why.into()));
        }
        let spare = *self.over_provisioning_percent.get_ref();
        let at = self.over_provisioning_percent.span().start;
        if !(0.0..=90.0).contains(&spare) {
            return Err((at, "over_provisioning_percent must be from 0 to 90".into()));
        }
        let segment = u64::from(superblock) * u64::from(superpage);
        let physical = exported as f64 / (1.0 - spare / 100.0);
        let superblocks = (physical / segment as f64).ceil() as u64;
        let least = exported.div_ceil(segment) + MIN_SPARE;
        if superblocks < least {
            return Err((
                at,
                format!(
                    "over_provisioning_percent = {spare} gives {superblocks} superblocks, but \
                     the drive needs {least} to collect: make it larger, or superblocks smaller"
                ),
            ));
        }
        if superblocks * u64::from(superblock) >= MAX_SUPERPAGES {
            let why = "exported_mib gives more than 2^31 superpages: make superpages larger";
            return Err((self.exported_mib.span().start, why.into()));
        }
        Ok(DriveSpec {
            name: name.to_owned(),
            superpage,
            superblock,
            superblocks: superblocks as u32,
            exported,
            read: nanos("read_us", &self.read_us, 0.001)?,
            program: nanos("program_us", &self.program_us, 0.001)?,
            erase: nanos("erase_us", &self.erase_us, 0.0)?,
            bus: self.bus_us.as_ref().map_or(Ok(0), |bus| nanos("bus_us", bus, 0.0))?,
        })
    }
}

fn within<T>(key: &str, value: &Spanned<T>, least: T, most: T) -> Result<T, Fault>
where
    T: Copy + PartialOrd + std::fmt::Display,
{
    let number = *value.get_ref();
    if number < least || number > most {
        return Err((value.span().start, format!("{key} must be from {least} to {most}")));
    }
    Ok(number)
}

/// Microseconds as nanoseconds, up to ten seconds.
fn nanos(key: &str, value: &Spanned<f64>, least: f64) -> Result<Nanos, Fault> {
    Ok((within(key, value, least, 1e7)? * 1000.0).round() as Nanos)
}
