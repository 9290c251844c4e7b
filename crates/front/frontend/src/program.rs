//! Identity of the program that produced a result.

/// Version of HostFTL.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit of the program, twelve digits; empty if unknown.
pub const COMMIT: &str = env!("HOSTFTL_COMMIT");
/// Version of the JSON of results. It increases when a field is removed or changes its meaning.
pub const SCHEMA: u32 = 1;

/// Returns the name, the version and the commit, for the creator field of files.
pub fn name() -> String {
    match COMMIT {
        "" => format!("hostftl {VERSION}"),
        commit => format!("hostftl {VERSION} {commit}"),
    }
}
