//! The link's tests, in one program: it is linked once, and its tests share the cores.

mod link;
mod messages;
