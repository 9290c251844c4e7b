//! `hostftl layers`: description, limits and parameters of each layer.

use hostftl_frontend::catalogue;
use hostftl_layers::{LayerConfig, LayerKind, Parameter, Registration};
use hostftl_sim::{ARRAY, Array};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::bytes;

/// Describe the layers, their limits and parameters
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl layers log")]
pub(crate) struct Args {
    /// Layers [default: all]
    #[arg(value_name = "LAYER", value_parser = which)]
    layers: Vec<Which>,
}

/// A name on the command line.
#[derive(Clone, Copy)]
enum Which {
    Layer(LayerKind),
    /// `raid5`, the array that studies compare layers with.
    Array,
}

fn which(name: &str) -> Result<Which, String> {
    if name == ARRAY.name {
        Ok(Which::Array)
    } else {
        hostftl_frontend::layer_kind(name).map(Which::Layer)
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let every = LayerKind::ALL.iter().copied().map(Which::Layer).chain([Which::Array]);
    let list = if args.layers.is_empty() { every.collect() } else { args.layers.clone() };
    if console.is_json() {
        let value = |which: &Which| match which {
            Which::Layer(kind) => catalogue::layer(*kind),
            Which::Array => catalogue::array(),
        };
        return console.value(&list.iter().map(value).collect::<Vec<_>>());
    }
    for (index, which) in list.iter().enumerate() {
        if index > 0 {
            console.line("")?;
        }
        match which {
            Which::Layer(kind) => text(*kind, console)?,
            Which::Array => array(console)?,
        }
    }
    Ok(())
}

fn array(console: &mut Console) -> Result<(), Failure> {
    let Array { name, does, pays, devices, limits, parameter: (key, value, default, about) } =
        ARRAY;
    console.line(format!("{name}: {does}"))?;
    console.line(format!("  on {devices}"))?;
    console.hanging("  for     ", pays)?;
    console.hanging("  limits  ", limits)?;
    console.line(format!("  {key}={value}  [default: {default}]"))?;
    console.indented("      ", about)
}

fn text(kind: LayerKind, console: &mut Console) -> Result<(), Failure> {
    let Registration { name, about, devices, parameters, .. } = kind.registration();
    console.line(format!("{name}: {}", about.does))?;
    console.line(format!("  on {devices}"))?;
    console.hanging("  for     ", about.pays)?;
    console.hanging("  limits  ", about.limits)?;
    if let Some(memory) = hostftl_frontend::memory_of_a_terabyte(kind) {
        console.line(format!("  memory  {} of map and metadata per TB", bytes(memory)))?;
    }
    let config = LayerConfig::new(kind);
    for parameter in *parameters {
        let Parameter { key, value, about, .. } = parameter;
        let default = (parameter.get)(&config);
        let default = default.map_or(String::new(), |word| format!("  [default: {word}]"));
        console.line(format!("  {key}={value}{default}"))?;
        console.indented("      ", about)?;
    }
    Ok(())
}
