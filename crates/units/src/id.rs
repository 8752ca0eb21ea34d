//! Typed indices.

/// Declares index types: zero-based, ordered, without arithmetic.
#[macro_export]
macro_rules! ids {
    ($($(#[$meta:meta])* $name:ident, $word:literal;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        #[repr(transparent)]
        pub struct $name(u32);

        impl $name {
            /// The id with this zero-based index.
            #[inline]
            pub const fn new(index: u32) -> Self {
                Self(index)
            }
            /// The id with this zero-based index, which must fit in 32 bits.
            #[inline]
            pub fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).expect(concat!("a ", $word, " index fits in 32 bits")))
            }
            /// The zero-based index.
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
            /// The zero-based index as it is stored.
            #[inline]
            pub const fn get(self) -> u32 {
                self.0
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!($word, " {}"), self.0)
            }
        }
    )*};
}

ids! {
    /// A slot of the write log: one line.
    LogSlot, "slot";
    /// A page slot of the device's data cache.
    FrameId, "frame";
    /// A NAND die, counted over the whole device: channel-major, then chip, then die in the chip.
    DieId, "die";
    /// A NAND channel.
    ChannelId, "channel";
    /// A host core.
    CoreId, "core";
    /// A thread of the capture.
    ThreadId, "thread";
    /// A request in flight between host and device; reused once answered.
    RequestId, "request";
    /// A transaction, named by the host (ByteFS §4.3: 4 B). The first one, 0, stands for none:
    /// what is written under it is committed at once.
    TxId, "transaction";
}

impl TxId {
    /// No transaction.
    pub const NONE: Self = Self::new(0);
}
