//! A file that a command writes at its end: it is opened before the work begins, so that a path
//! that can't be written costs no study; and what was there stays until the new one is whole.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

pub(super) struct Output {
    path: PathBuf,
    /// Written first, then renamed; nothing where the path is no file, such as /dev/stdout.
    part: Option<PathBuf>,
    file: File,
}

impl Output {
    /// Will write to `path`.
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
        // Left over from a process of that number, or a planted symbolic link.
        fs::remove_file(&part).ok();
        let file = File::create_new(&part).map_err(wrong)?;
        Ok(Output { path: path.to_owned(), part: Some(part), file })
    }

    /// Writes the file.
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
