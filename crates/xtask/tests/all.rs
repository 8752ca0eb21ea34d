//! The house's tests, in one program: it is linked once, and its tests share the cores.

mod house;
mod layers;
mod no_std;
mod planted_bugs;
mod programs_of_tests;
mod reference;
