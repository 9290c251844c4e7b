//! Whole files: converted keys, ignored keys, and the lines of errors.

use hostftl_mqsim::{
    Addresses, Drive, Fault, Kind, Made, Played, Rate, TimeUnit, drive, scenarios,
};

const DRIVE: &str = include_str!("drive.xml");
const WORK: &str = include_str!("work.xml");

/// Returns the value of a key of the drive.
fn of<'a>(drive: &'a Drive, key: &str) -> Option<&'a str> {
    let all = drive.toml.lines();
    all.filter_map(|line| line.split_once(" = ")).find(|(name, _)| *name == key).map(|(_, it)| it)
}

#[test]
fn a_drive_file_gives_geometry_times_and_gc() {
    let drive = drive(DRIVE).expect("the file is sound");
    for (key, value) in [
        ("channels", "4"),
        ("ways", "2"),
        ("dies", "1"),
        ("planes", "2"),
        ("blocks", "64"),
        ("pages", "128"),
        ("page_kib", "8"),
        ("cell", "\"tlc\""),
        ("read_us", "60.000"),
        ("program_us", "700.000"),
        ("erase_us", "3500.000"),
        ("bus_mts", "800.0"),
        ("cycles", "3000"),
        ("over_provisioning_percent", "20.0000"),
        ("gc", "\"d-choices:6\""),
        ("pools", "\"plane\""),
        ("level", "100"),
        ("write_buffer_kib", "1024"),
        ("suspend", "true"),
        ("suspend_us", "100.000"),
    ] {
        assert_eq!(of(&drive, key), Some(value), "{key} in {}", drive.toml);
    }
    assert_eq!(drive.toml.lines().count(), drive.lines.len(), "each line has its place");
}

#[test]
fn every_key_is_carried_over_or_named_with_its_line() {
    let drive = drive(DRIVE).expect("the file is sound");
    let text = drive.left.join("\n");
    let read: Vec<&str> = drive.lines.iter().map(|(_, key)| *key).collect();
    // These keys modify others, or have no effect in this file.
    let parts = ["Flash_Channel_Width", "Static_Wearleveling_Enabled", "Memory_Type"];
    let parts = [&parts[..], &["Address_Mapping"]].concat();
    let mut keys = 0;
    for (index, line) in DRIVE.lines().enumerate() {
        let Some((key, _)) = line.trim().strip_prefix('<').and_then(|it| it.split_once('>')) else {
            continue;
        };
        if !line.contains("</") || key.starts_with('/') || parts.contains(&key) {
            continue;
        }
        let stem = key.replace("CSB", "LSB").replace("MSB", "LSB");
        let named = text.contains(&format!("{key} (line {})", index + 1));
        assert!(named || read.contains(&stem.as_str()) || text.contains(key), "{key} is lost");
        keys += 1;
    }
    assert!(keys >= 50, "only {keys} keys");
    assert!(text.contains("Colour (line 6): MQSim has no such key in this place"), "{text}");
    assert!(
        text.contains(
            "Page_Read_Latency_* of the pages of a cell (line 44): all pages use the mean"
        ),
        "{text}"
    );
}

#[test]
fn flows_are_generated_or_replayed() {
    let scenarios = scenarios(WORK).expect("the file is sound");
    assert_eq!(scenarios.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    let made = Made {
        addresses: Addresses::HotCold { hot: 20 },
        working_set: 50,
        read: 30,
        sectors: 16,
        rate: Rate::UnderWay(8),
        count: Some(5000),
    };
    assert_eq!(scenarios[0][0].kind, Kind::Made(made));
    let by_time = Made {
        addresses: Addresses::Streaming,
        working_set: 100,
        read: 0,
        sectors: 8,
        rate: Rate::Bandwidth(4_096_000),
        count: None,
    };
    assert_eq!(scenarios[0][1].kind, Kind::Made(by_time));
    let played = Played { path: "small.trace".into(), unit: TimeUnit::Micros, rounds: 3 };
    assert_eq!(scenarios[1][0].kind, Kind::Played(played));
    for (flow, key) in [
        (&scenarios[0][0], "Priority_Class (line 5)"),
        (&scenarios[0][0], "Channel_IDs (line 7), Chip_IDs (line 8)"),
        (&scenarios[0][0], "--closed-loop 8"),
        (&scenarios[0][0], "Intensity (line 26): MQSim has no such key in this place"),
        (&scenarios[0][1], "Stop_Time"),
        (&scenarios[0][1], "Request_Size_Distribution"),
        (&scenarios[1][0], "Percentage_To_Be_Executed"),
    ] {
        assert!(flow.left.iter().any(|text| text.contains(key)), "{key} in {:#?}", flow.left);
    }
}

/// Returns the error after `from` was replaced by `to`.
fn wrong(text: &str, from: &str, to: &str) -> Fault {
    assert!(text.contains(from), "{from} is not in the file");
    let changed = text.replacen(from, to, 1);
    if text.contains("<MQSim") { scenarios(&changed).map(drop) } else { drive(&changed).map(drop) }
        .expect_err("it is wrong")
}

#[test]
fn errors_have_a_line_number() {
    for (text, from, to, line, words) in [
        (DRIVE, "</Execution_Parameter_Set>", "", 63, "not an XML file"),
        (DRIVE, "<Flash_Channel_Count>4</Flash_Channel_Count>", "", 10, "no Flash_Channel_Count"),
        (DRIVE, ">4</Flash_Ch", ">four</Flash_Ch", 38, "must be a number, not 'four'"),
        (DRIVE, ">RGA<", ">BEST<", 27, "one of GREEDY"),
        (DRIVE, ">PAGE_LEVEL<", ">HYBRID<", 21, "HYBRID"),
        (DRIVE, ">8192</Page_C", ">8000</Page_C", 59, "whole KiB"),
        (DRIVE, "<Seed>1</Seed>", "<Seed>1</Seed><Seed>2</Seed>", 11, "occurs twice"),
        (DRIVE, "<Seed>1</Seed>", "<Seed><a/></Seed>", 11, "contains elements"),
        (WORK, "RANDOM_HOTCOLD", "MIXED_STREAMING_RANDOM", 15, "one of STREAMING"),
        (WORK, ">20</Percentage_of_Hot", ">0</Percentage_of_Hot", 15, "from 1 to 100"),
        (WORK, ">16</Average_Request", ">0</Average_Request", 20, "at least 1 sector"),
        (WORK, ">30</Read_P", ">130</Read_P", 14, "from 0 to 100"),
        (WORK, "MICROSECOND", "PICOSECOND", 61, "PICOSECOND"),
        (WORK, "<File_Path>small.trace</File_Path>", "", 51, "no File_Path"),
        (WORK, "<IO_Scenario>", "<Scenario/><IO_Scenario>", 3, "expected IO_Scenario"),
    ] {
        let fault = wrong(text, from, to);
        assert!(fault.why.contains(words), "{from} → {to}: {fault}");
        assert_eq!(fault.line, line, "{from} → {to}: {fault}");
        assert!(!fault.why.contains('\n'), "{fault}");
    }
}

#[test]
fn swapped_files_are_detected() {
    assert!(drive(WORK).expect_err("no drive").why.contains("use it as a trace"));
    assert!(scenarios(DRIVE).expect_err("no workload").why.contains("--drive"));
    let other = drive("<html/>").expect_err("another file");
    assert!(other.why.contains("the root element must be Execution_Parameter_Set, not html"));
    assert!(drive("").is_err() && scenarios("not xml").is_err());
}
