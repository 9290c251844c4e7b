//! `ssdconfig.xml`: a drive, converted to the text of a drive model.

use std::fmt::Display;

use roxmltree::Node;

use super::keys::{At, Keys};
use super::{DRIVE, Fault, document, line};

/// Names of the sections of the drive, the host, and the flash within the drive.
const DEVICE: &str = "Device_Parameter_Set";
const HOST: &str = "Host_Parameter_Set";
const FLASH: &str = "Flash_Parameter_Set";

/// A drive as the text of its TOML file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drive {
    /// Text of the TOML file.
    pub toml: String,
    /// Line of the XML file and key of MQSim for each line of the text. The key is empty if the
    /// line does not come from a key.
    pub lines: Vec<(usize, &'static str)>,
    /// Settings that were ignored, one sentence each.
    pub left: Vec<String>,
}

impl Drive {
    fn set(&mut self, line: usize, theirs: &'static str, ours: &str, value: impl Display) {
        self.toml += &format!("{ours} = {value}\n");
        self.lines.push((line, theirs));
    }

    fn word(&mut self, line: usize, theirs: &'static str, ours: &str, value: impl Display) {
        self.set(line, theirs, ours, format_args!("\"{value}\""));
    }
}

/// Converts a drive in MQSim's configuration.
///
/// # Errors
/// The line that is wrong: invalid XML, another kind of file, a missing or invalid key, or a drive
/// other than flash with a page-level map.
pub fn drive(text: &str) -> Result<Drive, Fault> {
    let document = document(text, DRIVE)?;
    let root = document.root_element();
    let device = section(root, DEVICE)?;
    let flash = section(device, FLASH)?;
    let head = "# A drive from an MQSim configuration file.\n".to_owned();
    let mut made = Drive { toml: head, lines: vec![(line(&root), "")], left: Vec::new() };
    let mut keys = Keys::of(device, &[FLASH])?;
    let mut cells = Keys::of(flash, &[])?;
    possible(&mut keys)?;
    shape(&mut made, &mut keys, &mut cells)?;
    times(&mut made, &mut keys, &mut cells)?;
    translation(&mut made, &mut keys)?;
    suspension(&mut made, &mut keys, &mut cells)?;
    if let Some(host) = child(root, HOST) {
        let mut keys = Keys::of(host, &[])?;
        made.left.extend(keys.leave(&LINK, "the host link and its own time are not modelled"));
        made.left.extend(keys.leave(&LOGS, "use --html and --json for figures over time"));
        made.left.extend(keys.others());
    }
    for (names, why) in UNMODELLED {
        made.left.extend(keys.leave(names, why));
    }
    let spare = ["Page_Metadat_Capacity"];
    made.left.extend(cells.leave(&spare, "the spare bytes of a page take no bus time"));
    made.left.extend(keys.others());
    made.left.extend(cells.others());
    Ok(made)
}

/// Keys of the host's section.
const LINK: [&str; 3] = ["PCIe_Lane_Bandwidth", "PCIe_Lane_Count", "SATA_Processing_Delay"];
const LOGS: [&str; 2] = ["Enable_ResponseTime_Logging", "ResponseTime_Logging_Period_Length"];

/// Keys of the drive's section without a counterpart, and the reason.
const UNMODELLED: [(&[&str], &str); 9] = [
    (&["Seed"], "a study has one seed (--seed)"),
    (&["Enabled_Preconditioning"], "a study states the initial state of the drive (--warm)"),
    (
        &["HostInterface_Type", "IO_Queue_Depth", "Queue_Fetch_Size"],
        "the host queues are not modelled; --closed-loop sets the queue depth",
    ),
    (
        &[
            "Data_Cache_Sharing_Mode",
            "Data_Cache_DRAM_Row_Size",
            "Data_Cache_DRAM_Data_Rate",
            "Data_Cache_DRAM_Data_Busrt_Size",
            "Data_Cache_DRAM_Data_Burst_Size",
            "Data_Cache_DRAM_tRCD",
            "Data_Cache_DRAM_tCL",
            "Data_Cache_DRAM_tRP",
        ],
        "the memory of the drive takes no time",
    ),
    (
        &["Ideal_Mapping_Table", "CMT_Capacity", "CMT_Sharing_Mode"],
        "the whole map of the drive is always in its memory",
    ),
    (
        &["Plane_Allocation_Scheme", "Transaction_Scheduling_Policy"],
        "a map unit always uses the same plane, and a die serves requests in order",
    ),
    (
        &["GC_Exec_Threshold", "GC_Hard_Threshold", "Preemptible_GC_Enabled"],
        "host writes pace garbage collection",
    ),
    (
        &["Dynamic_Wearleveling_Enabled"],
        "wear levelling moves the blocks with the fewest erases \
         (key level)",
    ),
    (&["Flash_Comm_Protocol"], "only the rate of a bus is modelled"),
];

