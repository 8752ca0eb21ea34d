//! The simulator's tests, in one program: it is linked once, and its tests share the cores.

mod accounting;
mod artifact;
mod astriflash;
mod chase;
mod clwb;
mod co_run;
mod common;
mod equivalence;
mod fast;
mod fidelity;
mod huge_pages;
mod input;
mod limits;
mod locality;
mod migration;
mod numa;
mod paths;
mod pinned;
mod recorded;
mod replay;
mod smoke;
mod switching;
mod switching_artifact;
mod threads;
mod tpp;
mod windows;
