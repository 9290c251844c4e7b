//! The documents agree with the program: parameters, defaults, memory, keys of drives, commands.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::hostftl;

/// Reads a document below `docs`.
fn document(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    fs::read_to_string(docs.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Runs a command that prints a JSON list.
fn list(args: &[&str]) -> Vec<Value> {
    let output = hostftl().args(args).arg("--json").output().expect("hostftl starts");
    assert!(output.status.success(), "{args:?}");
    serde_json::from_slice(&output.stdout).expect("it is a list in JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is text in {value}"))
}

/// Returns the name of the page of a layer.
fn page(layer: &str) -> &str {
    match layer {
        "hatl-auto" => "shatl",
        "pblk" | "rrpc" => "zones",
        other => other,
    }
}

#[test]
fn layer_pages_list_all_parameters_and_defaults() {
    for layer in list(&["layers"]) {
        let page = document(&format!("layers/{}.md", page(text(&layer, "layer"))));
        for parameter in layer["parameters"].as_array().expect("a list") {
            let key = format!("`{}`", text(parameter, "key"));
            let default = parameter["default"].as_str().unwrap_or_default();
            let mut rows = page.lines().filter(|line| line.starts_with('|') && line.contains(&key));
            assert!(
                rows.any(|row| row.contains(default)),
                "{}: {parameter}",
                text(&layer, "layer")
            );
        }
    }
}

/// Parses a printed size, such as `66.6 MiB`, as bytes.
fn size(words: &str) -> Option<f64> {
    let (number, unit) = words.trim().split_once(' ')?;
    let power = ["B", "KiB", "MiB", "GiB"].iter().position(|it| *it == unit)?;
    Some(number.parse::<f64>().ok()? * 1024_f64.powi(power as i32))
}

#[test]
fn the_table_of_layers_has_their_memory() {
    let table = document("ARCHITECTURE.md");
    let rows = || table.lines().filter(|line| line.starts_with("| [")).map(|line| line.split('|'));
    let mut stated = 0;
    for planned in list(&["estimate-memory", "--size", "1T"]) {
        let layer = text(&planned, "layer");
        let part = |key: &str| planned["memory"][key].as_f64().expect("a number");
        let bytes = part("map_bytes") + part("meta_bytes");
        let name = format!("`{layer}`");
        let row = rows().find(|cells| cells.clone().nth(2).is_some_and(|it| it.contains(&name)));
        let cells: Vec<&str> = row.unwrap_or_else(|| panic!("no row of {layer}")).collect();
        let place = cells[2].split(',').position(|it| it.trim() == name).expect("it is there");
        let words = cells[5].split(',').nth(place).expect("a size for each layer");
        let said = size(words).unwrap_or_else(|| panic!("{layer}: '{words}' is no size"));
        assert!((said - bytes).abs() <= bytes / 10.0, "{layer}: {words}, but planned {bytes}");
        stated += 1;
    }
    assert!(stated >= 10, "only {stated} layers");
}

/// Formats a row of a Markdown table.
fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | ").replace(" |  |", " | |"))
}

fn head(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|it| (*it).to_owned()).collect();
    row(&cells) + &format!("|{}\n", "---|".repeat(cells.len()))
}

/// Escapes a JSON text for a cell of a table.
fn cell(value: &Value) -> String {
    value.as_str().map_or_else(String::new, |it| it.replace('|', "\\|"))
}

