//! Text of `hostftl --version`: build and on-disk formats.

use std::sync::LazyLock;

use hostftl_format::superblock;
use hostftl_layers::LayerKind;

/// Version, commit, target, features and formats. clap prints the program's name before it.
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
