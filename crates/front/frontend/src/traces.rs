//! What a trace is like, as JSON.

use hostftl_trace::{Info, Notes, Stream};
use serde_json::{Error, Value};

/// The format of what is read.
pub fn format(stream: &Stream) -> &'static str {
    stream.format().map_or("synthetic", |format| format.name())
}

/// `info` with the format, what was noticed, and whether somebody ended it early.
///
/// # Errors
/// When a figure is not a number.
pub fn info(format: &str, info: &Info, notes: &Notes, partial: bool) -> Result<Value, Error> {
    let mut value = serde_json::to_value(info)?;
    value["format"] = format.into();
    value["partial"] = partial.into();
    value["notes"] = serde_json::to_value(notes)?;
    value["warnings"] = notes.warnings().into();
    Ok(value)
}
