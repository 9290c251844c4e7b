//! What `hostftl --version` says: from what the program was built, and which formats it writes.

use std::sync::LazyLock;

use hostftl_format::superblock;
use hostftl_layers::LayerKind;

/// See the module text; its first line goes behind the program's name.
pub(crate) static LONG: LazyLock<String> = LazyLock::new(|| {
    let layers: Vec<_> =
        LayerKind::ALL.iter().map(|kind| format!("{kind} {}", kind.format())).collect();
    let (version, commit) = (env!("CARGO_PKG_VERSION"), env!("HOSTFTL_COMMIT"));
    let features = match env!("HOSTFTL_FEATURES") {
        "" => "none beyond the usual",
        some => some,
    };
    format!(
        "{version}\n\
         commit {commit}\n\
         target {}\n\
         features {features}\n\
         formats superblock {}, {}",
        env!("HOSTFTL_TARGET"),
        superblock::VERSION,
        layers.join(", "),
    )
});
