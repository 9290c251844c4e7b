//! Formats with one request per line.

pub(crate) mod events;
pub(crate) mod fields;
pub(crate) mod fio;
pub(crate) mod lines;
mod lost;
pub(crate) mod own;
mod published;
mod rwbs;
mod table;
pub(crate) mod tables;
pub(crate) mod xperf;

use crate::binary::fixed::Ids;
use crate::file::TraceFile;
use crate::format::Format;
use crate::left::LeftOut;
use crate::unit::Unit;
use events::Events;
use fields::{Fields, Found, Parsed};
use fio::Fio;
use own::Own;
use published::Msr;
use table::Table;
use xperf::Xperf;

/// A parser for the lines of one format.
pub(crate) enum Text {
    /// This project's format.
    Own(Own),
    /// MSR Cambridge.
    Msr(Msr),
    /// SPC.
    Spc(Ids),
    /// DiskSim or MQSim, and whether all times must be whole numbers.
    DiskSim(Ids, bool),
    /// Alibaba.
    Alibaba,
    /// Tencent.
    Tencent(Ids),
    /// blkparse.
    Blkparse(Events),
    /// The kernel's block_rq_issue.
    Kernel(Events),
    /// fio.
    Fio(Fio),
    /// The dump of xperf.
    Xperf(Xperf),
    /// A table of another tool, or one that the user describes.
    Table(Box<Table>),
}

impl Text {
    /// Formats that are detected by their lines, the most common ones first.
    pub(crate) const FORMATS: [Format; 14] = [
        Format::Own,
        Format::Msr,
        Format::Spc,
        Format::DiskSim,
        Format::Alibaba,
        Format::Tencent,
        Format::Fio,
        Format::Systor,
        Format::Fiu,
        Format::Biosnoop,
        Format::Iosnoop,
        Format::Xperf,
        Format::Blkparse,
        Format::Kernel,
    ];

    /// Makes a parser of `format` for `file`, which begins with `head`. Returns `None` for a binary
    /// format, or if the file cannot have the format.
    pub(crate) fn new(file: &TraceFile, format: Format, head: &[u8]) -> Option<Self> {
        let addresses = file.addresses.unwrap_or_default();
        let table = |table: Table| Text::Table(Box::new(table));
        Some(match format {
            Format::Own => Text::Own(Own::new(head)),
            Format::Msr => Text::Msr(Msr::default()),
            Format::Spc => Text::Spc(addresses),
            Format::DiskSim => {
                let is_guess = file.time.is_none();
                let is_whole = is_guess && published::disksim_unit(head) == Unit::Nanos;
                Text::DiskSim(addresses, is_whole)
            }
            Format::Alibaba => Text::Alibaba,
            Format::Tencent => Text::Tencent(addresses),
            Format::Blkparse => Text::Blkparse(Events::new(head, file.dev)),
            Format::Kernel => Text::Kernel(Events::default()),
            Format::Fio => Text::Fio(Fio::new(head)),
            Format::Xperf => Text::Xperf(Xperf::default()),
            Format::Systor => table(tables::systor(head)),
            Format::Fiu => table(tables::fiu(head)),
            Format::Biosnoop => table(tables::biosnoop(head)),
            Format::Iosnoop => table(tables::iosnoop(head)),
            Format::CacheCsv => table(tables::cache(head, file.ids.unwrap_or_default(), file.op)?),
            Format::Columns => {
                table(Table::described(file.columns.as_ref()?, &file.words, file.op, head))
            }
            Format::Packed | Format::Flat | Format::Vscsi | Format::Oracle | Format::Blktrace => {
                return None;
            }
        })
    }

    /// Returns the unit of times in a file that begins with `head`.
    pub(crate) fn unit(&self, head: &[u8]) -> Unit {
        match self {
            Text::Msr(_) => Unit::Ticks,
            Text::Spc(_) | Text::Tencent(_) | Text::Blkparse(_) | Text::Kernel(_) => Unit::Seconds,
            Text::DiskSim(..) => published::disksim_unit(head),
            Text::Table(table) => table.unit(),
            Text::Own(_) | Text::Alibaba | Text::Fio(_) | Text::Xperf(_) => Unit::Micros,
        }
    }

    /// Parses one line, consumes it, and returns its request if it has one.
    #[inline]
    pub(crate) fn record(
        &mut self,
        line: &mut Fields<'_>,
        unit: Unit,
        left: &mut LeftOut,
    ) -> Parsed<Option<Found>> {
        match self {
            Text::Own(own) => own.record(line, unit, left),
            Text::Msr(msr) => msr.record(line, unit, left),
            Text::Spc(addresses) => published::spc(line, unit, *addresses, left),
            Text::DiskSim(addresses, is_whole) => {
                published::disksim(line, unit, *is_whole, *addresses, left)
            }
            Text::Alibaba => published::alibaba(line, unit, left),
            Text::Tencent(addresses) => published::tencent(line, unit, *addresses, left),
            Text::Blkparse(events) => events.blkparse(line, unit, left),
            Text::Kernel(events) => events.kernel(line, unit, left),
            Text::Fio(fio) => fio.record(line, unit, left),
            Text::Xperf(xperf) => xperf.record(line, unit, left),
            Text::Table(table) => table.record(line, unit, left),
        }
    }

    /// Returns the second request of the last line, if it has one.
    #[inline]
    pub(crate) fn pending(&mut self) -> Option<Found> {
        match self {
            Text::Blkparse(events) | Text::Kernel(events) => events.pending.take(),
            Text::Table(table) => table.pending.take(),
            _ => None,
        }
    }

    /// Returns warnings about the results, one sentence each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        match self {
            Text::Blkparse(events) | Text::Kernel(events) => events.remarks(),
            Text::Table(table) => table.remarks(),
            _ => Vec::new(),
        }
    }

    /// Returns the reason why there is no request, if the lines read so far explain it.
    pub(crate) fn reason(&self) -> Option<String> {
        match self {
            Text::Blkparse(events) => events.reason(true),
            Text::Kernel(events) => events.reason(false),
            _ => None,
        }
    }
}
