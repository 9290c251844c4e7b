//! A synthetic workload that resembles a real volume: its share of writes, sizes, working set and
//! writes per page are fitted to published statistics.

mod counts;
mod figures;
mod plan;
mod sizes;
mod stream;
mod table;

use crate::compress::Compressibility;

pub use figures::{Figure, FigureUnit};
pub use stream::LikeStream;
pub use table::Volume;

/// A volume and the scale of the workload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Like {
    /// The volume.
    pub volume: &'static Volume,
    /// Scale, above 0 and up to 1, of the week. It applies to the requests, the working set, the
    /// duration, and the writes of the most-written page.
    pub scale: f64,
    /// Number of writes between two flushes; 0 means no flushes. The statistics have no flushes.
    pub flush: u64,
    /// Compressibility of the written data, which the statistics do not have either.
    pub compress: Option<Compressibility>,
}

/// Parses options such as `volume=w66,scale=0.1,flush=64`.
pub(crate) fn parse(options: &str) -> Result<Like, String> {
    let mut like = Like { volume: &Volume::all()[0], scale: 1.0, flush: 0, compress: None };
    let mut named = false;
    for option in options.split(',').filter(|option| !option.is_empty()) {
        let (key, value) = option.split_once('=').unwrap_or(("volume", option));
        match key {
            "volume" => {
                like.volume = Volume::find(value)
                    .ok_or_else(|| format!("no volume '{value}'; use w01 to w106"))?;
                named = true;
            }
            "scale" => {
                let scale = value.parse().ok().filter(|scale| (1e-6..=1.0).contains(scale));
                like.scale = scale.ok_or_else(|| {
                    format!("scale={value}: expected a number up to 1, as in 0.1")
                })?;
            }
            "flush" => {
                like.flush = value
                    .parse()
                    .map_err(|_| format!("flush={value}: expected a number of writes"))?;
            }
            "compress" => like.compress = Some(value.parse()?),
            _ => {
                let all = "volume, scale, flush or compress";
                return Err(format!("'{key}' is not an option; use {all}"));
            }
        }
    }
    if named {
        Ok(like)
    } else {
        Err("volume is missing; use w01 to w106, as in volume=w66".into())
    }
}
