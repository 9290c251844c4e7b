//! What is around the JSON of results: who made it, and the version of its schema.

use serde::Serialize;

use hostftl_frontend::program;

/// See the module text; `docs/results.schema.json` has its fields.
#[derive(Serialize)]
pub(crate) struct Envelope<T> {
    /// What it is.
    kind: &'static str,
    /// The version of the schema: it grows when a field is removed or means something else.
    schema: u32,
    version: &'static str,
    commit: &'static str,
    /// The command line, for a shell.
    command: String,
    #[serde(flatten)]
    what: T,
}

impl<T: Serialize> Envelope<T> {
    /// Around `what`, which this process made.
    pub(crate) fn new(kind: &'static str, what: T) -> Self {
        let (schema, version) = (program::SCHEMA, program::VERSION);
        Envelope { kind, schema, version, commit: program::COMMIT, command: command(), what }
    }
}

/// The command line of this process, for a shell.
pub(crate) fn command() -> String {
    let words = std::env::args().skip(1).map(|word| hostftl_sim::quoted(&word));
    format!("hostftl {}", words.collect::<Vec<_>>().join(" "))
}