fn child<'a>(node: Node<'a, 'a>, name: &str) -> Option<Node<'a, 'a>> {
    node.children().find(|it| it.is_element() && it.tag_name().name() == name)
}

fn section<'a>(node: Node<'a, 'a>, name: &str) -> Result<Node<'a, 'a>, Fault> {
    let missing = || format!("{} has no {name}", node.tag_name().name());
    child(node, name).ok_or_else(|| Fault { line: line(&node), why: missing() })
}

/// Checks that the drive is flash with a page-level map.
fn possible(keys: &mut Keys) -> Result<(), Fault> {
    keys.lookup("Memory_Type", &[("FLASH", ())])?;
    let mapping = keys.lookup("Address_Mapping", &[("PAGE_LEVEL", true), ("HYBRID", false)])?;
    match mapping {
        Some(At { line, value: false }) => {
            Err(Fault { line, why: "a drive with a HYBRID map is not modelled".into() })
        }
        _ => Ok(()),
    }
}

/// Converts channels, chips, dies, planes, blocks and pages.
fn shape(made: &mut Drive, keys: &mut Keys, cells: &mut Keys) -> Result<(), Fault> {
    let buses: [(&'static str, &str); 2] =
        [("Flash_Channel_Count", "channels"), ("Chip_No_Per_Channel", "ways")];
    for (theirs, ours) in buses {
        let At { line, value } = keys.needed::<u32>(theirs)?;
        made.set(line, theirs, ours, value);
    }
    let counts: [(&'static str, &str); 4] = [
        ("Die_No_Per_Chip", "dies"),
        ("Plane_No_Per_Die", "planes"),
        ("Block_No_Per_Plane", "blocks"),
        ("Page_No_Per_Block", "pages"),
    ];
    for (theirs, ours) in counts {
        let At { line, value } = cells.needed::<u32>(theirs)?;
        made.set(line, theirs, ours, value);
    }
    let At { line, value } = cells.needed::<u32>("Page_Capacity")?;
    if !value.is_multiple_of(1024) {
        return Err(Fault { line, why: "Page_Capacity must be whole KiB".into() });
    }
    made.set(line, "Page_Capacity", "page_kib", value / 1024);
    Ok(())
}

/// Converts the kind of cell and the times of its operations.
fn times(made: &mut Drive, keys: &mut Keys, cells: &mut Keys) -> Result<(), Fault> {
    let known: [(&str, (&str, &[&str])); 3] = [
        ("SLC", ("slc", &["LSB"])),
        ("MLC", ("mlc", &["LSB", "MSB"])),
        ("TLC", ("tlc", &["LSB", "CSB", "MSB"])),
    ];
    let technology = cells.lookup("Flash_Technology", &known)?;
    let missing =
        Fault { line: cells.line(), why: format!("{FLASH} has no Flash_Technology; add it") };
    let At { line, value: (cell, bits) } = technology.ok_or(missing)?;
    made.word(line, "Flash_Technology", "cell", cell);
    for (theirs, ours) in
        [("Page_Read_Latency_LSB", "read_us"), ("Page_Program_Latency_LSB", "program_us")]
    {
        mean(made, cells, theirs, ours, bits)?;
    }
    if let Some(At { line, value }) = cells.number::<u64>("Block_Erase_Latency")? {
        made.set(line, "Block_Erase_Latency", "erase_us", micros(value as f64));
    }
    if let Some(At { line, value }) = cells.number::<u32>("Block_PE_Cycles_Limit")? {
        made.set(line, "Block_PE_Cycles_Limit", "cycles", value);
    }
    let width = keys.number::<u32>("Flash_Channel_Width")?.map_or(1, |it| it.value);
    if let Some(At { line, value }) = keys.number::<u32>("Channel_Transfer_Rate")? {
        let rate = f64::from(value) * f64::from(width);
        made.set(line, "Channel_Transfer_Rate", "bus_mts", format_args!("{rate:.1}"));
    }
    Ok(())
}

/// Converts the times of a cell's pages, one key for each kind of page, to their mean.
fn mean(
    made: &mut Drive,
    cells: &mut Keys,
    theirs: &'static str,
    ours: &str,
    bits: &[&str],
) -> Result<(), Fault> {
    let stem = theirs.trim_end_matches("LSB");
    let mut found: Vec<At<u64>> = Vec::new();
    for bit in ["LSB", "CSB", "MSB"] {
        let time = cells.number::<u64>(&format!("{stem}{bit}"))?;
        found.extend(time.filter(|_| bits.contains(&bit)));
    }
    let Some(At { line, value: first }) = found.first().copied() else { return Ok(()) };
    let sum: f64 = found.iter().map(|it| it.value as f64).sum();
    made.set(line, theirs, ours, micros(sum / found.len() as f64));
    if found.iter().any(|it| it.value != first) {
        made.left.push(format!(
            "not carried over: different {stem}* of the pages of a cell (line {line}): all pages \
             use the mean"
        ));
    }
    Ok(())
}

/// Converts nanoseconds to µs in the float format of TOML.
fn micros(ns: f64) -> String {
    format!("{:.3}", ns / 1000.0)
}

/// Converts the map, garbage collection and the write buffer.
fn translation(made: &mut Drive, keys: &mut Keys) -> Result<(), Fault> {
    let At { line, value } = keys.needed::<f64>("Overprovisioning_Ratio")?;
    let percent = format!("{:.4}", value * 100.0);
    made.set(line, "Overprovisioning_Ratio", "over_provisioning_percent", percent);
    // MQSim collects each plane separately, and its copies have their own block.
    made.word(keys.line(), "", "pools", "plane");
    made.word(keys.line(), "", "frontiers", "separate");
    made.set(keys.line(), "", "multiplane", true);
    collection(made, keys)?;
    if let Some(At { line, value }) = keys.flag("Use_Copyback_for_GC") {
        made.set(line, "Use_Copyback_for_GC", "copyback", value);
    }
    let levels = keys.flag("Static_Wearleveling_Enabled").is_none_or(|it| it.value);
    if let Some(At { line, value }) = keys.number::<u32>("Static_Wearleveling_Threshold")?
        && levels
    {
        made.set(line, "Static_Wearleveling_Threshold", "level", value);
    }
    keys.lookup("Caching_Mechanism", &[("SIMPLE", ()), ("ADVANCED", ())])?;
    if let Some(At { line, value }) = keys.number::<u64>("Data_Cache_Capacity")? {
        made.set(line, "Data_Cache_Capacity", "write_buffer_kib", value / 1024);
        let why = "the cache is a protected write buffer: it acknowledges writes and keeps no \
                   data for reads";
        made.left.push(format!(
            "not carried over unchanged: Caching_Mechanism and Data_Cache_Capacity (line {line}): \
             {why}"
        ));
    }
    Ok(())
}

/// Converts the victim policy.
fn collection(made: &mut Drive, keys: &mut Keys) -> Result<(), Fault> {
    let known = [
        ("GREEDY", "greedy"),
        ("FIFO", "fifo"),
        ("RANDOM", "random"),
        ("RGA", "rga"),
        ("RANDOM_P", "random-p"),
        ("RANDOM_PP", "random-pp"),
    ];
    let theirs = "GC_Block_Selection_Policy";
    let Some(At { line, value }) = keys.lookup(theirs, &known)? else { return Ok(()) };
    match value {
        // MQSim draws the base-2 logarithm of the number of blocks in a plane.
        "rga" => {
            let lines = made.toml.lines().find_map(|line| line.strip_prefix("blocks = "));
            let blocks = lines.and_then(|blocks| blocks.parse::<u32>().ok()).unwrap_or(1);
            let drawn = blocks.max(2).ilog2();
            made.word(line, theirs, "gc", format_args!("d-choices:{drawn}"));
        }
        "random-p" | "random-pp" => {
            made.word(line, theirs, "gc", "random");
            made.left.push(format!(
                "not carried over: the conditions of {theirs} (line {line}) on a random block: \
                 any block is taken, as with RANDOM"
            ));
        }
        plain => made.word(line, theirs, "gc", plain),
    }
    Ok(())
}

/// Converts the suspension of programs and erases by reads.
fn suspension(made: &mut Drive, keys: &mut Keys, cells: &mut Keys) -> Result<(), Fault> {
    let known = [("NONE", 0), ("ERASE", 1), ("PROGRAM", 2), ("PROGRAM_ERASE", 3)];
    let support = cells.lookup("CMD_Suspension_Support", &known)?;
    let takes = cells.number::<u64>("Suspend_Program_Time")?;
    let mut left = vec!["Suspend_Erase_Time"];
    match support {
        Some(At { line, value: 3 }) => {
            made.set(line, "CMD_Suspension_Support", "suspend", true);
            if let Some(At { line, value }) = takes {
                made.set(line, "Suspend_Program_Time", "suspend_us", micros(value as f64));
            }
        }
        Some(At { value: 1 | 2, .. }) => {
            left.extend(["CMD_Suspension_Support", "Suspend_Program_Time"]);
        }
        _ => {
            // Without suspension these times have no effect.
            left.clear();
            cells.number::<u64>("Suspend_Erase_Time")?;
        }
    }
    let why = "reads suspend both programs and erases, or neither: both only with PROGRAM_ERASE, \
               and then the time is that of a program";
    made.left.extend(cells.leave(&left, why));
    let preferred = [
        "Prefered_suspend_erase_time_for_read",
        "Preferred_suspend_erase_time_for_read",
        "Preferred_suspend_erase_time_for_write",
        "Preferred_suspend_write_time_for_read",
    ];
    made.left.extend(keys.leave(&preferred, "a host read suspends at once or never"));
    Ok(())
}
