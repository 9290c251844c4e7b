//! Kinds of layers. Each is described by its registration (see [`crate::registry`]).

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// The kinds of layers. The order must not change, because chaos draws from it and seeds
        /// would change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum LayerKind {
            $($(#[$doc])* $kind,)*
        }

        impl LayerKind {
            /// Number of kinds.
            pub(crate) const COUNT: usize = [$(LayerKind::$kind),*].len();
        }
    };
}

kinds! {
    /// No translation.
    Passthrough,
    /// Small writes are gathered into superpages; every sector is mapped.
    Hard,
    /// Every sector has a home; small writes are stored in a hidden area first.
    Shatl,
    /// Blocks are compressed and packed into stripes over all devices, with parity.
    Log,
    /// A fast device is a write-back cache of a slow one.
    Tier,
    /// A zoned device is filled line by line; a line is a segment of each parallel unit.
    Pblk,
    /// A zoned device is filled segment by segment, alternating between the parallel units.
    Rrpc,
    /// The test layer that uses every command; not available for volumes.
    Exerciser,
    /// Writes go to pages in the device's next victim.
    Scrambler,
    /// Small writes are gathered into superpages; runs of sectors are mapped.
    Mhatl,
    /// As `shatl`, with a hidden area as large as a budget of memory allows.
    HatlAuto,
    /// The test layer of several layers side by side on one device; not available for volumes.
    Targets,
}
