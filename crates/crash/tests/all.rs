//! The crash lab's tests, in one program: it is linked once, and its tests share the cores.

mod forged;
mod found;
mod lab;
mod planted_bugs;
mod report;
