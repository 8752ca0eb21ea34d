//! What papers, artifacts and users want done differently, one file for each choice.
//!
//! The configuration names a policy (`SsdConfig`, `FtlConfig`); the controller asks it at the one
//! place where it matters. Replacement and prefetching, which are larger, are
//! [`crate::data_cache::policy`] and [`crate::prefetch`]; how victims of GC are chosen is
//! [`crate::ftl::gc`].

pub(crate) mod at_hand;
pub(crate) mod charges;
pub(crate) mod delay;
pub(crate) mod promotion;
pub(crate) mod room;
pub(crate) mod victims;
