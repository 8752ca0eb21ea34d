//! Encodings of the fields of CXL.mem messages.

use core::fmt;

/// A message that cannot be understood.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DecodeError {
    /// The valid bit is clear: the slot holds no message.
    NotValid,
    /// A field holds an encoding that is reserved.
    Reserved {
        /// Name of the field.
        field: &'static str,
        /// What it holds.
        value: u64,
    },
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotValid => write!(f, "the slot's valid bit is clear, so it holds no message"),
            Self::Reserved { field, value } => {
                write!(f, "{field} holds the reserved encoding {value:b}b")
            }
        }
    }
}

impl core::error::Error for DecodeError {}

/// Declares an encoded field.
macro_rules! encoding {
    ($(#[$meta:meta])* $name:ident, $word:literal {
        $($(#[$variant_meta:meta])* $variant:ident = $bits:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$variant_meta])* $variant = $bits,)*
        }

        impl $name {
            /// All encodings that are not reserved.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The field's bits.
            #[inline]
            pub const fn bits(self) -> u64 {
                self as u64
            }
            /// The meaning of the field's bits; an error if they are reserved.
            pub const fn from_bits(bits: u64) -> Result<Self, DecodeError> {
                match bits {
                    $($bits => Ok(Self::$variant),)*
                    value => Err(DecodeError::Reserved { field: $word, value }),
                }
            }
        }
    };
}

encoding! {
    /// What a request without data asks for (M2S Req, 4 bits).
    RequestOpcode, "the opcode of an M2S Req" {
        /// Changes only the line's metadata.
        MemInv = 0b0000,
        /// Reads a line.
        MemRd = 0b0001,
        /// Reads a line, leaving its metadata as it is.
        MemRdData = 0b0010,
        /// Hands a read of the device's own back to it.
        MemRdFwd = 0b0011,
        /// Hands a write of the device's own back to it.
        MemWrFwd = 0b0100,
        /// Starts a read ahead of its MemRd; never answered.
        MemSpecRd = 0b1000,
        /// As MemInv, without need of the old metadata.
        MemInvNT = 0b1001,
        /// Says that the host dropped a clean line.
        MemClnEvct = 0b1010,
    }
}

encoding! {
    /// What a request with data asks for (M2S RwD, 4 bits).
    RequestWithDataOpcode, "the opcode of an M2S RwD" {
        /// Writes a line.
        MemWr = 0b0001,
        /// Writes the enabled bytes of a line.
        MemWrPtl = 0b0010,
        /// Answers a back-invalidation that met a request.
        BIConflict = 0b0100,
    }
}

encoding! {
    /// What a response without data says (S2M NDR, 3 bits; SkyByte Fig. 8).
    NoDataResponseOpcode, "the opcode of an S2M NDR" {
        /// Done.
        Cmp = 0b000,
        /// Done; the host may hold the line shared.
        CmpS = 0b001,
        /// Done; the host may hold the line exclusively.
        CmpE = 0b010,
        /// Acknowledges a BIConflict.
        BIConflictAck = 0b100,
        /// SkyByte-Delay: the read ends here without data, for they will take long. Reserved in
        /// the standard.
        SkyByteDelay = 0b111,
    }
}

encoding! {
    /// What a response with data says (S2M DRS, 3 bits).
    DataResponseOpcode, "the opcode of an S2M DRS" {
        /// The data of the line.
        MemData = 0b000,
        /// Data in place of those of an address that does not exist.
        MemDataNxm = 0b001,
    }
}

encoding! {
    /// Which snoop the device should make (3 bits).
    SnoopType, "SnpType" {
        /// None.
        NoOp = 0b000,
        /// For a shared copy.
        SnpData = 0b001,
        /// For the current value.
        SnpCur = 0b010,
        /// For the only copy.
        SnpInv = 0b011,
    }
}

encoding! {
    /// Which metadata MetaValue is about (2 bits).
    MetaField, "MetaField" {
        /// The line's coherence state.
        Meta0State = 0b00,
        /// None; MetaValue says nothing.
        NoOp = 0b11,
    }
}

encoding! {
    /// The host's coherence state of a line (2 bits).
    MetaValue, "MetaValue" {
        /// No copy in the host.
        Invalid = 0b00,
        /// Perhaps a modified copy.
        Any = 0b10,
        /// At most shared copies.
        Shared = 0b11,
    }
}

encoding! {
    /// How busy the device says it is (2 bits).
    DevLoad, "DevLoad" {
        /// Light load.
        Light = 0b00,
        /// Optimal load.
        Optimal = 0b01,
        /// Moderate overload.
        Moderate = 0b10,
        /// Severe overload.
        Severe = 0b11,
    }
}
