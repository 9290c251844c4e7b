//! Known formats that cannot be read: their names, and the next step.

/// First bytes of a file, its name, and the next step, in which FILE stands for the file.
const MAGICS: [(&[u8], &str, &str); 34] = [
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "use `7z x -so FILE | hostftl trace info -`"),
    (b"Rar!\x1a\x07", "a RAR archive", "unpack it first"),
    (b"\x1f\x9d", "a file written by compress", "use `zcat FILE | hostftl trace info -`"),
    (b"\x89LZO\0", "an lzop file", "use `lzop -dc FILE | hostftl trace info -`"),
    (b"\xff\x06\0\0sNaPpY", "a Snappy file", "use `snzip -dc FILE | hostftl trace info -`"),
    (b"\x02\x21\x4c\x18", "an old LZ4 file", "use `lz4 -dc FILE | hostftl trace info -`"),
    (b"PERFILE2", "a perf.data file", "use `perf script -i FILE | hostftl trace info -`"),
    (b"2ELIFREP", "a perf.data file", "use `perf script -i FILE | hostftl trace info -`"),
    (
        b"\x17\x08Dtracing",
        "a trace.dat file",
        "use `trace-cmd report -i FILE | hostftl trace info -`",
    ),
    (b"\xd4\xc3\xb2\xa1", PCAP, PACKETS),
    (b"\xa1\xb2\xc3\xd4", PCAP, PACKETS),
    (b"\x4d\x3c\xb2\xa1", PCAP, PACKETS),
    (b"\xa1\xb2\x3c\x4d", PCAP, PACKETS),
    (b"\x0a\x0d\x0d\x0a", PCAP, PACKETS),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook", SHEET),
    (b"PAR1", "a Parquet file", TABLE),
    (b"ARROW1", "an Arrow file", TABLE),
    (b"ORC", "an ORC file", TABLE),
    (b"Obj\x01", "an Avro file", TABLE),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file", TABLE),
    (b"\x93NUMPY", "a NumPy array", TABLE),
    (b"SQLite format 3\0", "an SQLite database", TABLE),
    (b"\xc1\x1f\xfc\xc1", "a CTF trace", "use babeltrace2, and write a table"),
    (b"\xc1\xfc\x1f\xc1", "a CTF trace", "use babeltrace2, and write a table"),
    (b"\x7fELF", "a program", "name a trace"),
    (b"%PDF", "a PDF file", "name a trace"),
    (b"\x89PNG", "a picture", "name a trace"),
    (b"version https://git-lfs", "a pointer of Git LFS instead of the file", "run `git lfs pull`"),
    (b"<?xml", "an XML file", "give a definition of MQSim a name that ends in .xml"),
    (b"<!doctype html", PAGE, AGAIN),
    (b"<html", PAGE, AGAIN),
    (b"{", JSON, TABLE),
    (b"[{", JSON, TABLE),
    (
        b"\xff\xfe\0\0",
        "a UTF-32 text",
        "use `iconv -f UTF-32 -t UTF-8 FILE | hostftl trace info -`",
    ),
];
const PCAP: &str = "a capture of network packets (pcap)";
const PACKETS: &str = "name a trace of block requests";
const SHEET: &str = "save the sheet as CSV";
const TABLE: &str =
    "convert it to CSV and describe it, as in FILE:columns=time:us,op,offset:bytes,length:bytes";
const PAGE: &str = "a web page";
const AGAIN: &str = "download the trace itself";
const JSON: &str = "a JSON file";
/// First bytes of a ZIP archive: a file, or the end of an empty archive.
const ZIP: [&[u8]; 2] = [b"PK\x03\x04", b"PK\x05\x06"];
/// Bytes of a block of a tar archive.
const TAR_BLOCK: usize = 512;
/// Position of the checksum in such a block.
const TAR_SUM: std::ops::Range<usize> = 148..156;

/// Returns the name of a file that begins with `head` and the next step, or `None` if it may be a
/// trace.
pub(crate) fn name(head: &[u8]) -> Option<(&'static str, &'static str)> {
    if ZIP.iter().any(|magic| head.starts_with(magic)) {
        let has =
            |name: &[u8]| head[..head.len().min(4096)].windows(name.len()).any(|it| it == name);
        let is_sheet = has(b"[Content_Types].xml") || has(b"xl/");
        return Some(if is_sheet {
            ("an Excel workbook", SHEET)
        } else {
            ("a ZIP archive", "use `unzip -p FILE | hostftl trace info -`")
        });
    }
    if is_tar(head) {
        return Some(("a tar archive", "use `tar -xOf FILE MEMBER | hostftl trace info -`"));
    }
    let begin = head[..head.len().min(32)].to_ascii_lowercase();
    let text = begin.trim_ascii_start();
    let found = MAGICS.iter().find(|(magic, _, _)| {
        let is_text = magic.iter().all(|byte| (b' '..0x7f).contains(byte));
        let is_word = is_text && magic.to_ascii_lowercase() == *magic.to_vec();
        head.starts_with(magic) || is_word && text.starts_with(magic)
    });
    found.map(|(_, what, next)| (*what, *next))
}

/// Returns whether `head` is a block of a tar archive with a right checksum.
fn is_tar(head: &[u8]) -> bool {
    let Some(block) = head.get(..TAR_BLOCK) else { return false };
    let digits = String::from_utf8_lossy(&block[TAR_SUM]);
    let digits = digits.trim_matches(|c: char| c == ' ' || c == '\0');
    let Ok(wanted) = u32::from_str_radix(digits, 8) else { return false };
    let sum = block
        .iter()
        .enumerate()
        .map(|(at, byte)| u32::from(if TAR_SUM.contains(&at) { b' ' } else { *byte }));
    wanted > 0 && sum.sum::<u32>() == wanted
}

#[cfg(test)]
mod tests {
    use super::name;

    #[test]
    fn archives_and_captures_have_names() {
        let is = |head: &[u8]| name(head).map(|(what, _)| what);
        assert_eq!(is(b"PK\x03\x04\x14\0\0\0\x08\0msr.csv"), Some("a ZIP archive"));
        assert_eq!(is(b"PK\x03\x04\x14\0[Content_Types].xml"), Some("an Excel workbook"));
        assert_eq!(is(b"PERFILE2\0"), Some("a perf.data file"));
        assert_eq!(is(b"\n <!DOCTYPE html>\n"), Some("a web page"));
        assert_eq!(is(b"{\"fio version\": 3}"), Some("a JSON file"));
        for trace in [&b"0,W,0,4096\n"[..], b"", b"fio version 3 iolog\n", b"orc,0,0,0\n"] {
            assert_eq!(is(trace), None);
        }
        let mut block = [0; 512];
        block[..7].copy_from_slice(b"msr.csv");
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        assert_eq!(is(&block), Some("a tar archive"));
        block[0] = b'n';
        assert_eq!(is(&block), None);
    }
}
