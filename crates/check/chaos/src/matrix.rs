//! Matrix of docs/SEMANTICS.md: the claims of each layer determine the injected faults and the
//! required guarantees.

use hostftl_layers::LayerKind;

const TEXT: &str = include_str!("../../../../docs/SEMANTICS.md");
const MARK: &str = "<!-- matrix: read by crates/check/chaos -->";
/// Rows in which a layer claims more when it has parity.
const PARITY: &str = "parity";
/// Rows for faults of a journal's device.
const JOURNAL: &str = "a journal";

/// Claim of a layer about a guarantee or fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The guarantee holds, even under the fault.
    Kept,
    /// Under the fault, requests may fail, but no wrong data is returned.
    Detected,
    /// No claim.
    NotClaimed,
}

/// Rows of the matrix.
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
    FailedDevice,
    MetadataRot,
    LogRot,
    DataRot,
    LostWrite,
    MisdirectedWrite,
    StaleDevice,
    BadSegment,
    WriteError,
    FlushError,
    NoSpace,
}

/// Keys of the rows, in the order of [`Row`].
pub(crate) const ROWS: [&str; 24] = [
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
    "bad-segment",
    "write-error",
    "flush-error",
    "no-space",
];

/// Claims of one layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claims([Claim; ROWS.len()]);

impl Claims {
    /// Reads the claims of `layer` from docs/SEMANTICS.md, for a stack with parity or a mirror if
    /// `parity`.
    ///
    /// # Errors
    /// The missing row or column, or the cell without a valid claim.
    pub fn for_layer(layer: LayerKind, parity: bool) -> Result<Self, String> {
        let mut claims = parse(TEXT, layer.name())?;
        if parity {
            claims.amend(TEXT, &mark(layer, PARITY))?;
        }
        Ok(claims)
    }

    /// Reads the claims of `layer` when only its journal's device has faults.
    ///
    /// # Errors
    /// When a row, column or claim is missing or invalid.
    pub fn for_journal(layer: LayerKind) -> Result<Self, String> {
        let mut claims = parse(TEXT, layer.name())?;
        claims.amend(TEXT, &mark(layer, JOURNAL)).map(|()| claims)
    }

    /// Overrides claims with those of the table after `mark`.
    fn amend(&mut self, text: &str, mark: &str) -> Result<(), String> {
        let (_, table) = text.split_once(mark).ok_or(format!("SEMANTICS.md lacks {mark}"))?;
        for cells in table_rows(table).skip(2) {
            let key = cells[0].trim_matches('`');
            let row = ROWS.iter().position(|row| *row == key);
            let row = row.ok_or(format!("SEMANTICS.md, {mark}: unknown row {key}"))?;
            self.0[row] = claim(cells.get(1).copied().unwrap_or_default())
                .ok_or(format!("SEMANTICS.md, {mark}, {key}: unknown claim"))?;
        }
        Ok(())
    }

    /// Weakens the claim about timeouts: on zoned devices they are only detected.
    pub fn on_zones(&mut self) {
        self.0[Row::Hang as usize] = Claim::Detected;
    }

    /// Returns the same claim for every row.
    #[cfg(test)]
    pub fn all(claim: Claim) -> Self {
        Claims([claim; ROWS.len()])
    }

    /// Returns the claim of `row`.
    pub fn get(&self, row: Row) -> Claim {
        self.0[row as usize]
    }

    /// Returns whether the fault `row` may be injected.
    pub fn admits(&self, row: Row) -> bool {
        self.get(row) != Claim::NotClaimed
    }
}

/// Returns the marker before the table of `layer` with the feature `what`.
fn mark(layer: LayerKind, what: &str) -> String {
    format!("<!-- {layer} with {what}: read by crates/check/chaos -->")
}

