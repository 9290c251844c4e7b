//! HostFTL nbd-proto.
