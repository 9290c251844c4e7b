//! `hostftl models`: the drives that studies have models of, their keys, and the comparison of a
//! model with the data sheet of its drive.

use comfy_table::{CellAlignment, Table, TableStyle, presets};
use hostftl_core::SECTOR;
use hostftl_drives::models::{Figure, Measured, Model, Origin, Rate};
use hostftl_drives::{DeviceSpec, Key};
use hostftl_frontend::catalogue;

use crate::console::{Console, notice};
use crate::failure::Failure;
use crate::units::{bytes, count, counted};

/// Lines between the table's head and its rows only.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);

/// List the drive models, or describe some of them
///
/// A description has the keys of the model, and for a commercial drive the source of each value and
/// a comparison with the data sheet. Keys follow the name, as in tlc:capacity=2g:gc=fifo. A drive
/// can also be a TOML file or an ssdconfig.xml of MQSim.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl models solidigm-d5-p5336-61t")]
pub(crate) struct Args {
    /// Drive models to describe [default: a list of all]
    #[arg(value_name = "DRIVE[:KEY=VALUE]...|FILE")]
    drives: Vec<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let names: Vec<&str> = if args.drives.is_empty() {
        DeviceSpec::names().collect()
    } else {
        args.drives.iter().map(String::as_str).collect()
    };
    let mut specs: Vec<DeviceSpec> = Vec::new();
    for name in names {
        for device in hostftl_frontend::stack(name)?.devices {
            if !specs.contains(&device) {
                specs.push(device);
            }
        }
    }
    specs.iter().for_each(|spec| warn(spec.name(), spec.left()));
    if args.drives.is_empty() {
        return list(&specs, console);
    }
    if console.is_json() {
        let values = specs.iter().map(described).collect::<Result<Vec<_>, _>>()?;
        return console.value(&values);
    }
    for (index, spec) in specs.iter().enumerate() {
        if index > 0 {
            console.line("")?;
        }
        text(spec, console)?;
        if let Some(model) = spec.model() {
            sheet(model, &measured(model)?, console)?;
        }
        keys(spec, console)?;
    }
    Ok(())
}

/// Prints the settings of a device's file that the model ignores, as warnings.
pub(super) fn warn(subject: &str, texts: &[String]) {
    texts.iter().for_each(|text| notice(format_args!("warning: {subject}: {text}")));
}

fn measured(model: &Model) -> Result<Measured, Failure> {
    model.measure().map_err(Failure::failed)
}

/// Returns a device in JSON, with the comparison if the drive is sold.
fn described(spec: &DeviceSpec) -> Result<serde_json::Value, Failure> {
    let mut value = catalogue::drive(spec);
    if let Some(model) = spec.model() {
        value["comparison"] = catalogue::comparison(model, &measured(model)?);
    }
    Ok(value)
}

/// Prints one line for each model: first the commercial drives, then the others.
fn list(specs: &[DeviceSpec], console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(&specs.iter().map(catalogue::drive).collect::<Vec<_>>());
    }
    let heads = ["model", "capacity", "map unit", "TB written", "seq. write", "rand. write", ""];
    let mut table = Table::new();
    table.load_style(STYLE).set_header(heads);
    let (sold, others): (Vec<_>, Vec<_>) = specs.iter().partition(|spec| spec.model().is_some());
    table.add_rows(sold.into_iter().chain(others).map(row));
    for column in table.column_iter_mut().skip(1).take(5) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    console.lines(console.fit(table))
}

fn row(spec: &DeviceSpec) -> [String; 7] {
    let model = spec.model();
    let figure = |figure| model.and_then(|model| model.figure(figure));
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let capacity = match model {
        Some(model) => model.capacity(),
        None => bytes(spec.exported() * SECTOR as u64),
    };
    let unit = (!spec.is_raw()).then(|| bytes(u64::from(spec.map_unit()) * SECTOR as u64));
    let written = model.and_then(Model::tbw).map(|tb| count(tb.round() as u64));
    let sequential = figure(Figure::Rate(Rate::SequentialWrite));
    let sequential = sequential.map(|rate| format!("{} MB/s", count(rate as u64)));
    let random = figure(Figure::Rate(Rate::RandomWrite)).map(|rate| {
        let kib = figure(Figure::RandomWriteKib).unwrap_or(4.0);
        format!("{}/s of {kib} KiB", count(rate as u64))
    });
    let placements = spec.device_info().placements;
    let feature = match placements {
        _ if spec.is_raw() => "zones".into(),
        2.. => format!("FDP, {placements} handles"),
        _ => String::new(),
    };
    let [unit, written, sequential, random] = [unit, written, sequential, random].map(or_dash);
    let name = spec.name().to_owned();
    [name, capacity, unit, written, sequential, random, feature]
}

