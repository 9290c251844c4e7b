//! `hostftl drives`: the devices that studies have models of, and what can be set of one.

use hostftl_core::SECTOR;
use hostftl_drives::{DeviceSpec, Key};
use hostftl_frontend::catalogue;

use crate::console::{Console, notice};
use crate::failure::Failure;
use crate::units::{bytes, count, counted};

/// Describe the drive models for studies
///
/// Keys follow the name, as in tlc:capacity=2g:gc=fifo. A drive can also be a TOML file or an
/// ssdconfig.xml of MQSim.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl drives qlc-64k")]
pub(crate) struct Args {
    /// Drive models; also shows their keys [default: all, without keys]
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
    if console.is_json() {
        return console.value(&specs.iter().map(catalogue::drive).collect::<Vec<_>>());
    }
    for (index, spec) in specs.iter().enumerate() {
        if index > 0 {
            console.line("")?;
        }
        text(spec, console)?;
        if !args.drives.is_empty() {
            keys(spec, console)?;
        }
    }
    Ok(())
}

/// Says what the file of a device says and is not carried over.
pub(super) fn warn(device: &str, texts: &[String]) {
    texts.iter().for_each(|text| notice(format_args!("warning: {device}: {text}")));
}

fn text(spec: &DeviceSpec, console: &mut Console) -> Result<(), Failure> {
    console.hanging(&format!("{}: ", spec.name()), &spec.about())?;
    console.hanging("  ", &figures(spec).join(", "))?;
    match spec.use_when().as_str() {
        "" => Ok(()),
        when => console.hanging("  use when ", when),
    }
}

/// What the device is, in figures.
fn figures(spec: &DeviceSpec) -> Vec<String> {
    let size = |sectors: u64| bytes(sectors * SECTOR as u64);
    let mut all = vec![if spec.exported() == spec.sectors() {
        size(spec.exported())
    } else {
        format!("{} of {}", size(spec.exported()), size(spec.sectors()))
    }];
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

/// Each key that the device may be told, and what it was told.
fn keys(spec: &DeviceSpec, console: &mut Console) -> Result<(), Failure> {
    let said = spec.parameters();
    for Key { key, values, default, about } in spec.keys() {
        let here = said.iter().find(|(set, _)| set == key).map(|(_, value)| value.as_str());
        let note = match (here, default) {
            (Some(value), _) => format!("  [here: {value}]"),
            (None, "") => String::new(),
            (None, default) => format!("  [default: {default}]"),
        };
        console.line(format!("  {key}={values}{note}"))?;
        console.indented("      ", about)?;
    }
    Ok(())
}
