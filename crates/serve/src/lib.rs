//! HostFTL serve.
