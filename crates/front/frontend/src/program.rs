//! Which program made a result.

/// The version of HostFTL.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The commit that it was built from, twelve digits; empty where that is not known.
pub const COMMIT: &str = env!("HOSTFTL_COMMIT");
/// The version of the JSON of results: it grows when a field is removed or means something else.
pub const SCHEMA: u32 = 1;

/// Both, as files say who wrote them.
pub fn name() -> String {
    match COMMIT {
        "" => format!("hostftl {VERSION}"),
        commit => format!("hostftl {VERSION} {commit}"),
    }
}