fn parse(text: &str, layer: &str) -> Result<Claims, String> {
    let (_, table) = text.split_once(MARK).ok_or("SEMANTICS.md has no matrix")?;
    let mut lines = table_rows(table);
    let header = lines.next().ok_or("the matrix of SEMANTICS.md is empty")?;
    let column = header.iter().position(|&cell| cell == layer);
    let column = column.ok_or(format!("SEMANTICS.md has no column for {layer}"))?;
    let rows: Vec<Vec<&str>> = lines.skip(1).collect();
    if let Some(row) = rows.iter().find(|row| !ROWS.contains(&row[0].trim_matches('`'))) {
        return Err(format!("SEMANTICS.md has an unknown row: {}", row[0]));
    }
    let mut claims = [Claim::NotClaimed; ROWS.len()];
    for (key, claim) in ROWS.iter().zip(&mut claims) {
        let row = rows.iter().find(|row| row[0].trim_matches('`') == *key);
        let row = row.ok_or(format!("SEMANTICS.md has no row for {key}"))?;
        let cell = row.get(column).copied().unwrap_or_default();
        *claim = self::claim(cell)
            .ok_or_else(|| format!("SEMANTICS.md, {key} for {layer}: unknown claim \"{cell}\""))?;
    }
    Ok(Claims(claims))
}

/// Parses the part of a cell before its colon.
fn claim(cell: &str) -> Option<Claim> {
    match cell.split(':').next().unwrap_or_default().trim() {
        "kept" => Some(Claim::Kept),
        "detected" => Some(Claim::Detected),
        "–" => Some(Claim::NotClaimed),
        _ => None,
    }
}

/// Returns the rows of the first table in `text`.
fn table_rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = text.lines().skip_while(|line| !line.starts_with('|'));
    lines.take_while(|line| line.starts_with('|')).map(cells)
}

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[cfg(test)]
mod tests {
    use hostftl_layers::{LayerConfig, Registration};

    use super::*;

    #[test]
    fn every_layer_has_a_claim_for_every_promise_and_fault() {
        for &layer in LayerKind::EVERY {
            let choices = &layer.registration().chaos;
            Claims::for_layer(layer, false).unwrap_or_else(|why| panic!("{why}"));
            if choices.parity.0 > 0 {
                Claims::for_layer(layer, true).unwrap_or_else(|why| panic!("{why}"));
            }
            if choices.journal > 0 {
                Claims::for_journal(layer).unwrap_or_else(|why| panic!("{why}"));
            }
        }
    }

    #[test]
    fn registrations_match_the_matrix() {
        for &layer in LayerKind::EVERY {
            let Registration { promises, chaos, .. } = layer.registration();
            let mut config = LayerConfig::new(layer);
            for parity in (0..=2).filter(|parity| *parity == 0 || chaos.parity.0 > 0) {
                config.log.parity = parity;
                let claims = Claims::for_layer(layer, parity > 0);
                let claims = claims.unwrap_or_else(|why| panic!("{why}"));
                let goes_on = claims.get(Row::FailedDevice) == Claim::Kept;
                assert_eq!(config.tolerates(), u32::from(parity), "{layer}");
                assert_eq!(parity > 0, goes_on, "{layer}, parity: {parity}");
                assert!(!promises.tells_corrupt || claims.admits(Row::DataRot), "{layer}");
                assert!(!promises.knows_lost || claims.admits(Row::FailedDevice), "{layer}");
            }
        }
    }

    #[test]
    fn parity_changes_exactly_the_claims_of_its_table() {
        let with = |rows: &str| {
            let mut claims = Claims([Claim::NotClaimed; ROWS.len()]);
            let mark = mark(LayerKind::Log, PARITY);
            let table = format!("{mark}\n| fault | log |\n|---|---|\n{rows}");
            claims.amend(&table, &mark).map(|()| claims)
        };
        let claims = with("| `dead-device` | kept: so |\n\n| `hang` | kept |").expect("sound");
        assert_eq!(claims.get(Row::FailedDevice), Claim::Kept);
        assert_eq!(claims.get(Row::Hang), Claim::NotClaimed, "the table ends at a blank line");
        assert!(with("| `ded-device` | kept |").is_err() && with("| `hang` | maybe |").is_err());
    }

    #[test]
    fn missing_rows_and_columns_are_named() {
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
        let odd = TEXT.replace("| `hang` | detected", "| `hang` | maybe");
        assert!(parse(&odd, "passthrough").is_err());
    }
}
