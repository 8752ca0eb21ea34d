//! Virtual time's tests, in one program: it is linked once, and its tests share the cores.

mod common;
mod machine;
mod numbers;
mod transactions;
