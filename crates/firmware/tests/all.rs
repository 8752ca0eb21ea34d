//! The firmware's tests, in one program: it is linked once, and its tests share the cores.

mod artifact;
mod byte_port;
mod common;
#[path = "common/device.rs"]
mod device;
mod device_model;
#[path = "common/lab.rs"]
mod lab;
mod pages;
mod paths;
mod prefetch;
#[path = "common/random.rs"]
mod random;
mod recovery;
mod transactions;
