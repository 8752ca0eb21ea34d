//! The four classes of CXL.mem messages, packed and unpacked exactly.
//!
//! Fields and widths are those of the 68-byte flit of CXL 2.0, a message's fields in the order of
//! the specification's tables from bit 0 up; opcodes include those that CXL 3.0 added. The data of
//! a line travel in slots of their own and are not part of the packed message.

use crate::bits::{Reader, Writer};
use crate::opcode::{
    DataResponseOpcode, DecodeError, DevLoad, MetaField, MetaValue, NoDataResponseOpcode,
    RequestOpcode, RequestWithDataOpcode, SnoopType,
};
use units::LineAddr;

/// Names a transaction of the host; its responses carry the same tag (16 bits).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Tag(u16);

impl Tag {
    /// The tag with this number.
    pub const fn new(tag: u16) -> Self {
        Self(tag)
    }
    /// The tag's number.
    pub const fn get(self) -> u16 {
        self.0
    }
}

/// A byte address of the link, below 2^52 and a multiple of 32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(transparent)]
pub struct MemAddress(u64);

impl MemAddress {
    /// The address of this byte, if a request can name it.
    pub const fn new(byte: u64) -> Option<Self> {
        if byte < 1 << 52 && byte.is_multiple_of(32) {
            Some(Self(byte))
        } else {
            None
        }
    }
    /// The address of a line of the device's logical space, which starts at address zero here;
    /// the line's number is below 2^46.
    pub fn of_line(line: LineAddr) -> Self {
        assert!(line.get() < 1 << 46, "a line is within the 52 address bits");
        Self(line.get() << 6)
    }
    /// The line that holds the address.
    pub const fn line(self) -> LineAddr {
        LineAddr::new(self.0 >> 6)
    }
    /// The byte address.
    pub const fn get(self) -> u64 {
        self.0
    }
}

/// Quality-of-service class of a request (2 bits).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct TrafficClass(u8);

impl TrafficClass {
    /// Class 0 to 3.
    pub const fn new(class: u8) -> Option<Self> {
        if class < 4 { Some(Self(class)) } else { None }
    }
    /// The class's number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Logical device of a pooled device (4 bits); 0 for a device of one host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct LogicalDevice(u8);

impl LogicalDevice {
    /// Logical device 0 to 15.
    pub const fn new(device: u8) -> Option<Self> {
        if device < 16 {
            Some(Self(device))
        } else {
            None
        }
    }
    /// The logical device's number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// M2S Req: a request without data, 87 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// What is asked for.
    pub opcode: RequestOpcode,
    /// Snoop to make.
    pub snoop: SnoopType,
    /// Which metadata the request is about.
    pub meta_field: MetaField,
    /// The host's coherence state.
    pub meta_value: MetaValue,
    /// Names the transaction.
    pub tag: Tag,
    /// Bits 51 to 5 travel.
    pub address: MemAddress,
    /// Logical device.
    pub logical_device: LogicalDevice,
    /// Traffic class.
    pub traffic_class: TrafficClass,
    /// The answer must be data, however long they take; SkyByte-Delay is not allowed. Ours, in
    /// the first reserved bit, which a device of the standard ignores. A host whose request has
    /// no load to put to sleep sets it when it asks again (D13).
    pub must_wait: bool,
}

/// M2S RwD: a request with data, 87 bits before its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RequestWithData {
    /// What is asked for.
    pub opcode: RequestWithDataOpcode,
    /// Snoop to make.
    pub snoop: SnoopType,
    /// Which metadata the request is about.
    pub meta_field: MetaField,
    /// The host's coherence state.
    pub meta_value: MetaValue,
    /// Names the transaction.
    pub tag: Tag,
    /// Bits 51 to 6 travel.
    pub address: MemAddress,
    /// The data are known to be corrupt.
    pub is_poisoned: bool,
    /// Logical device.
    pub logical_device: LogicalDevice,
    /// Traffic class.
    pub traffic_class: TrafficClass,
}

/// S2M NDR: a response without data, 30 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoDataResponse {
    /// What it says.
    pub opcode: NoDataResponseOpcode,
    /// Which metadata the response is about.
    pub meta_field: MetaField,
    /// The line's coherence state as the device keeps it.
    pub meta_value: MetaValue,
    /// The transaction it answers.
    pub tag: Tag,
    /// Logical device.
    pub logical_device: LogicalDevice,
    /// How busy the device is.
    pub load: DevLoad,
}

