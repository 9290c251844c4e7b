//! `hostftl estimate-memory`: memory of each layer, computed from its plan.

use comfy_table::{CellAlignment, Table, TableStyle, presets};
use hostftl_core::{BLOCK, SECTOR};
use hostftl_frontend::usual_devices;
use hostftl_layers::{AnyLayer, LayerConfig, LayerKind};
use hostftl_volume::Memory;

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, parse_blocks};

/// A line only between the header and the rows.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);

/// Estimate the memory of each layer
///
/// Computes the same plan as `create`, without a device. Zoned layers get about 32,000 segments in
/// 16 parallel units, `tier` a fast device of 1/16 of the size, `scrambler` pages of 16 KiB. The
/// last column is map and metadata per 4 KiB of the export.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl estimate-memory --size 4T --layer log")]
pub(crate) struct Args {
    /// Total size of the devices; repeatable
    #[arg(long = "size", value_parser = parse_blocks, default_values = ["32G", "512G"])]
    sizes: Vec<u64>,
    /// Layer with parameters; repeatable [default: all]
    #[arg(long = "layer", value_name = "LAYER[:KEY=VALUE]...", value_parser = super::layer_config)]
    layers: Vec<LayerConfig>,
}

/// One layer on one size.
struct Row {
    layer: String,
    size: u64,
    /// Exported bytes and memory, or the reason why such a volume is impossible.
    plan: Result<(u64, Memory), String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let all = || LayerKind::ALL.iter().map(|kind| LayerConfig::new(*kind)).collect();
    let layers = if args.layers.is_empty() { all() } else { args.layers.clone() };
    let cells = args.sizes.iter().flat_map(|size| layers.iter().map(move |layer| (*size, layer)));
    let rows: Vec<Row> = cells.map(|(size, layer)| row(size, layer)).collect();
    if console.is_json() {
        return console.value(&rows.iter().map(json).collect::<Vec<_>>());
    }
    console.lines(console.fit(table(&rows)))?;
    let impossible = rows.iter().filter_map(|row| Some((row, row.plan.as_ref().err()?)));
    for (row, why) in impossible {
        console.line(format!("{} on {}: {why}", row.layer, bytes(row.size)))?;
    }
    Ok(())
}

fn row(size: u64, layer: &LayerConfig) -> Row {
    let (mut layer, devices) = (layer.clone(), usual_devices(size / SECTOR as u64, layer.kind));
    layer.choose(&devices, None);
    let plan = AnyLayer::plan(&layer, &devices);
    let figures = plan.map(|plan| (plan.limits.exported * SECTOR as u64, Memory::from_plan(&plan)));
    Row { layer: layer.kind.name().into(), size, plan: figures.map_err(|why| why.to_string()) }
}

fn json(row: &Row) -> serde_json::Value {
    let figures = row.plan.as_ref().ok();
    serde_json::json!({
        "layer": row.layer,
        "device_bytes": row.size,
        "exported_bytes": figures.map(|it| it.0),
        "memory": figures.map(|it| &it.1),
        "impossible": row.plan.as_ref().err(),
    })
}

fn table(rows: &[Row]) -> Table {
    let heads = ["devices", "layer", "map", "metadata", "buffers", "fixed", "total", "B/4 KiB"];
    let mut table = Table::new();
    table.load_style(STYLE).set_header(heads);
    for row in rows {
        let Ok((exported, memory)) = &row.plan else {
            let none = heads[2..].iter().map(|_| String::from("-"));
            table.add_row([bytes(row.size), row.layer.clone()].into_iter().chain(none));
            continue;
        };
        let Memory { map_bytes, meta_bytes, arena_bytes, fixed_bytes, planned_bytes, .. } = *memory;
        let buffers = arena_bytes + memory.clients_bytes;
        let parts = [map_bytes, meta_bytes, buffers, fixed_bytes, planned_bytes];
        let each = (map_bytes + meta_bytes) as f64 * BLOCK as f64 / *exported as f64;
        let cells = [bytes(row.size), row.layer.clone()].into_iter().chain(parts.map(bytes));
        table.add_row(cells.chain([format!("{each:.2}")]));
    }
    for column in table.column_iter_mut().skip(2) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
