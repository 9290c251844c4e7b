//! Header of the JSON results: kind, schema, version, commit and command line.

use serde::Serialize;

use hostftl_frontend::program;

/// A result with its header, as `docs/results.schema.json` defines it.
#[derive(Serialize)]
pub(crate) struct Envelope<T> {
    /// Name of the command, such as `compare`.
    kind: &'static str,
    /// Version of the schema. It increases when a field is removed or changes its meaning.
    schema: u32,
    version: &'static str,
    commit: &'static str,
    /// Command line, quoted for a shell.
    command: String,
    #[serde(flatten)]
    result: T,
}

impl<T: Serialize> Envelope<T> {
    /// Adds the header of this process to `result`.
    pub(crate) fn new(kind: &'static str, result: T) -> Self {
        let (schema, version) = (program::SCHEMA, program::VERSION);
        Envelope { kind, schema, version, commit: program::COMMIT, command: command(), result }
    }
}

/// Returns the command line of this process, quoted for a shell.
pub(crate) fn command() -> String {
    let words = std::env::args().skip(1).map(|word| hostftl_sim::quoted(&word));
    format!("hostftl {}", words.collect::<Vec<_>>().join(" "))
}
