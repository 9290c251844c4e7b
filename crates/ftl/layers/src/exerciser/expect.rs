//! Expected results of the script's commands.

use hostftl_core::Token;

/// The expected result of a command, stored in its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Expect {
    /// Success.
    Plain,
    /// The digest of the host's data, recorded here.
    LearnData,
    /// The recorded digest of the host's data.
    SameData,
    /// The digest of one sector of zeros, recorded here.
    LearnZeros,
    /// The recorded digest of zeros.
    SameZeros,
    /// The digest of the first device's page as payload, recorded here.
    LearnPage,
    /// The recorded digest of the page.
    SamePage,
    /// The length and checksum of the packed data, with LZ4 or Zstandard.
    PackLz4,
    PackZstd,
    /// A whole transfer, unpacked.
    Whole,
    /// A copied part with a matching checksum.
    Moved,
    /// The page that the script wrote to this device.
    Page,
    /// A page of zeros.
    ZeroPage,
    /// The page of the first device, peeked from payload.
    Peeked,
    /// None: the command may complete after the layer has continued.
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

    pub(super) fn for_token(token: Token) -> Self {
        Self::ALL[(token.0 & 0xff) as usize]
    }
}
