//! Keys of a flash drive's file: values, default and meaning.

use crate::text::{Key, key};

/// Keys of every flash drive.
pub(crate) const FLASH: [Key; 29] = [
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

/// Keys of every flash drive that are listed last.
pub(crate) const LIFE: [Key; 1] =
    [key("cycles", "1..=4294967295", "of the cell", "erases that a block survives")];

/// Keys of a drive that translates.
pub(crate) const BLOCK: [Key; 6] = [
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

/// Keys of a raw drive.
pub(crate) const ZONED: [Key; 9] = [
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
