//! Block traces: readers, writers, synthetic workloads, and dense packing of addresses.
//!
//! Everything streams with constant memory, except [`Compact`], whose documentation states the size
//! of its table.

mod binary;
mod columns;
mod compact;
mod compress;
mod cursor;
mod drawn;
mod error;
mod file;
mod foreign;
mod format;
mod grain;
mod input;
mod kvcache;
mod left;
mod like;
mod live;
mod mixture;
mod mqsim;
mod notes;
mod permutation;
mod reader;
mod record;
mod source;
mod stats;
mod synth;
mod text;
mod unit;
mod window;
mod workload;
mod write;

pub use binary::fixed::Ids;
pub use columns::{Columns, OpWords};
pub use compact::{Compact, GRANULE};
pub use compress::Compressibility;
pub use error::TraceError;
pub use file::TraceFile;
pub use format::Format;
pub use grain::Grain;
pub use input::Pipe;
pub use kvcache::KvCache;
pub use left::Left;
pub use like::{Figure, FigureUnit, Like, LikeStream, Volume};
pub use live::{Recorder, lies_on};
pub use mixture::Mixture;
pub use notes::{Notes, Place};
pub use reader::Reader;
pub use record::{Extras, Op, Record};
pub use source::{Source, Stream, Summary, Told};
pub use stats::{Curves, Gaps, Info, KindInfo, PerPage, Saved, Sizes, Stats, WorkingSet};
pub use synth::Synth;
pub use unit::Unit;
pub use workload::{Pattern, Workload};
pub use write::Writer;
