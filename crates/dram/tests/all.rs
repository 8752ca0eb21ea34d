//! The DRAM model's tests, in one program: it is linked once, and its tests share the cores.

mod model;
mod timing;
