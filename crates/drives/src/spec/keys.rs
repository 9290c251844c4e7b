//! What the file of a device may say: each key with its values, its default and its meaning.

/// A key of a device's file, which is an option behind the device's name too.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    /// The word.
    pub key: &'static str,
    /// What it takes, with the range.
    pub values: &'static str,
    /// What holds when nothing is said; empty where the key is needed.
    pub default: &'static str,
    /// What it means.
    pub about: &'static str,
}

/// A row of a table below.
const fn key(
    key: &'static str,
    values: &'static str,
    default: &'static str,
    about: &'static str,
) -> Key {
    Key { key, values, default, about }
}

/// Of every flash drive.
const FLASH: [Key; 30] = [
    key("kind", "block|zoned|scm|emmc", "block", "which device it is; zoned: the layer translates"),
    key("cell", "slc|mlc|tlc|qlc", "", "times, energy and life of what is not given"),
    key("channels", "1..=64", "", "buses"),
    key("ways", "1..=64", "", "chips of a bus"),
    key("dies", "1..=16", "1", "dies of a chip"),
    key("planes", "1..=16", "1", "planes of a die"),
    key("pages", "2..=16384", "", "pages of a block"),
    key("page_kib", "1..=1024", "", "the size of a page"),
    key("blocks", "4..=16777216", "", "blocks of each plane; or give capacity"),
    key(
        "capacity",
        "SIZE",
        "",
        "what the host sees, below 128t; of a raw drive all of its flash; instead of blocks",
    ),
    key("stripe", "N|all", "1", "over how many planes a row lies; all makes superpages"),
    key("placements", "1..=64", "1", "placement ids (FDP reclaim unit handles) with blocks apart"),
    key("level", "0..=1048576", "0", "static wear levelling: a block so many erases behind moves"),
    key("hint", "true|false", "false", "it tells which map units live in what it collects next"),
    key("merge", "true|false", "false", "parts of a map unit wait in the buffer to become whole"),
    key("plp", "true|false", "true", "false: the buffer is lost with the power, a flush waits"),
    key("multiplane", "true|false", "false", "planes of a die work together on the same"),
    key("copyback", "true|false", "false", "copies within a plane stay off the bus"),
    key("suspend", "true|false", "false", "reads of the host interrupt programs and erases"),
    key("suspend_us", "0..=10000000", "20", "how long an interruption takes"),
    key("service", "fixed|exponential", "fixed", "exponential: times are drawn"),
    key("read_us", "0.001..=10000000", "of the cell", "reading a page"),
    key("program_us", "0.001..=10000000", "of the cell", "programming a page"),
    key("erase_us", "0..=10000000", "of the cell", "erasing a block"),
    key("bus_us", "0..=10000000", "of bus_mts", "moving a page over its bus; or give bus_mts"),
    key("bus_mts", "1..=100000", "of the cell", "transfers a µs over eight lines"),
    key("read_uj", "0..=1000000000", "82.5 mW", "energy of reading a page"),
    key("program_uj", "0..=1000000000", "82.5 mW", "energy of programming a page"),
    key("erase_uj", "0..=1000000000", "82.5 mW", "energy of erasing a block"),
    key("bus_uj", "0..=1000000000", "82.5 mW", "energy of moving a page"),
];

/// Of every flash drive, at the end.
const LIFE: [Key; 1] =
    [key("cycles", "1..=4294967295", "of the cell", "erases that a block survives")];

/// Of a drive that translates.
const BLOCK: [Key; 6] = [
    key("over_provisioning_percent", "0..=90", "", "1 - exported/physical"),
    key(
        "map_unit_kib",
        "1..=32768",
        "a row",
        "the indirection unit: rows that divide a block, or a part of a row",
    ),
    key("pools", "plane|drive", "drive", "what collects by itself; drive: superblocks"),
    key(
        "gc",
        "greedy|fifo|random|d-choices:D|cost-benefit|declining-cost",
        "greedy",
        "how the drive picks a victim",
    ),
    key("frontiers", "shared|separate|isolated", "shared", "where copies go"),
    key("write_buffer_kib", "0..=4194304", "0", "writes are answered there; 0: when programmed"),
];

