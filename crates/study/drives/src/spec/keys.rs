//! Keys of a flash drive's file: values, default and meaning.

use crate::text::{Key, key};

/// Keys of every flash drive.
pub(crate) const FLASH: [Key; 36] = [
    key("cell", "slc|mlc|tlc|qlc", "", "cell type; sets the default times, energy and endurance"),
    key("channels", "1..=64", "", "number of buses"),
    key("ways", "1..=64", "", "chips per bus"),
    key("dies", "1..=16", "1", "dies per chip"),
    key("planes", "1..=16", "1", "planes per die"),
    key("pages", "2..=16384", "", "pages per block"),
    key("page_kib", "1..=1024", "", "page size"),
    key("blocks", "4..=16777216", "", "blocks per plane; instead of capacity"),
    key(
        "capacity",
        "SIZE",
        "",
        "capacity that the host sees, below 128t; all flash of a raw drive; instead of blocks",
    ),
    key("nominal", "SIZE", "capacity", "capacity of the real drive, of which this is a slice"),
    key(
        "nominal_pages",
        "2..=16384",
        "pages",
        "pages per block of the real drive; erasing a shorter block takes a share of erase_us",
    ),
    key("stripe", "N|all", "1", "planes per row; all: superpages over all planes"),
    key(
        "placements",
        "1..=64",
        "1",
        "placement IDs (FDP reclaim unit handles) with separate \
         blocks",
    ),
    key(
        "level",
        "0..=1048576",
        "0",
        "static wear levelling: erases by which a block may lag \
         before it moves; 0: off",
    ),
    key(
        "hint",
        "true|false",
        "false",
        "the drive reports the valid map units of its next GC victim",
    ),
    key("merge", "true|false", "false", "partial map units wait in the buffer until complete"),
    key(
        "plp",
        "true|false",
        "true",
        "power-loss protection; false: the buffer is volatile and a \
         flush waits",
    ),
    key("multiplane", "true|false", "false", "the planes of a die run the same operation together"),
    key("copyback", "true|false", "false", "copies within a plane do not use the bus"),
    key("suspend", "true|false", "false", "host reads suspend programs and erases"),
    key("suspend_us", "0..=10000000", "20", "time of a suspension"),
    key(
        "reads_first",
        "true|false",
        "false",
        "with suspend: reads for copies also start before queued programs",
    ),
    key("service", "fixed|exponential", "fixed", "exponential: random service times"),
    key("read_us", "0.001..=10000000", "from cell", "time of a page read"),
    key("program_us", "0.001..=10000000", "from cell", "time of a page program"),
    key("erase_us", "0..=10000000", "from cell", "time of a block erase"),
    key("bus_us", "0..=10000000", "from bus_mts", "time of a page on the bus; instead of bus_mts"),
    key("bus_mts", "1..=100000", "from cell", "transfers per µs over eight lines"),
    key("program_dies", "0..=16384", "0", "dies that may program at the same time; 0: all"),
    key("link_mbs", "0..=1000000", "0", "MB/s of the host link in each direction; 0: no limit"),
    key("command_us", "0..=10000000", "0", "controller time per command"),
    key("latency_us", "0..=10000000", "0", "time per command outside link and flash"),
    key("read_uj", "0..=1000000000", "82.5 mW", "energy of a page read"),
    key("program_uj", "0..=1000000000", "82.5 mW", "energy of a page program"),
    key("erase_uj", "0..=1000000000", "82.5 mW", "energy of a block erase"),
    key("bus_uj", "0..=1000000000", "82.5 mW", "energy of a page on the bus"),
];

/// Keys of every flash drive that are listed last.
pub(crate) const LIFE: [Key; 1] =
    [key("cycles", "1..=4294967295", "from cell", "endurance of a block, in erases")];

/// Keys of a drive that translates.
pub(crate) const BLOCK: [Key; 6] = [
    key("over_provisioning_percent", "0..=90", "", "1 - exported/physical"),
    key(
        "map_unit_kib",
        "1..=32768",
        "a row",
        "indirection unit: rows that divide a block, or a part of a row",
    ),
    key("pools", "plane|drive", "drive", "scope of garbage collection; drive: superblocks"),
    key(
        "gc",
        "greedy|fifo|random|d-choices:D|cost-benefit|declining-cost",
        "greedy",
        "victim policy of garbage collection",
    ),
    key("frontiers", "shared|separate|isolated", "shared", "destination of copies"),
    key(
        "write_buffer_kib",
        "0..=4194304",
        "0",
        "write buffer; acknowledges writes; 0: writes are \
         acknowledged when programmed",
    ),
];

/// Keys of a raw drive.
pub(crate) const ZONED: [Key; 9] = [
    key("write_pages", "1..=pages", "1", "write unit in rows (ws_min)"),
    key("write_best_pages", "1..=pages", "write_pages", "preferred write unit in rows (ws_opt)"),
    key("unreadable_pages", "0..=pages", "0", "unreadable rows before the write pointer"),
    key("max_open", "0..=4294967295", "0", "maximum number of open segments; 0: no limit"),
    key("wears_out", "true|false", "false", "take a segment offline after cycles erases"),
    key("bad_percent", "0..=50", "0", "segments that are initially offline"),
    key("failing_programs_ppm", "0..=1000000", "0", "failing programs per million"),
    key("failing_erases_ppm", "0..=1000000", "0", "failing erases per million"),
    key("fault_seed", "0..=4294967295", "1", "fixes which"),
];
