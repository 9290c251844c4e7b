//! HostFTL drives.
