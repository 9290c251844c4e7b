//! HostFTL volume.
