//! Time, sizes, addresses, ratios and random streams: the words every other crate speaks.
//!
//! Knows nothing of simulators, devices or files. `no_std`, so the firmware may use it.
//!
//! A value that crosses a module border is one of these types, never a bare integer: an instant is
//! not a span, a logical page is not a physical one, a count is not a size. Every quantity prints
//! as a person would write it (`3us`, `64MiB`, `4GHz`, `60%`) and parses back to itself.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;

pub mod address;
pub mod divisor;
pub mod filling;
pub mod flash;
pub mod foresee;
pub mod id;
pub mod line_mask;
pub mod log_buckets;
pub mod parameter;
pub mod quantity;
pub mod ratio;
pub mod size;
pub mod stream;
pub mod time;
pub mod timing;

pub use address::{ByteAddr, LineAddr, LineInPage, Lpa, PageSize};
pub use divisor::Divisor;
pub use flash::{BlockAddr, FlashGeometry, FlashPage, Locator, Ppa};
pub use foresee::foresee;
pub use id::{ChannelId, CoreId, DieId, FrameId, LogSlot, RequestId, ThreadId, TxId};
pub use line_mask::LineMask;
pub use quantity::ParseQuantityError;
pub use ratio::Ratio;
pub use size::{Bytes, BytesPerSec};
pub use stream::Stream;
pub use time::{Cycles, Hertz, Picos, Time};
pub use timing::{FlashOp, Timing};
