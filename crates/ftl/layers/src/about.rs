//! Description of a layer for users.

/// Description of a layer for users.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// The function of the layer, in one line.
    pub does: &'static str,
    /// Uses in which the layer pays off and in which it does not, in one or two sentences.
    pub pays: &'static str,
    /// Limits on sizes and devices.
    pub limits: &'static str,
}
