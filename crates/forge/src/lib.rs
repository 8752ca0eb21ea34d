//! Inputs that are valid in form and wrong in content, for tests and for fuzzing.
//!
//! Random bytes seldom come past the first checksum. So each format has here what takes an input
//! apart, changes a part of it and puts it together again with right lengths and checksums. What is
//! changed, and how, is drawn from [`Choices`]: bytes, which property tests draw and shrink and a
//! fuzzer mutates.
//!
//! Knows the formats as their documents describe them and none of the crates that read them, so
//! that a mistake there is not repeated here.
#![forbid(unsafe_code)]

mod choices;
pub mod etr;
mod extremes;
pub mod image;
mod text;

pub use choices::Choices;
pub use extremes::extremes;
pub use text::change_text;
