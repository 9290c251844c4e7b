//! A real stack with its data: made, opened, served, looked at, closed.

pub mod front;
mod ram;

pub use ram::ram_port;
