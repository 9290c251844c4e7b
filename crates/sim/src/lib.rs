//! HostFTL sim.
