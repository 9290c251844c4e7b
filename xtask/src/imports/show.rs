//! Output of the figures as a table, as JSON and as a graph for Graphviz.

use std::fmt::Write;

use super::figures::Measured;
use super::floors::Floors;

/// Returns a table, and the files of each cycle.
pub(super) fn table(measured: &Measured) -> String {
    let mut text = format!(
        "{:<13} {:>5} {:>6} {:>6}  {:<20} {:<22} {:>5}  {:<25} {:>12} {:>14}\n",
        "part",
        "files",
        "lines",
        "circle",
        "impls",
        "fields",
        "open",
        "hub",
        "asserts/1000",
        "changes/assert"
    );
    for (part, it) in &measured.parts {
        let named = |(count, name): &(u32, String)| match count {
            0 => String::from("-"),
            _ => format!("{count} {name}"),
        };
        let (impls, fields, hub) = (named(&it.impls), named(&it.fields), named(&it.hub));
        let (files, lines, circle, open) = (it.files, it.lines, it.circle, it.open);
        writeln!(
            text,
            "{part:<13} {files:>5} {lines:>6} {circle:>6}  {impls:<20} {fields:<22} {open:>5}  \
             {hub:<25} {:>12} {:>14}",
            it.density(),
            it.changes_each().map_or_else(|| String::from("-"), |each| format!("{each:.1}"))
        )
        .expect("writing to a string succeeds");
    }
    let sum =
        |of: fn(&super::figures::Figures) -> u32| measured.parts.values().map(of).sum::<u32>();
    let (files, lines, open) = (sum(|it| it.files), sum(|it| it.lines), sum(|it| it.open));
    let (asserts, changes) = (sum(|it| it.asserts), sum(|it| it.changes));
    let each = f64::from(changes) / f64::from(asserts.max(1));
    writeln!(
        text,
        "all: {files} files, {lines} lines, {open} open fields, {asserts} assertions, one per \
         {each:.1} of {changes} lines that change state"
    )
    .expect("writing to a string succeeds");
    for circle in &measured.circles {
        let names = circle.join(" ");
        writeln!(text, "circle of {}: {names}", circle.len())
            .expect("writing to a string succeeds");
    }
    text
}

/// Returns a line about the floors of a crate.
pub(super) fn floors(name: &str, floors: &Floors) -> String {
    let (upward, circle, (level, folder)) = (floors.upward.len(), floors.circle, &floors.level);
    if folder.is_empty() && *level == 0 {
        return format!("{name}: the largest circle has {circle}");
    }
    format!(
        "{name}: {upward} imports lead upwards, the largest circle has {circle}, the fullest \
         level {level} modules (`{folder}`)"
    )
}

/// Returns an object with the parts, the cycles and the imports.
pub(super) fn json(measured: &Measured) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    let quote = |name: &String| format!("\"{name}\"");
    let parts = measured.parts.iter().map(|(part, it)| {
        let named =
            |(count, name): &(u32, String)| format!("{{\"count\":{count},\"of\":\"{name}\"}}");
        format!(
            "{{\"part\":\"{part}\",\"files\":{},\"lines\":{},\"circle\":{},\"impls\":{},\
             \"fields\":{},\"open\":{},\"hub\":{},\"asserts\":{},\"changes\":{}}}",
            it.files,
            it.lines,
            it.circle,
            named(&it.impls),
            named(&it.fields),
            it.open,
            named(&it.hub),
            it.asserts,
            it.changes
        )
    });
    let circles = measured.circles.iter().map(|circle| list(circle.iter().map(quote).collect()));
    let edges = measured.edges.iter().map(|(from, to)| format!("[\"{from}\",\"{to}\"]"));
    let (parts, circles) = (list(parts.collect()), list(circles.collect()));
    format!("{{\"parts\":{parts},\"circles\":{circles},\"imports\":{}}}\n", list(edges.collect()))
}

/// Returns the imports as a graph for `dot -Tsvg`, with those inside a cycle in red.
pub(super) fn dot(measured: &Measured) -> String {
    let mut text = String::from("digraph imports {\n    rankdir=LR; node [shape=box];\n");
    for (from, to) in &measured.edges {
        let inside = measured.circles.iter().any(|all| all.contains(from) && all.contains(to));
        let color = if inside { " [color=red]" } else { "" };
        writeln!(text, "    \"{from}\" -> \"{to}\"{color};").expect("writing to a string succeeds");
    }
    text + "}\n"
}
