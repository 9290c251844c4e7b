//! `hostftl set`: changes parameters of a volume.

use std::path::PathBuf;

use hostftl_volume::set;

use crate::console::Console;
use crate::failure::Failure;

/// Change parameters of a volume: gc, rebuild-share, fault-after
///
/// Takes effect immediately and is saved in the volume file.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl set vol.toml rebuild-share=60")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Parameters and new values
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = pair)]
    pairs: Vec<(String, String)>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    for (key, value) in &args.pairs {
        let changed = set(&args.volume, key, value)?.is_new;
        if console.is_json() {
            console.value(&serde_json::json!({
                "volume": args.volume, "key": key, "value": value, "changed": changed,
            }))?
        } else {
            let was = if changed { "" } else { " (unchanged)" };
            console.line(format!("{}: {key} is {value}{was}", args.volume.display()))?;
        }
    }
    Ok(())
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE, such as gc=greedy")?;
    Ok((key.into(), value.into()))
}
