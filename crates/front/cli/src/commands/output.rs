//! Output file that a command writes at its end.
//!
//! It is opened before the work starts, so that a path that can't be written is an error
//! immediately. An existing file is replaced by a rename, so that it stays until the new one is
//! complete.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Output file. Without [`Output::write`] nothing changes.
pub(super) struct Output {
    path: PathBuf,
    /// Temporary file, renamed at the end; `None` if the path is not a regular file, such as
    /// /dev/stdout.
    part: Option<PathBuf>,
    file: File,
}

impl Output {
    /// Prepares to write `path`.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let wrong = |why: std::io::Error| wrong(path, &why);
        let is_special = fs::metadata(path).is_ok_and(|it| !it.is_file());
        if is_special {
            let file = File::options().write(true).open(path).map_err(wrong)?;
            return Ok(Output { path: path.to_owned(), part: None, file });
        }
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        // A leftover of an earlier process with the same number, or a planted symbolic link.
        fs::remove_file(&part).ok();
        let file = File::create_new(&part).map_err(wrong)?;
        Ok(Output { path: path.to_owned(), part: Some(part), file })
    }

    /// Writes the file and moves it to its path.
    pub(super) fn write(mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.file.write_all(bytes);
        let part = self.part.take();
        let renamed = written.and_then(|()| match &part {
            Some(part) => fs::rename(part, &self.path),
            None => Ok(()),
        });
        renamed.map_err(|why| {
            part.iter().for_each(|part| drop(fs::remove_file(part)));
            wrong(&self.path, &why)
        })
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.part.iter().for_each(|part| drop(fs::remove_file(part)));
    }
}

fn wrong(path: &Path, why: &std::io::Error) -> Failure {
    Failure::failed(format!("{}: cannot write the file: {why}", path.display()))
}
