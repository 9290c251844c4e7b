//! HostFTL on the command line.
fn main() {}
