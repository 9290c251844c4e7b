//! Who belongs to a volume this time: sets of devices as sets of bits, by index in the stack.

/// See the module text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The devices that are not there this time: every command to them fails. At most as many as
    /// [`crate::LayerConfig::tolerates`].
    pub missing: u16,
    /// The devices that hold nothing of the volume and came in the place of others, which they
    /// replace: what lies on those is made again. Only where a registration says `replaces`.
    pub fresh: u16,
    /// Those of the `fresh` ones that were there before, and lack only what was written since.
    pub returning: u16,
    /// With how many devices the volume was made, if others came since; 0 = with all of them.
    pub born: u8,
    /// The places of devices that were removed; they are all `missing`.
    pub gone: u16,
    /// Devices that are to be removed: nothing new is to lie on them.
    pub leaving: u16,
    /// Devices that are kept to take the place of one that is lost, by themselves.
    pub spare: u16,
    /// Devices among the `missing` that an operator left out: no spare takes their place.
    pub planned: u16,
}
