//! What a layer is, in words for users.

/// See the module text.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// What the layer does, in a line.
    pub does: &'static str,
    /// Where the layer pays, and where something else does, in a sentence or two.
    pub pays: &'static str,
    /// What the layer can't do: sizes and devices.
    pub limits: &'static str,
}
