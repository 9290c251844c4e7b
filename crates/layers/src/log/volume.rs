//! Which volume it is, and which of its lives.

/// What heads, roots and records carry, so that nobody takes them for another volume's, or for an
/// earlier life's.
#[derive(Clone, Copy, Debug)]
pub struct Volume {
    /// The volume.
    pub uuid: [u8; 16],
    /// The number of this life; each start begins one.
    pub life: u32,
}
