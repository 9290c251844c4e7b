//! Compressed files, texts that are not UTF-8, and known formats that cannot be read.

use std::io::Write;

use crate::help::{error, lines, seen};

fn msr() -> String {
    lines(40, |n| format!("12816637{n:010},srv1,0,Write,{},4096,1000", n * 4096))
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn bzip2(bytes: &[u8]) -> Vec<u8> {
    let mut bzip2 = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::best());
    bzip2.write_all(bytes).unwrap();
    bzip2.finish().unwrap()
}

fn xz(bytes: &[u8], stream: liblzma::stream::Stream) -> Vec<u8> {
    let mut xz = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
    xz.write_all(bytes).unwrap();
    xz.finish().unwrap()
}

fn lzma(bytes: &[u8]) -> Vec<u8> {
    let options = liblzma::stream::LzmaOptions::new_preset(6).unwrap();
    xz(bytes, liblzma::stream::Stream::new_lzma_encoder(&options).unwrap())
}

fn lz4(bytes: &[u8]) -> Vec<u8> {
    let mut lz4 = lz4_flex::frame::FrameEncoder::new(Vec::new());
    lz4.write_all(bytes).unwrap();
    lz4.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).unwrap()
}

/// A compressor.
type Pack = fn(&[u8]) -> Vec<u8>;

/// Compressors. All formats except the last one support several members.
const PACKS: [(&str, Pack); 6] = [
    ("gz", gzip),
    ("bz2", bzip2),
    ("xz", |bytes| {
        xz(
            bytes,
            liblzma::stream::Stream::new_easy_encoder(6, liblzma::stream::Check::Crc64).unwrap(),
        )
    }),
    ("lz4", lz4),
    ("zst", zstd),
    ("lzma", lzma),
];

#[test]
fn compressed_traces_are_read_in_one_and_several_parts() {
    let text = msr();
    let (first, second) = text.split_at(text.len() / 2);
    for (name, pack) in PACKS {
        let one = seen(name, pack(text.as_bytes()), "").unwrap();
        assert_eq!((one.mix(), one.warnings()), ([0, 40, 0, 0], String::new()), "{name}");
        let parts = [pack(first.as_bytes()), pack(second.as_bytes())].concat();
        if name != "lzma" {
            assert_eq!(seen(name, parts, "").unwrap().mix(), [0, 40, 0, 0], "{name}");
        }
        let twice = pack(&pack(text.as_bytes()));
        assert_eq!(seen(name, twice, "").unwrap().mix(), [0, 40, 0, 0], "{name}");
        let whole = pack(text.as_bytes());
        let cut = error(name, &whole[..whole.len() - 20], ":format=msr");
        assert!(cut.starts_with("FILE") || cut.contains("trace FILE"), "{name}: {cut}");
    }
}

#[test]
fn padding_after_compressed_data_is_skipped_with_a_warning() {
    for (name, pack) in PACKS.into_iter().filter(|(name, _)| *name != "lz4") {
        let padded = [pack(msr().as_bytes()), vec![0; 512]].concat();
        let read = seen(&format!("padded.{name}"), padded, "").unwrap();
        assert_eq!(read.mix(), [0, 40, 0, 0], "{name}");
        assert!(read.warnings().starts_with("512 bytes after the end"), "{}", read.warnings());
    }
}

#[test]
fn texts_in_utf_16_and_with_old_line_ends_are_read() {
    let text = msr();
    let units = || text.encode_utf16();
    let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    let encoded = [
        [&b"\xff\xfe"[..], &little].concat(),
        [&b"\xfe\xff"[..], &big].concat(),
        little.clone(),
        big,
        text.replace('\n', "\r").into_bytes(),
        format!("\u{feff}{text}").into_bytes(),
    ];
    for bytes in encoded {
        assert_eq!(seen("charset", &bytes, "").unwrap().mix(), [0, 40, 0, 0]);
    }
    let long = text.repeat(3000);
    let long: Vec<u8> = long.encode_utf16().flat_map(u16::to_le_bytes).collect();
    assert_eq!(seen("utf-16-gz", gzip(&long), "").unwrap().records.len(), 120_000);
}

#[test]
fn unsupported_formats_are_named_with_the_next_step() {
    let mut tar = vec![0; 1024];
    tar[..7].copy_from_slice(b"msr.csv");
    tar[148..156].fill(b' ');
    let sum: u32 = tar[..512].iter().map(|byte| u32::from(*byte)).sum();
    tar[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let known: [(&[u8], &str); 12] = [
        (b"PK\x03\x04\x14\0\0\0\x08\0msr.csv", "it is a ZIP archive; use `unzip -p FILE |"),
        (b"PK\x03\x04\x14\0[Content_Types].xml", "an Excel workbook; save the sheet as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an Excel workbook"),
        (&tar, "a tar archive; use `tar -xOf FILE MEMBER | hostftl trace info -`"),
        (b"7z\xbc\xaf\x27\x1c\0\x04", "a 7-Zip archive"),
        (b"PERFILE2\x68\0\0\0", "a perf.data file; use `perf script -i FILE"),
        (b"\x17\x08Dtracing6", "a trace.dat file; use `trace-cmd report"),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "network packets"),
        (b"\x02\x21\x4c\x18\0\0\0\0", "an old LZ4 file; use `lz4 -dc FILE"),
        (b"PAR1\x15\x04", "a Parquet file; convert it to CSV"),
        (b"<!DOCTYPE html>\n<html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "run `git lfs pull`"),
    ];
    for (bytes, expected) in known {
        for options in ["", ":format=msr"] {
            let error = error("foreign", bytes, options);
            assert!(error.contains(expected), "{error}");
        }
    }
    assert!(error("foreign.tar.gz", gzip(&tar), "").contains("a tar archive"));
}
