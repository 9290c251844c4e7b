//! The table of docs/SEMANTICS.md: what each layer promises decides what is injected and demanded.

use hostftl_layers::LayerKind;

const TEXT: &str = include_str!("../../../docs/SEMANTICS.md");
const MARK: &str = "<!-- matrix: read by crates/chaos -->";

/// What a layer says of a promise or fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// It holds, also under the fault.
    Kept,
    /// Under the fault requests may fail, but no wrong data is served.
    Detected,
    /// Nothing is said.
    NotClaimed,
}

/// The rows of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[allow(missing_docs, reason = "docs/SEMANTICS.md explains each")]
pub enum Row {
    Newest,
    OneOrder,
    OwnContent,
    Flush,
    Fua,
    PowerCut,
    FixedAfterRecovery,
    CleanStop,
    ErrorIsError,
    VolatileCache,
    TornWrite,
    ReadError,
    Hang,
    DeadDevice,
    MetadataRot,
    LogRot,
    DataRot,
    LostWrite,
    MisdirectedWrite,
    StaleDevice,
}

/// The keys of the rows, in the order of [`Row`].
pub const ROWS: [&str; 20] = [
    "newest",
    "one-order",
    "own-content",
    "flush",
    "fua",
    "power-cut",
    "fixed-after-recovery",
    "clean-stop",
    "error-is-error",
    "volatile-cache",
    "torn-write",
    "read-error",
    "hang",
    "dead-device",
    "metadata-rot",
    "log-rot",
    "data-rot",
    "lost-write",
    "misdirected-write",
    "stale-device",
];

/// What one layer claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims([Claim; ROWS.len()]);

impl Claims {
    /// The claims of `layer` in docs/SEMANTICS.md.
    ///
    /// # Errors
    /// The row or column that is missing, or the cell that says something else.
    pub fn of(layer: LayerKind) -> Result<Self, String> {
        parse(TEXT, layer.name())
    }

    /// What it says of `row`.
    pub fn get(&self, row: Row) -> Claim {
        self.0[row as usize]
    }

    /// Whether the fault `row` may be injected.
    pub fn admits(&self, row: Row) -> bool {
        self.get(row) != Claim::NotClaimed
    }
}

fn parse(text: &str, layer: &str) -> Result<Claims, String> {
    let (_, table) = text.split_once(MARK).ok_or("SEMANTICS.md has no matrix")?;
    let mut lines = table.lines().filter(|line| line.starts_with('|')).map(cells);
    let header = lines.next().ok_or("the matrix of SEMANTICS.md is empty")?;
    let column = header.iter().position(|&cell| cell == layer);
    let column = column.ok_or(format!("SEMANTICS.md has no column for {layer}"))?;
    let rows: Vec<Vec<&str>> = lines.skip(1).collect();
    if let Some(row) = rows.iter().find(|row| !ROWS.contains(&row[0].trim_matches('`'))) {
        return Err(format!("SEMANTICS.md has a row that chaos does not know: {}", row[0]));
    }
    let mut claims = [Claim::NotClaimed; ROWS.len()];
    for (key, claim) in ROWS.iter().zip(&mut claims) {
        let row = rows.iter().find(|row| row[0].trim_matches('`') == *key);
        let row = row.ok_or(format!("SEMANTICS.md has no row for {key}"))?;
        let cell = row.get(column).copied().unwrap_or_default();
        *claim = match cell.split(':').next().unwrap_or_default().trim() {
            "kept" => Claim::Kept,
            "detected" => Claim::Detected,
            "not claimed" => Claim::NotClaimed,
            _ => return Err(format!("SEMANTICS.md, {key} for {layer}: what is \"{cell}\"?")),
        };
    }
    Ok(Claims(claims))
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_layer_says_something_of_every_promise_and_fault() {
        for &layer in LayerKind::ALL.iter().chain(&[LayerKind::Exerciser]) {
            Claims::of(layer).unwrap_or_else(|why| panic!("{why}"));
        }
    }

    #[test]
    fn a_row_or_column_that_is_missing_is_named() {
        let without = |key: &str| {
            let lines = TEXT.lines().filter(|line| !line.starts_with(&format!("| `{key}`")));
            lines.collect::<Vec<_>>().join("\n")
        };
        for key in ROWS {
            let why = parse(&without(key), "hard").expect_err("the row is gone");
            assert!(why.contains(key), "{why}");
        }
        let why = parse(TEXT, "tape").expect_err("there is no such layer");
        assert!(why.contains("tape"), "{why}");
        let odd = TEXT.replace("detected: abandoned", "maybe: abandoned");
        assert!(parse(&odd, "hard").is_err());
    }
}
