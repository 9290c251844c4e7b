//! What each command of the script must come to.

use hostftl_core::Token;

/// What a command's token says of its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Expect {
    /// Success.
    Plain,
    /// The digest of the host's bytes, learnt here.
    LearnData,
    /// The same digest again.
    SameData,
    /// The digest of one sector of zeros, learnt here.
    LearnZeros,
    /// The same digest again.
    SameZeros,
    /// The digest of the first device's page in payload, learnt here.
    LearnPage,
    /// The same digest again.
    SamePage,
    /// The length and checksum of the packed bytes, by LZ4 or by Zstandard.
    PackLz4,
    PackZstd,
    /// A whole transfer, expanded.
    Whole,
    /// A part that is right.
    Moved,
    /// A page that the script wrote to this device.
    Page,
    /// A page of zeros.
    ZeroPage,
    /// The page of the first device, from payload.
    Peeked,
    /// Nothing: it may come when the layer has gone on.
    Late,
}

impl Expect {
    const ALL: [Expect; 15] = [
        Expect::Plain,
        Expect::LearnData,
        Expect::SameData,
        Expect::LearnZeros,
        Expect::SameZeros,
        Expect::LearnPage,
        Expect::SamePage,
        Expect::PackLz4,
        Expect::PackZstd,
        Expect::Whole,
        Expect::Moved,
        Expect::Page,
        Expect::ZeroPage,
        Expect::Peeked,
        Expect::Late,
    ];

    pub(super) fn of(token: Token) -> Self {
        Self::ALL[(token.0 & 0xff) as usize]
    }
}
