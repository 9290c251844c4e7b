//! HostFTL io.
