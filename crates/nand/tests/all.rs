//! The flash model's tests, in one program: it is linked once, and its tests share the cores.

mod common;
mod config;
mod faults;
mod model;
mod queueing;
mod timing;
mod wanted;
