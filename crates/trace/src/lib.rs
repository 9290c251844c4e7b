//! HostFTL trace.
