//! Formats with a request a line.

pub mod events;
pub mod fields;
mod fio;
pub mod lines;
pub mod own;
mod published;

use crate::format::Format;
use crate::unit::Unit;
use events::Events;
use fields::{Fields, Found, Parsed};
use fio::Fio;
use own::Own;
use published::Msr;

/// Reads lines of one format.
pub enum Text {
    /// This project's.
    Own(Own),
    /// MSR Cambridge.
    Msr(Msr),
    /// SPC.
    Spc,
    /// DiskSim or MQSim.
    DiskSim,
    /// Alibaba.
    Alibaba,
    /// Tencent.
    Tencent,
    /// blkparse.
    Blkparse(Events),
    /// The kernel's block_rq_issue.
    Kernel(Events),
    /// fio.
    Fio(Fio),
}

impl Text {
    /// The formats, those that are read most often first.
    pub const FORMATS: [Format; 9] = [
        Format::Own,
        Format::Msr,
        Format::Spc,
        Format::DiskSim,
        Format::Alibaba,
        Format::Tencent,
        Format::Fio,
        Format::Blkparse,
        Format::Kernel,
    ];

    /// A reader of `format` for a file that begins with `head`; nothing for a binary format.
    pub fn new(format: Format, head: &[u8]) -> Option<Self> {
        Some(match format {
            Format::Own => Text::Own(Own::new(head)),
            Format::Msr => Text::Msr(Msr::default()),
            Format::Spc => Text::Spc,
            Format::DiskSim => Text::DiskSim,
            Format::Alibaba => Text::Alibaba,
            Format::Tencent => Text::Tencent,
            Format::Blkparse => Text::Blkparse(Events::new(head)),
            Format::Kernel => Text::Kernel(Events::default()),
            Format::Fio => Text::Fio(Fio::new(head)),
            Format::Packed | Format::Flat | Format::Vscsi | Format::Oracle => return None,
        })
    }

    /// The unit of time of `format` for a file that begins with `head`.
    pub fn unit(format: Format, head: &[u8]) -> Unit {
        match format {
            Format::Msr => Unit::Ticks,
            Format::Spc | Format::Tencent | Format::Blkparse | Format::Kernel => Unit::Seconds,
            Format::DiskSim => published::disksim_unit(head),
            _ => Unit::Micros,
        }
    }

    /// The request of one line, if it has one; steps over the line.
    #[inline]
    pub fn record(&mut self, line: &mut Fields<'_>, unit: Unit) -> Parsed<Option<Found>> {
        match self {
            Text::Own(own) => own.record(line, unit),
            Text::Msr(msr) => msr.record(line, unit),
            Text::Spc => published::spc(line, unit),
            Text::DiskSim => published::disksim(line, unit),
            Text::Alibaba => published::alibaba(line, unit),
            Text::Tencent => published::tencent(line, unit),
            Text::Blkparse(events) => events.blkparse(line, unit),
            Text::Kernel(events) => events.kernel(line, unit),
            Text::Fio(fio) => fio.record(line, unit),
        }
    }

    /// What the last line also asked for.
    #[inline]
    pub fn pending(&mut self) -> Option<Found> {
        match self {
            Text::Blkparse(events) | Text::Kernel(events) => events.pending.take(),
            _ => None,
        }
    }
}
