//! Keys of a flash drive's file: values, default and meaning.

use crate::text::{Key, key};

/// Keys of every flash drive.
pub(crate) const FLASH: [Key; 36] = [
    key("cell", "slc|mlc|tlc|qlc", "", "cell type; sets the default times, energy and endurance"),
    key("channels", "1..=64", "", "number of channels, each with a bus"),
    key("ways", "1..=64", "", "number of chips per channel"),
    key("dies", "1..=16", "1", "number of dies per chip"),
    key("planes", "1..=16", "1", "number of planes per die"),
    key("pages", "2..=16384", "", "number of pages per block"),
    key("page_kib", "1..=1024", "", "page size in KiB"),
    key("blocks", "4..=16777216", "", "number of blocks per plane; alternative to capacity"),
    key(
        "capacity",
        "SIZE",
        "",
        "capacity that the host sees, below 128t; of a raw drive, all of its flash; alternative \
         to blocks",
    ),
    key("nominal", "SIZE", "capacity", "capacity of the whole drive of which the model is a slice"),
    key(
        "nominal_pages",
        "2..=16384",
        "pages",
        "number of pages per block of the whole drive; erase_us is reduced in proportion for \
         shorter blocks",
    ),
    key("stripe", "N|all", "1", "number of planes per row; all: superpages over all planes"),
    key(
        "placements",
        "1..=64",
        "1",
        "number of placement IDs (FDP reclaim unit handles), each with an open block of its own",
    ),
    key(
        "level",
        "0..=1048576",
        "0",
        "threshold of static wear levelling: erases by which a block may lag before its data is \
         moved; 0: off",
    ),
    key("hint", "true|false", "false", "report of the valid map units of the next GC victim"),
    key(
        "merge",
        "true|false",
        "false",
        "merging of partial map units in the write buffer until they are complete",
    ),
    key(
        "plp",
        "true|false",
        "true",
        "power-loss protection of the write buffer; false: volatile buffer, and a flush waits \
         until it is programmed",
    ),
    key(
        "multiplane",
        "true|false",
        "false",
        "joint operation of the planes of a die, all with the same command",
    ),
    key("copyback", "true|false", "false", "copies within a plane without bus transfers"),
    key("suspend", "true|false", "false", "suspension of programs and erases for host reads"),
    key("suspend_us", "0..=10000000", "20", "time to suspend a program or erase, in µs"),
    key(
        "reads_first",
        "true|false",
        "false",
        "start of GC reads before queued programs; requires suspend",
    ),
    key(
        "service",
        "fixed|exponential",
        "fixed",
        "distribution of flash times; exponential: random, with the given times as means",
    ),
    key("read_us", "0.001..=10000000", "from cell", "time of a page read in µs"),
    key("program_us", "0.001..=10000000", "from cell", "time of a page program in µs"),
    key("erase_us", "0..=10000000", "from cell", "time of a block erase in µs"),
    key(
        "bus_us",
        "0..=10000000",
        "from bus_mts",
        "bus time of a page in µs; alternative to bus_mts",
    ),
    key("bus_mts", "1..=100000", "from cell", "bus speed in MT/s (8 bits per transfer)"),
    key("program_dies", "0..=16384", "0", "maximum number of programming dies; 0: no limit"),
    key("link_mbs", "0..=1000000", "0", "host link speed per direction in MB/s; 0: no limit"),
    key("command_us", "0..=10000000", "0", "controller time per command in µs, one at a time"),
    key("latency_us", "0..=10000000", "0", "added latency per command in µs"),
    key("read_uj", "0..=1000000000", "82.5 mW", "energy of a page read in µJ"),
    key("program_uj", "0..=1000000000", "82.5 mW", "energy of a page program in µJ"),
    key("erase_uj", "0..=1000000000", "82.5 mW", "energy of a block erase in µJ"),
    key("bus_uj", "0..=1000000000", "82.5 mW", "energy of a page transfer on the bus in µJ"),
];

/// Keys of every flash drive that are listed last.
pub(crate) const LIFE: [Key; 1] =
    [key("cycles", "1..=4294967295", "from cell", "endurance of a block in erases")];

/// Keys of a drive that translates.
pub(crate) const BLOCK: [Key; 8] = [
    key(
        "over_provisioning_percent",
        "0..=90",
        "",
        "over-provisioning in percent of the physical capacity",
    ),
    key(
        "map_unit_kib",
        "1..=32768",
        "a row",
        "indirection unit in KiB: a part of a row, or rows that divide a block",
    ),
    key(
        "pools",
        "plane|drive",
        "drive",
        "scope of garbage collection; plane: each plane by itself; drive: superblocks over all \
         planes",
    ),
    key(
        "gc",
        "greedy|fifo|random|d-choices:D|cost-benefit|declining-cost",
        "greedy",
        "victim policy of garbage collection",
    ),
    key(
        "gc_early_percent",
        "0..=90",
        "0",
        "free space, in percent of the exported capacity, below which garbage collection starts \
         before it is necessary; 0: off",
    ),
    key(
        "gc_early_copies",
        "0.01..=1000",
        "5",
        "maximum number of copies per host write of early garbage collection",
    ),
    key(
        "frontiers",
        "shared|separate|isolated",
        "shared",
        "open block for GC copies; shared: that of the placement ID's host writes (persistently \
         isolated handles of FDP); separate: one block for all placement IDs (initially isolated \
         handles); isolated: one block per placement ID (persistently isolated, copies apart)",
    ),
    key(
        "write_buffer_kib",
        "0..=4194304",
        "0",
        "size of the write buffer, which acknowledges writes, in KiB; 0: no buffer, and writes \
         are acknowledged when programmed",
    ),
];

/// Keys of a raw drive.
pub(crate) const ZONED: [Key; 9] = [
    key("write_pages", "1..=pages", "1", "write unit in rows (ws_min)"),
    key("write_best_pages", "1..=pages", "write_pages", "preferred write unit in rows (ws_opt)"),
    key(
        "unreadable_pages",
        "0..=pages",
        "0",
        "number of rows below the write pointer that cannot be read yet",
    ),
    key("max_open", "0..=4294967295", "0", "maximum number of open segments; 0: no limit"),
    key("wears_out", "true|false", "false", "failure of a segment after the erases in cycles"),
    key("bad_percent", "0..=50", "0", "share of segments that start offline, in percent"),
    key("failing_programs_ppm", "0..=1000000", "0", "program failures per million programs"),
    key("failing_erases_ppm", "0..=1000000", "0", "erase failures per million erases"),
    key("fault_seed", "0..=4294967295", "1", "seed of the random failures"),
];
