//! CXL.mem between host and device: the messages bit by bit, and the link that carries them.
//!
//! [`message`] encodes and decodes the four message classes with the SkyByte-Delay opcode
//! (SkyByte Fig. 8). [`Link`] is a resource in virtual time: FIFO in each direction, so a message
//! returns the time of its arrival at once and needs no event (architecture B4). The crate knows
//! nothing of what is behind either end. See `docs/cxl.md`.
#![forbid(unsafe_code)]

mod bits;
pub mod config;
pub mod link;
pub mod message;
pub mod opcode;

pub use config::{LinkConfig, Ownership};
pub use link::{Direction, DirectionStats, Link, LinkStats, MessageClass};
pub use message::{
    DataResponse, LogicalDevice, MemAddress, NoDataResponse, Request, RequestWithData, Tag,
    TrafficClass,
};
pub use opcode::{
    DataResponseOpcode, DecodeError, DevLoad, MetaField, MetaValue, NoDataResponseOpcode,
    RequestOpcode, RequestWithDataOpcode, SnoopType,
};
