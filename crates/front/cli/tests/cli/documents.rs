//! The documents say of layers and drives what the program says: parameters, defaults and memory.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::hostftl;

/// A document below `docs`.
fn document(name: &str) -> String {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs");
    fs::read_to_string(docs.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// What a command prints as a list in JSON.
fn list(args: &[&str]) -> Vec<Value> {
    let output = hostftl().args(args).arg("--json").output().expect("hostftl starts");
    assert!(output.status.success(), "{args:?}");
    serde_json::from_slice(&output.stdout).expect("it is a list in JSON")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_else(|| panic!("{key} is text in {value}"))
}

/// The page of a layer.
fn page(layer: &str) -> &str {
    match layer {
        "hatl-auto" => "shatl",
        "pblk" | "rrpc" => "zones",
        other => other,
    }
}

#[test]
fn the_page_of_a_layer_has_its_parameters_and_defaults() {
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

/// The bytes that `66.6 MiB` means; nothing for words that are no size.
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
    for planned in list(&["memory", "--size", "1T"]) {
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

/// A row of a table in Markdown.
fn row(cells: &[String]) -> String {
    format!("| {} |\n", cells.join(" | ").replace(" |  |", " | |"))
}

fn head(cells: &[&str]) -> String {
    let cells: Vec<String> = cells.iter().map(|it| (*it).to_owned()).collect();
    row(&cells) + &format!("|{}\n", "---|".repeat(cells.len()))
}

/// The lines that the program prints of something, in a block.
fn printed(args: &[&str]) -> String {
    let output = hostftl().args(args).output().expect("hostftl starts");
    assert!(output.status.success(), "{args:?}");
    format!("```console\n{}```\n\n", String::from_utf8_lossy(&output.stdout))
}

/// Words that a table can hold.
fn cell(value: &Value) -> String {
    value.as_str().map_or_else(String::new, |it| it.replace('|', "\\|"))
}

/// The keys of devices of each kind, once.
fn keys(drives: &[Value]) -> String {
    let mut page = String::new();
    for kind in ["block", "zoned", "scm", "emmc"] {
        let drive = drives.iter().find(|drive| drive["kind"] == kind).expect("one of each kind");
        page += &format!("### Of `kind = \"{kind}\"`\n\n");
        page += &head(&["key", "values", "default", "meaning"]);
        for key in drive["keys"].as_array().expect("a list") {
            let code = |key: &str| format!("`{key}`");
            let [name, values] = ["key", "values"].map(|it| code(&cell(&key[it])));
            page += &row(&[name, values, cell(&key["default"]), cell(&key["about"])]);
        }
        page.push('\n');
    }
    page
}

#[test]
fn the_catalogue_is_what_the_program_tells() {
    let page = [
        "# Catalogue\n\nThe drive models and their keys, as `hostftl drives` and ",
        "`hostftl drives NAME` print them. A test compares\nthis page with the program. ",
        "[DRIVES.md](DRIVES.md) describes the models; `hostftl layers` and [layers](layers/)\n",
        "have the layers and their parameters.\n\n",
        "## Drives\n\n",
        &printed(&["drives"]),
        "## Keys of a drive\n\n",
        &keys(&list(&["drives"])),
    ]
    .concat();
    let page = format!("{}\n", page.trim_end());
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/CATALOGUE.md");
    if std::env::var_os("HOSTFTL_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&path, &page).expect("the page can be written");
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = kept.lines().zip(page.lines()).position(|(kept, told)| kept != told);
    assert!(
        kept == page,
        "docs/CATALOGUE.md differs from the program at line {}; HOSTFTL_GOLDEN=write makes it anew",
        differs.unwrap_or(kept.lines().count()) + 1
    );
}
