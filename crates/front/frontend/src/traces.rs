//! Properties of a trace, as JSON.

use hostftl_trace::{Info, Notes, Stream};
use serde_json::{Error, Value};

/// Returns the format of a stream.
pub fn format(stream: &Stream) -> &'static str {
    stream.format().map_or("synthetic", |format| format.name())
}

/// Returns `info` as JSON, with the format, the notes of the reader, and whether reading was
/// cancelled.
///
/// # Errors
/// If a figure is not a number.
pub fn info(format: &str, info: &Info, notes: &Notes, partial: bool) -> Result<Value, Error> {
    let mut value = serde_json::to_value(info)?;
    value["format"] = format.into();
    value["partial"] = partial.into();
    value["notes"] = serde_json::to_value(notes)?;
    value["warnings"] = notes.warnings().into();
    Ok(value)
}
