//! The layers as a number: what each is stands in its registration (see [`crate::registry`]).

macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident,)*) => {
        /// The layers. The order is for good: chaos draws from it, and seeds stay what they were.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum LayerKind {
            $($(#[$doc])* $kind,)*
        }

        impl LayerKind {
            /// How many there are.
            pub(crate) const COUNT: usize = [$(LayerKind::$kind),*].len();
        }
    };
}

kinds! {
    /// No translation.
    Passthrough,
    /// Small writes are gathered into superpages; every sector is mapped.
    Hard,
    /// Every sector has a home; small writes go to a hidden area first.
    Shatl,
    /// Blocks are compressed and packed into rows over all devices, with parity.
    Log,
    /// A fast device is a write-back cache over a slow one.
    Tier,
    /// A zoned device is filled line by line, a line being a segment of each parallel unit.
    Pblk,
    /// A zoned device is filled segment by segment, the parallel units in turn.
    Rrpc,
    /// The test layer that uses every command; no user may choose it.
    Exerciser,
    /// Writes go to what the device collects next.
    Scrambler,
    /// Small writes are gathered into superpages; runs of sectors are mapped.
    Mhatl,
    /// As `shatl`, with a hidden area as large as a budget of memory allows.
    HatlAuto,
    /// The test layer of several layers side by side on one device; no user may choose it.
    Targets,
}
