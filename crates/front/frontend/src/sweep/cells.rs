//! The folder of cells. Each cell is a Parquet file with one line, and its name identifies
//! everything that determines the line.
//!
//! Invariants
//! - A file with the name of a cell is complete: it is written under another name and renamed.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_report::Sheet;
use twox_hash::XxHash3_64;

use crate::program;
use crate::wrong::Wrong;

/// A folder of cells.
#[derive(Clone, Debug)]
pub struct Cells {
    folder: PathBuf,
}

/// Returns the name of the cell with identity `about` in this version of the program: 128 bits of
/// XXH3.
pub(super) fn name(about: &str) -> String {
    let text = format!("{}\n{about}", program::name());
    let half = |seed| XxHash3_64::oneshot_with_seed(seed, text.as_bytes());
    format!("{:016x}{:016x}.parquet", half(0), half(1))
}

impl Cells {
    /// Opens the cells in `folder`. Creates it if it is missing, and checks that it is writable.
    ///
    /// # Errors
    /// If it can't be created or written.
    pub fn open(folder: &Path) -> Result<Self, Wrong> {
        let cells = Cells { folder: folder.to_owned() };
        fs::create_dir_all(folder).map_err(|why| cells.wrong(folder, why))?;
        let probe = cells.aside("probe");
        let tried = File::create(&probe).and_then(|_| fs::remove_file(&probe));
        tried.map_err(|why| cells.wrong(folder, why))?;
        Ok(cells)
    }

    fn wrong(&self, path: &Path, why: impl std::fmt::Display) -> Wrong {
        Wrong::failed(format!("cannot store cells in {}: {why}", path.display()))
    }

    /// Returns a unique path for a temporary file in the folder.
    fn aside(&self, name: &str) -> PathBuf {
        static PARTS: AtomicU64 = AtomicU64::new(0);
        let number = PARTS.fetch_add(1, Ordering::Relaxed);
        self.folder.join(format!(".{name}.{}-{number}.part", std::process::id()))
    }

    /// Returns whether the cell `name` exists.
    pub fn has(&self, name: &str) -> bool {
        self.folder.join(name).is_file()
    }

    /// Stores the cell `name` atomically.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<(), Wrong> {
        let (part, path) = (self.aside(name), self.folder.join(name));
        let write = || {
            let mut file = File::create(&part)?;
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&part, &path)
        };
        write().map_err(|why| {
            let _ = fs::remove_file(&part);
            self.wrong(&path, why)
        })
    }

    /// Reads the cell `name`.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn read(&self, name: &str) -> Result<Sheet, Wrong> {
        let path = self.folder.join(name);
        let read = fs::read(&path).map_err(|why| why.to_string());
        let sheet = read.and_then(|bytes| Sheet::of_parquet(bytes).map_err(|why| why.to_string()));
        let sheet = sheet.and_then(|sheet| match sheet.rows() {
            1 => Ok(sheet),
            rows => Err(format!("{rows} lines where one is expected")),
        });
        sheet.map_err(|why| {
            let path = path.display();
            Wrong::failed(format!(
                "cannot read the cell {path}: {why}; remove the file and run \
                 sweep --resume"
            ))
        })
    }
}