/// Returns the keys of devices of each kind. Rows that an earlier kind has too are not repeated.
fn keys(drives: &[Value]) -> String {
    let (mut page, mut listed, mut first) = (String::new(), HashSet::new(), Vec::new());
    for kind in ["block", "zoned", "scm", "emmc"] {
        let drive = drives.iter().find(|drive| drive["kind"] == kind).expect("one of each kind");
        let (mut rows, mut known) = (String::new(), Vec::new());
        for key in drive["keys"].as_array().expect("a list") {
            let code = |key: &str| format!("`{key}`");
            let [name, values] = ["key", "values"].map(|it| code(&cell(&key[it])));
            let line = row(&[name.clone(), values, cell(&key["default"]), cell(&key["about"])]);
            if kind == "block" {
                first.push(name.clone());
            }
            if listed.insert(line.clone()) { rows += &line } else { known.push(name) }
        }
        page += &format!("### Of `kind = \"{kind}\"`\n\n");
        if !known.is_empty() {
            let absent = first.iter().filter(|name| !known.contains(name));
            let absent: Vec<_> = absent.map(String::as_str).collect();
            page += &format!("As above, without {}.\n\n", absent.join(", "));
        }
        page += &format!("{}{rows}\n", head(&["key", "values", "default", "meaning"]));
    }
    page
}

/// Marks around the table of the commercial drives, in DRIVES.md.
const MARKS: [&str; 2] = ["<!-- models -->\n", "<!-- end of models -->\n"];

/// Returns the table of the commercial drives. Assumed figures are in parentheses, and rates that
/// the model misses are in italics.
fn models(drives: &[Value]) -> String {
    let keys = ["tbw", "dwpd", "sequential_read_mbs", "sequential_write_mbs", "random_read_iops"];
    let figure = |sheet: &Value, key: &str| {
        let figures = sheet["figures"].as_array().expect("a list");
        let Some(it) = figures.iter().find(|it| it["key"] == key) else { return String::new() };
        match (it["origin"].as_str(), sheet["misses"].get(key)) {
            (Some("assumed"), _) => format!("({})", cell(&it["value"])),
            (_, Some(_)) => format!("*{}*", cell(&it["value"])),
            _ => cell(&it["value"]),
        }
    };
    let heads = [
        "model",
        "capacity",
        "map unit",
        "TB written",
        "DWPD",
        "seq. read MB/s",
        "seq. write MB/s",
        "random reads/s",
        "random writes/s",
        "of KiB",
        "handles",
    ];
    let mut table = head(&heads);
    for drive in drives.iter().filter(|drive| drive["sheet"].is_object()) {
        let sheet = &drive["sheet"];
        let unit = drive["map_unit_bytes"].as_u64().expect("a number") >> 10;
        let unit = if drive["raw"] == true { "zones".into() } else { format!("{unit} KiB") };
        let mut cells = vec![format!("`{}`", text(drive, "name")), figure(sheet, "capacity"), unit];
        cells.extend(keys.map(|key| figure(sheet, key)));
        let writes = figure(sheet, "random_write_iops");
        let kib = figure(sheet, "random_write_kib");
        let kib = if kib.is_empty() && !writes.is_empty() { "4".into() } else { kib };
        cells.extend([writes, kib, drive["placements"].to_string()]);
        table += &row(&cells);
    }
    table
}

#[test]
fn the_table_of_named_drives_matches_the_program() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/DRIVES.md");
    let page = document("DRIVES.md");
    let (before, rest) = page.split_once(MARKS[0]).expect("the table begins");
    let (kept, after) = rest.split_once(MARKS[1]).expect("the table ends");
    let table = models(&list(&["models"]));
    if std::env::var_os("HOSTFTL_GOLDEN").is_some_and(|it| it == "write") {
        let page = [before, MARKS[0], &table, MARKS[1], after].concat();
        fs::write(&path, page).expect("the page can be written");
    } else {
        assert_eq!(kept, table, "docs/DRIVES.md; HOSTFTL_GOLDEN=write renews the table");
    }
}

#[test]
fn the_catalogue_has_the_keys_of_each_kind_of_drive() {
    let intro = "# Catalogue\n\nThe keys of drive models, as `hostftl models NAME` prints them. \
                 A test compares this page with the\nprogram. [DRIVES.md](DRIVES.md) describes \
                 the models, and `hostftl models` lists them.\n\n## Keys of a drive\n\n";
    let page = format!("{intro}{}", keys(&list(&["models"])));
    assert_current("CATALOGUE.md", &page);
}

