//! `hostftl layers`: what each layer does, on what devices, when to use it, and its parameters.

use hostftl_ask::catalogue;
use hostftl_layers::{LayerConfig, LayerKind, Parameter, Registration};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::bytes;

/// What each layer does, when to use it, its limits and its parameters
///
/// Parameters stand behind the layer's name, as in hard:superpage=256k:spare=10, wherever a layer
/// is named.
#[derive(clap::Args)]
pub struct Args {
    /// Of these layers alone
    #[arg(value_name = "LAYER", value_parser = hostftl_ask::layer_kind)]
    layers: Vec<LayerKind>,
}

/// Runs the command.
///
/// # Errors
/// When the output can't be written.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let kinds = if args.layers.is_empty() { LayerKind::ALL } else { &args.layers };
    if console.is_json() {
        return console
            .value(&kinds.iter().map(|kind| catalogue::layer(*kind)).collect::<Vec<_>>());
    }
    for (index, kind) in kinds.iter().enumerate() {
        if index > 0 {
            console.line("")?;
        }
        text(*kind, console)?;
    }
    Ok(())
}

fn text(kind: LayerKind, console: &mut Console) -> Result<(), Failure> {
    let Registration { name, about, devices, parameters, .. } = kind.registration();
    console.line(format!("{name}: {}", about.does))?;
    console.line(format!("  on {devices}"))?;
    console.hanging("  for     ", about.pays)?;
    console.hanging("  limits  ", about.limits)?;
    if let Some(memory) = hostftl_ask::memory_of_a_terabyte(kind) {
        console.line(format!("  memory  {} of map and metadata a TB", bytes(memory)))?;
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