/// S2M DRS: a response with data, 40 bits before its data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataResponse {
    /// What it says.
    pub opcode: DataResponseOpcode,
    /// Which metadata the response is about.
    pub meta_field: MetaField,
    /// The line's coherence state as the device keeps it.
    pub meta_value: MetaValue,
    /// The transaction it answers.
    pub tag: Tag,
    /// The data are known to be corrupt.
    pub is_poisoned: bool,
    /// Logical device.
    pub logical_device: LogicalDevice,
    /// How busy the device is.
    pub load: DevLoad,
}

/// Bits of a packed [`Request`].
pub const REQUEST_BITS: u32 = 87;
/// Bits of a packed [`RequestWithData`], without its data.
pub const REQUEST_WITH_DATA_BITS: u32 = 87;
/// Bits of a packed [`NoDataResponse`].
pub const NO_DATA_RESPONSE_BITS: u32 = 30;
/// Bits of a packed [`DataResponse`], without its data.
pub const DATA_RESPONSE_BITS: u32 = 40;

impl Request {
    /// A read of a line; `must_wait` forbids SkyByte-Delay as its answer.
    pub fn mem_rd(line: LineAddr, tag: Tag, must_wait: bool) -> Self {
        Self {
            opcode: RequestOpcode::MemRd,
            snoop: SnoopType::NoOp,
            meta_field: MetaField::NoOp,
            meta_value: MetaValue::Invalid,
            tag,
            address: MemAddress::of_line(line),
            logical_device: LogicalDevice::default(),
            traffic_class: TrafficClass::default(),
            must_wait,
        }
    }

    /// The packed message.
    pub fn encode(&self) -> u128 {
        Writer::new()
            .field(1, 1)
            .field(4, self.opcode.bits())
            .field(3, self.snoop.bits())
            .field(2, self.meta_field.bits())
            .field(2, self.meta_value.bits())
            .field(16, u64::from(self.tag.0))
            .field(47, self.address.0 >> 5)
            .field(4, u64::from(self.logical_device.0))
            .field(1, u64::from(self.must_wait))
            .field(5, 0)
            .field(2, u64::from(self.traffic_class.0))
            .finish(REQUEST_BITS)
    }

    /// Unpacks a message; reserved bits are ignored, reserved encodings are not.
    pub fn decode(bits: u128) -> Result<Self, DecodeError> {
        let mut fields = valid_fields(bits)?;
        let opcode = RequestOpcode::from_bits(fields.field(4))?;
        let snoop = SnoopType::from_bits(fields.field(3))?;
        let meta_field = MetaField::from_bits(fields.field(2))?;
        let meta_value = MetaValue::from_bits(fields.field(2))?;
        let tag = read_tag(&mut fields);
        let address = MemAddress(fields.field(47) << 5);
        let logical_device = LogicalDevice(fields.field(4) as u8);
        let must_wait = fields.field(1) == 1;
        fields.field(5);
        let traffic_class = TrafficClass(fields.field(2) as u8);
        Ok(Self {
            opcode,
            snoop,
            meta_field,
            meta_value,
            tag,
            address,
            logical_device,
            traffic_class,
            must_wait,
        })
    }
}

impl RequestWithData {
    /// A write of a line.
    pub fn mem_wr(line: LineAddr, tag: Tag) -> Self {
        Self {
            opcode: RequestWithDataOpcode::MemWr,
            snoop: SnoopType::NoOp,
            meta_field: MetaField::NoOp,
            meta_value: MetaValue::Invalid,
            tag,
            address: MemAddress::of_line(line),
            is_poisoned: false,
            logical_device: LogicalDevice::default(),
            traffic_class: TrafficClass::default(),
        }
    }

    /// The packed message, whose address is that of a line: bit 5 does not travel.
    pub fn encode(&self) -> u128 {
        assert!(self.address.0.is_multiple_of(64), "data go to a whole line");
        Writer::new()
            .field(1, 1)
            .field(4, self.opcode.bits())
            .field(3, self.snoop.bits())
            .field(2, self.meta_field.bits())
            .field(2, self.meta_value.bits())
            .field(16, u64::from(self.tag.0))
            .field(46, self.address.0 >> 6)
            .field(1, u64::from(self.is_poisoned))
            .field(4, u64::from(self.logical_device.0))
            .field(6, 0)
            .field(2, u64::from(self.traffic_class.0))
            .finish(REQUEST_WITH_DATA_BITS)
    }