/// Compares a page below `docs` with its current text, or writes it if `HOSTFTL_GOLDEN` is `write`.
fn assert_current(name: &str, page: &str) {
    let page = format!("{}\n", page.trim_end());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs").join(name);
    if std::env::var_os("HOSTFTL_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&path, &page).expect("the page can be written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(page.lines()).position(|(kept, current)| kept != current);
    assert!(
        kept == page,
        "docs/{name} differs from the program at line {}; HOSTFTL_GOLDEN=write renews it",
        differs.unwrap_or(kept.lines().count()) + 1
    );
}

/// Returns the help of a command, such as `device add`.
fn help(command: &str) -> String {
    let words = command.split_whitespace().chain(["--help"]);
    let output = hostftl().args(words).output().expect("hostftl starts");
    assert!(output.status.success(), "{command} --help");
    let text = String::from_utf8(output.stdout).expect("the help is UTF-8");
    text.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Returns the commands in a part of a help text, each with its purpose.
fn commands(part: &str) -> Vec<(&str, &str)> {
    let lines = part.lines().filter_map(|line| line.strip_prefix("  ")?.split_once(' '));
    lines.map(|(name, about)| (name, about.trim())).filter(|(name, _)| *name != "help").collect()
}

/// Options of every command, as its help prints them.
const COMMON: [&str; 3] = [
    "      --json\n          Print JSON, also for errors\n\n",
    "      --color <WHEN>\n          Use colors\n\n          Possible values:\n          \
     - auto:   On a terminal, unless NO_COLOR is set\n          - always: Always\n          \
     - never:  Never\n\n          [default: auto]\n\n",
    "  -h, --help\n          Print help (see a summary with '-h')\n",
];

/// Returns the help of a command and of the commands below it, without common options.
fn command_page(command: &str) -> String {
    let help = COMMON.iter().fold(help(command), |help, option| {
        assert!(help.contains(option), "{command}: {option}");
        help.replacen(option, "", 1)
    });
    let help = help.replace("\n\n\n", "\n\n").replace("Options:\n\nExample", "Example");
    let help = help.trim_end().trim_end_matches("Options:").trim_end();
    let mut page = format!("### `hostftl {command}`\n\n```console\n{help}\n```\n\n");
    let below = help.split("\n\n").find_map(|part| part.strip_prefix("Commands:\n"));
    for (name, _) in below.map(commands).unwrap_or_default() {
        page += &command_page(&format!("{command} {name}"));
    }
    page
}

#[test]
fn the_page_of_commands_has_the_help_of_each_command() {
    let help = help("");
    let groups = help.split("\n\n").filter_map(|part| {
        let (title, list) = part.split_once(":\n")?;
        (title != "Options" && !title.contains(' ')).then(|| (title, commands(list)))
    });
    let (mut table, mut pages, mut number) =
        (head(&["group", "command", "purpose"]), String::new(), 0);
    for (title, commands) in groups {
        pages += &format!("## {title}\n\n");
        for (name, about) in commands {
            let link = format!("[`{name}`](#hostftl-{name})");
            table += &row(&[title.to_lowercase(), link, about.to_owned()]);
            pages += &command_page(name);
            number += 1;
        }
    }
    assert!(number >= 25, "only {number} commands");
    let intro = "# Commands\n\nThe help of every command, as `hostftl COMMAND --help` prints it. \
                 A test compares this page with the\nprogram. [OPERATING.md](OPERATING.md) and \
                 [STUDIES.md](STUDIES.md) explain the use of the commands.\n\n";
    let (_, common) = help.split_once("Options:\n").expect("there are common options");
    let common = format!("## Common options\n\n```console\n{common}```\n");
    assert_current("COMMANDS.md", &format!("{intro}{table}\n{pages}{common}"));
}
