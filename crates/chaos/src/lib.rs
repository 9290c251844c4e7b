//! HostFTL chaos.