    /// Unpacks a message; reserved bits are ignored, reserved encodings are not.
    pub fn decode(bits: u128) -> Result<Self, DecodeError> {
        let mut fields = valid_fields(bits)?;
        let opcode = RequestWithDataOpcode::from_bits(fields.field(4))?;
        let snoop = SnoopType::from_bits(fields.field(3))?;
        let meta_field = MetaField::from_bits(fields.field(2))?;
        let meta_value = MetaValue::from_bits(fields.field(2))?;
        let tag = read_tag(&mut fields);
        let address = MemAddress(fields.field(46) << 6);
        let is_poisoned = fields.field(1) == 1;
        let logical_device = LogicalDevice(fields.field(4) as u8);
        fields.field(6);
        let traffic_class = TrafficClass(fields.field(2) as u8);
        Ok(Self {
            opcode,
            snoop,
            meta_field,
            meta_value,
            tag,
            address,
            is_poisoned,
            logical_device,
            traffic_class,
        })
    }
}

impl NoDataResponse {
    /// The response `opcode` to the transaction `tag`.
    pub fn to(tag: Tag, opcode: NoDataResponseOpcode) -> Self {
        Self {
            opcode,
            meta_field: MetaField::NoOp,
            meta_value: MetaValue::Invalid,
            tag,
            logical_device: LogicalDevice::default(),
            load: DevLoad::Light,
        }
    }

    /// The packed message.
    pub fn encode(&self) -> u128 {
        Writer::new()
            .field(1, 1)
            .field(3, self.opcode.bits())
            .field(2, self.meta_field.bits())
            .field(2, self.meta_value.bits())
            .field(16, u64::from(self.tag.0))
            .field(4, u64::from(self.logical_device.0))
            .field(2, self.load.bits())
            .finish(NO_DATA_RESPONSE_BITS)
    }

    /// Unpacks a message; an error if an encoding is reserved.
    pub fn decode(bits: u128) -> Result<Self, DecodeError> {
        let mut fields = valid_fields(bits)?;
        Ok(Self {
            opcode: NoDataResponseOpcode::from_bits(fields.field(3))?,
            meta_field: MetaField::from_bits(fields.field(2))?,
            meta_value: MetaValue::from_bits(fields.field(2))?,
            tag: read_tag(&mut fields),
            logical_device: LogicalDevice(fields.field(4) as u8),
            load: DevLoad::from_bits(fields.field(2))?,
        })
    }
}

impl DataResponse {
    /// The data of the transaction `tag`.
    pub fn mem_data(tag: Tag) -> Self {
        Self {
            opcode: DataResponseOpcode::MemData,
            meta_field: MetaField::NoOp,
            meta_value: MetaValue::Invalid,
            tag,
            is_poisoned: false,
            logical_device: LogicalDevice::default(),
            load: DevLoad::Light,
        }
    }

    /// The packed message.
    pub fn encode(&self) -> u128 {
        Writer::new()
            .field(1, 1)
            .field(3, self.opcode.bits())
            .field(2, self.meta_field.bits())
            .field(2, self.meta_value.bits())
            .field(16, u64::from(self.tag.0))
            .field(1, u64::from(self.is_poisoned))
            .field(4, u64::from(self.logical_device.0))
            .field(2, self.load.bits())
            .field(9, 0)
            .finish(DATA_RESPONSE_BITS)
    }

    /// Unpacks a message; reserved bits are ignored, reserved encodings are not.
    pub fn decode(bits: u128) -> Result<Self, DecodeError> {
        let mut fields = valid_fields(bits)?;
        Ok(Self {
            opcode: DataResponseOpcode::from_bits(fields.field(3))?,
            meta_field: MetaField::from_bits(fields.field(2))?,
            meta_value: MetaValue::from_bits(fields.field(2))?,
            tag: read_tag(&mut fields),
            is_poisoned: fields.field(1) == 1,
            logical_device: LogicalDevice(fields.field(4) as u8),
            load: DevLoad::from_bits(fields.field(2))?,
        })
    }
}

/// The fields after the valid bit, if that is set.
fn valid_fields(bits: u128) -> Result<Reader, DecodeError> {
    let mut fields = Reader::new(bits);
    if fields.field(1) == 0 {
        return Err(DecodeError::NotValid);
    }
    Ok(fields)
}

fn read_tag(fields: &mut Reader) -> Tag {
    Tag(fields.field(16) as u16)
}