fn text(spec: &DeviceSpec, console: &mut Console) -> Result<(), Failure> {
    console.hanging(&format!("{}: ", spec.name()), &spec.about())?;
    console.hanging("  ", &figures(spec).join(", "))?;
    match spec.use_when().as_str() {
        "" => Ok(()),
        when => console.hanging("  use when ", when),
    }
}

/// Returns the figures of a device.
fn figures(spec: &DeviceSpec) -> Vec<String> {
    let size = |sectors: u64| bytes(sectors * SECTOR as u64);
    let mut all = vec![if spec.exported() == spec.sectors() {
        size(spec.exported())
    } else {
        format!("{} of {}", size(spec.exported()), size(spec.sectors()))
    }];
    if let Some(model) = spec.model() {
        all[0] += &format!(" (slice of {})", model.capacity());
    }
    if spec.is_raw() {
        all.push("the layer translates".into())
    } else {
        all.push(format!("maps in {}", size(spec.map_unit().into())))
    }
    if let Some(memory) = spec.map_of_a_terabyte() {
        all.push(format!("its map takes {} of its RAM a TB", bytes(memory)));
    }
    if let Some(flash) = spec.flash() {
        let erased = flash.erase_unit();
        all.push(format!("erases {}", size(erased)));
        all.push(counted(spec.dies().into(), "die"));
        all.push(match (flash.write_buffer, flash.plp) {
            (0, _) => "no write buffer".into(),
            (sectors, true) => format!("a protected write buffer of {}", size(sectors)),
            (sectors, false) => format!("a volatile write buffer of {}", size(sectors)),
        });
    }
    if spec.cycles() > 0 {
        let what = if spec.is_flash() { "erases" } else { "writes of a sector" };
        all.push(format!("survives {} {what}", count(spec.cycles().into())));
    }
    all.push(format!("the model takes {}", bytes(spec.memory())));
    all
}

/// Prints the data sheet beside the figures of the model.
fn sheet(model: &Model, measured: &Measured, console: &mut Console) -> Result<(), Failure> {
    let number = |value: f64| match value {
        ..100.0 => format!("{value:.2}"),
        _ => count(value.round() as u64),
    };
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
    let mut table = Table::new();
    table.load_style(STYLE).set_header(["figure", "data sheet", "model", "difference", "source"]);
    let mut sources: Vec<Origin> = Vec::new();
    for line in model.compare(measured) {
        let source = sources.iter().position(|it| *it == line.origin).unwrap_or_else(|| {
            sources.push(line.origin.clone());
            sources.len() - 1
        });
        let difference = line.difference().map(|by| format!("{:+.1} %", by * 100.0));
        table.add_row([
            line.figure.key().to_owned(),
            number(line.stated),
            or_dash(line.model.map(number)),
            or_dash(difference),
            format!("[{}]", source + 1),
        ]);
    }
    for column in table.column_iter_mut().skip(1).take(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    console.lines(console.fit(table))?;
    for (index, source) in sources.iter().enumerate() {
        let head = format!("  [{}] {}: ", index + 1, source.word());
        console.hanging(&head, source.text())?;
    }
    for rate in Rate::ALL {
        if let Some(why) = model.miss(rate) {
            console.hanging(&format!("  {} is missed: ", rate.key()), why)?;
        }
    }
    Ok(())
}

/// Prints each key of a device's file with its value, and where the value comes from.
fn keys(spec: &DeviceSpec, console: &mut Console) -> Result<(), Failure> {
    let set = spec.parameters();
    for Key { key, values, default, about } in spec.keys() {
        let here = set.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
        let note = match (here, default) {
            (Some(value), _) => format!("  [here: {value}]"),
            (None, "") => String::new(),
            (None, default) => format!("  [default: {default}]"),
        };
        console.line(format!("  {key}={values}{note}"))?;
        console.indented("      ", about)?;
        if let Some(origin) = here.and_then(|value| spec.origin(key, value)) {
            console.indented("      ", &format!("{}: {}", origin.word(), origin.text()))?;
        }
    }
    Ok(())
}
