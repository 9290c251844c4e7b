//! Published tables with their own columns:
//!
//! - SYSTOR '17: `Timestamp,Response,IOType,LUN,Offset,Size`, in seconds and bytes
//! - FIU (SyLab): `ns pid process sector sectors R|W major minor md5`
//! - bcc's biosnoop: `TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)`
//! - perf-tools' iosnoop: `[STARTs ENDs] COMM PID TYPE DEV BLOCK BYTES LATms`
//! - libCacheSim's CSV: `version,time,op,size,lbn`, or `time,obj_id,obj_size[,op]` with such names

use hostftl_core::SECTOR;

use super::fields::Fields;
use super::table::Table;
use crate::binary::fixed::Ids;
use crate::columns::Column;
use crate::record::Op;
use crate::unit::Unit;

/// Lines that may contain the header.
const HEADER_LINES: usize = 16;
const SECTORS: u64 = SECTOR as u64;
/// Lines that iosnoop and biosnoop print around their tables.
const PROSE: &[&str] = &["Tracing ", "Ending ", "Detaching"];

/// Returns a table of SYSTOR '17.
pub(crate) fn systor(head: &[u8]) -> Table {
    let columns = vec![
        Column::Time(Unit::Seconds),
        Column::Skip,
        Column::Op,
        Column::Dev,
        Column::Offset(1),
        Column::Length(1),
    ];
    let header = lines(head).find(|line| line.to_ascii_lowercase().starts_with(b"timestamp,resp"));
    Table::new(columns, b',').with(header.unwrap_or_default(), &[], None)
}

/// Returns a table of FIU.
pub(crate) fn fiu(head: &[u8]) -> Table {
    let mut columns = vec![
        Column::Time(Unit::Nanos),
        Column::Skip,
        Column::Text,
        Column::Offset(SECTORS),
        Column::Length(SECTORS),
        Column::Op,
        Column::Major,
        Column::Minor,
    ];
    // Some files do not have the hash.
    let last = lines(head).next().and_then(|line| words(line).last().map(<[u8]>::len));
    if last.is_some_and(|length| length >= 16) {
        columns.push(Column::Skip);
    }
    Table::new(columns, b' ')
}

/// Returns a table of biosnoop. Its header determines the columns.
pub(crate) fn biosnoop(head: &[u8]) -> Table {
    let usual = b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)";
    snoop(head, b"SECTOR", usual)
}

/// Returns a table of iosnoop. Its header determines the columns.
pub(crate) fn iosnoop(head: &[u8]) -> Table {
    snoop(head, b"BLOCK", b"COMM PID TYPE DEV BLOCK BYTES LATms")
}

/// Returns the table whose header has the column `address`, or with the usual columns if there is
/// no header.
fn snoop(head: &[u8], address: &[u8], usual: &[u8]) -> Table {
    let is_header = |line: &&[u8]| {
        let has = |name: &[u8]| words(line).any(|word| word == name);
        has(address) && has(b"BYTES") && has(b"COMM")
    };
    let header = lines(head).find(is_header).unwrap_or_default();
    let names = if header.is_empty() { usual } else { header };
    let has_start = words(names).any(|word| word == b"STARTs");
    let columns = words(names).map(|word| match word {
        b"TIME(s)" | b"TIME" | b"STARTs" => Column::Time(Unit::Seconds),
        b"ENDs" if !has_start => Column::Time(Unit::Seconds),
        b"TIME(ms)" => Column::Time(Unit::Millis),
        b"TIME(us)" => Column::Time(Unit::Micros),
        b"COMM" => Column::Text,
        b"DISK" | b"DEV" => Column::Dev,
        b"T" | b"TYPE" => Column::Rwbs,
        b"SECTOR" | b"BLOCK" => Column::Offset(SECTORS),
        b"BYTES" => Column::Length(1),
        _ => Column::Skip,
    });
    Table::new(columns.collect(), b' ').with(header, PROSE, None)
}

/// Returns a table of libCacheSim, or `None` if `head` has no header with an object, its size and a
/// time.
pub(crate) fn cache(head: &[u8], ids: Ids, op: Option<Op>) -> Option<Table> {
    let header = lines(head).next()?;
    let names = header.trim_ascii_start().strip_prefix(b"#").unwrap_or(header);
    let scale = if ids == Ids::Bytes { 1 } else { SECTORS };
    let mut has = [0; 4];
    let columns: Vec<Column> = names
        .split(|&byte| byte == b',')
        .map(|name| {
            let name = name.trim_ascii().to_ascii_lowercase();
            let (role, column) = match &name[..] {
                b"time" | b"timestamp" | b"clock_time" => (0, Column::Time(Unit::Seconds)),
                b"lbn" => (1, Column::Offset(SECTORS)),
                b"obj_id" | b"obj-id" | b"object" | b"object_id" | b"obj" | b"id" => {
                    (1, Column::Offset(scale))
                }
                b"size" | b"obj_size" | b"obj-size" | b"object_size" => (2, Column::Length(1)),
                b"op" => (3, Column::Op),
                _ => return Column::Skip,
            };
            has[role] += 1;
            column
        })
        .collect();
    if has[..3] != [1, 1, 1] || has[3] > 1 {
        return None;
    }
    let is_scsi = names.to_ascii_lowercase().ends_with(b"lbn");
    let columns = columns.into_iter().map(|column| match column {
        Column::Op if is_scsi => Column::Scsi,
        column => column,
    });
    let op = if has[3] == 0 { Some(op.unwrap_or(Op::Read)) } else { None };
    Some(Table::new(columns.collect(), b',').with(header, &[], op))
}

/// Returns the first lines of `head` that are not empty, without their ends.
fn lines(head: &[u8]) -> impl Iterator<Item = &[u8]> {
    let lines = head.split(|&byte| byte == b'\n').take(HEADER_LINES);
    lines.map(<[u8]>::trim_ascii_end).filter(|line| !line.is_empty())
}

fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Returns the format if `head` is one of these tables and has a distinctive header.
pub(crate) fn has_header(head: &[u8]) -> Option<crate::format::Format> {
    use crate::format::Format;
    let starts = |line: &[u8], names: &[&[u8]]| {
        let mut words = words(line);
        names.iter().all(|name| words.any(|word| word == *name))
    };
    for line in lines(head) {
        if starts(line, &[b"COMM", b"SECTOR", b"BYTES"]) {
            return Some(Format::Biosnoop);
        }
        if starts(line, &[b"COMM", b"BLOCK", b"BYTES"]) {
            return Some(Format::Iosnoop);
        }
    }
    let first = Fields::new(head).rest().to_ascii_lowercase();
    if first.starts_with(b"timestamp,response,iotype,lun,") {
        return Some(Format::Systor);
    }
    cache(head, Ids::Sectors, None).map(|_| Format::CacheCsv)
}
