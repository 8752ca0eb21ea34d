//! The laboratory's tests, in one program: it is linked once, and its tests share the cores.

mod crash;
mod dax;
mod faults;
mod loads;
mod model;
mod planted_bugs;
mod replay;