/// Of a raw drive.
const ZONED: [Key; 9] = [
    key("write_pages", "1..=pages", "1", "every write is a multiple of so many rows (ws_min)"),
    key("write_best_pages", "1..=pages", "write_pages", "the best multiple (ws_opt)"),
    key("unreadable_pages", "0..=pages", "0", "rows before the pointer that can't be read"),
    key("max_open", "0..=4294967295", "0", "open segments at the most; 0: any number"),
    key("wears_out", "true|false", "false", "a segment goes offline after cycles erases"),
    key("bad_percent", "0..=50", "0", "segments that are offline from the beginning"),
    key("failing_programs_ppm", "0..=1000000", "0", "of a million programs, so many fail"),
    key("failing_erases_ppm", "0..=1000000", "0", "of a million erases, so many fail"),
    key("fault_seed", "0..=4294967295", "1", "fixes which"),
];

/// Of a storage-class memory.
const SCM: [Key; 9] = [
    key("kind", "scm", "", "memory that is written in place"),
    key("capacity", "SIZE", "", "what the host sees, below 16t, in whole pages"),
    key("spare_percent", "0..=90", "0", "of the capacity, free for levelling"),
    key("page_kib", "1..=1024", "16", "what levelling moves"),
    key("latency_ns", "1..=1000000000", "", "the time of a sector"),
    key("bus_ns", "0..=1000000000", "", "the time of a sector on the bus"),
    key(
        "level",
        "0..=1073741824",
        "0",
        "writes of a sector between two moves of its page; 0: none",
    ),
    key("overwrites_only", "true|false", "false", "moves of a layer do not count for that"),
    key("cycles", "1..=4294967295", "", "writes that a sector survives"),
];

/// Of an array of eMMC chips.
const EMMC: [Key; 9] = [
    key("kind", "emmc", "", "chips that translate by themselves, behind an FPGA"),
    key("capacity", "SIZE", "", "what the host sees, below 128t; raw: whole 2m on each chip"),
    key("chips", "1..=256", "4", "eMMC chips"),
    key("buses", "1..=256", "4", "buses to the chips"),
    key("controllers", "1..=256", "4", "controllers of the FPGA"),
    key("port", "acp|hp", "acp", "the port of the processor that data goes through"),
    key("interleave_kib", "4..=1048576", "2048", "what lies together on a chip"),
    key("access", "block|raw", "block", "raw: each chip is a parallel unit for rrpc and pblk"),
    key("service", "exponential|fixed", "exponential", "whether times are drawn"),
];

/// The keys of devices of a kind: `block`, `zoned`, `scm` or `emmc`; none of another word.
pub fn keys(kind: &str) -> impl Iterator<Item = &'static Key> {
    let (all, own, end): (&[Key], &[Key], &[Key]) = match kind {
        "block" => (&FLASH, &BLOCK, &LIFE),
        "zoned" => (&FLASH, &ZONED, &LIFE),
        "scm" => (&SCM, &[], &[]),
        "emmc" => (&EMMC, &[], &[]),
        _ => (&[], &[], &[]),
    };
    all.iter().chain(own).chain(end)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::device::DeviceSpec;

    /// The keys that the reader of a built-in device's file knows, from its own words for one
    /// that it does not know.
    fn known(device: &str) -> BTreeSet<String> {
        let error = DeviceSpec::find(&format!("{device}:nobody=1")).expect_err("no such key");
        let words = error.to_string();
        let (_, list) = words.split_once("expected one of ").expect("it names what it knows");
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    fn described(kinds: &[&str]) -> BTreeSet<String> {
        kinds.iter().flat_map(|kind| keys(kind)).map(|it| it.key.to_owned()).collect()
    }

    #[test]
    fn every_key_that_a_file_may_have_is_described_and_no_other() {
        assert_eq!(described(&["block", "zoned"]), known("tlc"));
        assert_eq!(described(&["scm"]), known("scm-m"));
        assert_eq!(described(&["emmc"]), known("olive"));
    }

    /// A number on the edge of each range is taken, and one beyond it is refused with the range.
    #[test]
    fn the_ranges_are_those_that_are_checked() {
        let mut tried = 0;
        for (kind, device) in
            [("block", "tlc"), ("zoned", "open-channel"), ("scm", "scm-m"), ("emmc", "olive")]
        {
            for it in keys(kind) {
                let Some((_, most)) = it.values.split_once("..=") else { continue };
                let Ok(most) = most.parse::<f64>() else { continue };
                if most >= f64::from(u32::MAX) {
                    continue;
                }
                let asked = format!("{device}:{}={}", it.key, most + 1.0);
                let error = DeviceSpec::find(&asked).expect_err(&asked).to_string();
                let range = it.values.replace("..=", " to ");
                let exact = format!("{} must be from {range}", it.key);
                let or = error.contains("not both") || error.contains("invalid value");
                assert!(or || error.contains(&exact), "{asked}: {error}");
                tried += 1;
            }
        }
        assert!(tried > 50, "only {tried} ranges");
    }
}
