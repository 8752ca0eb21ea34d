//! Messages bit by bit: fixed vectors, and packing and unpacking as inverses.

use cxl::{
    DataResponse, DataResponseOpcode, DecodeError, DevLoad, LogicalDevice, MemAddress, MetaField,
    MetaValue, NoDataResponse, NoDataResponseOpcode, Request, RequestOpcode, RequestWithData,
    RequestWithDataOpcode, SnoopType, Tag, TrafficClass,
};
use proptest::prelude::*;
use proptest::sample::select;
use units::LineAddr;

/// Bits of a message, from its lowest field up: each text is one field.
fn bits(fields: &[&str]) -> u128 {
    let text: String = fields.iter().rev().copied().collect();
    u128::from_str_radix(&text, 2).expect("fields are written in binary")
}

#[test]
fn a_read_of_line_one_has_this_pattern() {
    let request = Request::mem_rd(LineAddr::new(1), Tag::new(0xA001), false);
    let zeros = "0".repeat(45);
    let expected = bits(&[
        "1",                // valid
        "0001",             // MemRd
        "000",              // SnpType No-Op
        "11",               // MetaField No-Op
        "00",               // MetaValue
        "1010000000000001", // tag
        &(zeros + "10"),    // address bits 51 to 5 of byte 64
        "0000",             // logical device
        "000000",           // reserved
        "00",               // traffic class
    ]);
    assert_eq!(request.encode(), expected);
    assert_eq!(expected, 0x2A00_1303 | (1 << 29));
}

#[test]
fn a_read_that_must_wait_differs_in_the_first_reserved_bit() {
    let read = |must_wait| Request::mem_rd(LineAddr::new(77), Tag::new(5), must_wait).encode();
    assert_eq!(read(true) ^ read(false), 1 << 79);
}

#[test]
fn a_write_has_this_pattern() {
    let request = RequestWithData {
        is_poisoned: true,
        traffic_class: TrafficClass::new(2).expect("a class is below 4"),
        logical_device: LogicalDevice::new(9).expect("a device is below 16"),
        ..RequestWithData::mem_wr(LineAddr::new((1 << 46) - 1), Tag::new(3))
    };
    let address = "1".repeat(46);
    let expected = bits(&[
        "1",
        "0001",
        "000",
        "11",
        "00",
        "0000000000000011",
        &address,
        "1",
        "1001",
        "000000",
        "10",
    ]);
    assert_eq!(request.encode(), expected);
}

#[test]
fn skybyte_delay_has_this_pattern() {
    let delay = NoDataResponse::to(Tag::new(0xFFFF), NoDataResponseOpcode::SkyByteDelay);
    let expected = bits(&["1", "111", "11", "00", "1111111111111111", "0000", "00"]);
    assert_eq!(delay.encode(), expected);
    assert_eq!(expected, 0x00FF_FF3F);
}

#[test]
fn a_response_with_data_has_this_pattern() {
    let data = DataResponse {
        load: DevLoad::Moderate,
        ..DataResponse::mem_data(Tag::new(1))
    };
    let expected = bits(&[
        "1",
        "000",
        "11",
        "00",
        "0000000000000001",
        "0",
        "0000",
        "10",
        "000000000",
    ]);
    assert_eq!(data.encode(), expected);
}

#[test]
fn opcodes_of_responses_without_data_are_those_of_the_paper() {
    // SkyByte Fig. 8.
    let table = [
        (NoDataResponseOpcode::Cmp, 0b000),
        (NoDataResponseOpcode::CmpS, 0b001),
        (NoDataResponseOpcode::CmpE, 0b010),
        (NoDataResponseOpcode::BIConflictAck, 0b100),
        (NoDataResponseOpcode::SkyByteDelay, 0b111),
    ];
    assert_eq!(NoDataResponseOpcode::ALL.len(), table.len());
    for (opcode, encoding) in table {
        assert_eq!(opcode.bits(), encoding);
        assert_eq!(NoDataResponseOpcode::from_bits(encoding), Ok(opcode));
    }
}

#[test]
fn an_empty_slot_and_a_reserved_opcode_are_refused() {
    assert_eq!(Request::decode(0b10), Err(DecodeError::NotValid));
    let error = NoDataResponse::decode(0b1011).expect_err("opcode 101b is reserved");
    assert_eq!(
        error.to_string(),
        "the opcode of an S2M NDR holds the reserved encoding 101b"
    );
    assert!(RequestWithData::decode(0b1).is_err());
    assert!(DataResponse::decode(0b1111).is_err());
}

#[test]
fn addresses_that_cannot_travel_are_refused() {
    assert!(MemAddress::new(32).is_some());
    assert!(MemAddress::new(33).is_none());
    assert!(MemAddress::new(1 << 52).is_none());
    assert_eq!(
        MemAddress::of_line(LineAddr::new(7)).line(),
        LineAddr::new(7)
    );
    assert!(TrafficClass::new(4).is_none());
    assert!(LogicalDevice::new(16).is_none());
}

fn device() -> impl Strategy<Value = LogicalDevice> {
    (0u8..16).prop_map(|device| LogicalDevice::new(device).expect("a device is below 16"))
}

fn class() -> impl Strategy<Value = TrafficClass> {
    (0u8..4).prop_map(|class| TrafficClass::new(class).expect("a class is below 4"))
}

/// SnpType, MetaField, MetaValue, tag.
fn head() -> impl Strategy<Value = (SnoopType, MetaField, MetaValue, Tag)> {
    (
        select(SnoopType::ALL),
        select(MetaField::ALL),
        select(MetaValue::ALL),
        any::<u16>().prop_map(Tag::new),
    )
}

fn address(units: u64) -> impl Strategy<Value = MemAddress> {
    (0..(1u64 << 52) / units)
        .prop_map(move |number| MemAddress::new(number * units).expect("it is aligned"))
}

prop_compose! {
    fn request()(
        opcode in select(RequestOpcode::ALL),
        (snoop, meta_field, meta_value, tag) in head(),
        address in address(32),
        logical_device in device(),
        traffic_class in class(),
        must_wait: bool,
    ) -> Request {
        Request {
            opcode, snoop, meta_field, meta_value, tag, address, logical_device, traffic_class,
            must_wait,
        }
    }
}

prop_compose! {
    fn request_with_data()(
        opcode in select(RequestWithDataOpcode::ALL),
        (snoop, meta_field, meta_value, tag) in head(),
        address in address(64),
        is_poisoned: bool,
        logical_device in device(),
        traffic_class in class(),
    ) -> RequestWithData {
        RequestWithData {
            opcode, snoop, meta_field, meta_value, tag, address, is_poisoned, logical_device,
            traffic_class,
        }
    }
}

proptest! {
    #[test]
    fn a_request_is_packed_and_unpacked(request in request(), above: u64) {
        let bits = request.encode();
        prop_assert!(bits >> 87 == 0);
        // What lies above the message or in reserved bits does not change it.
        let noise = (u128::from(above) << 87) | (u128::from(above & 0x1F) << 80);
        prop_assert_eq!(Request::decode(bits | noise), Ok(request));
    }

    #[test]
    fn a_request_with_data_is_packed_and_unpacked(request in request_with_data(), above: u64) {
        let bits = request.encode();
        prop_assert!(bits >> 87 == 0);
        let noise = (u128::from(above) << 87) | (u128::from(above & 0x3F) << 79);
        prop_assert_eq!(RequestWithData::decode(bits | noise), Ok(request));
    }

    #[test]
    fn a_response_without_data_is_packed_and_unpacked(
        opcode in select(NoDataResponseOpcode::ALL),
        (_, meta_field, meta_value, tag) in head(),
        logical_device in device(),
        load in select(DevLoad::ALL),
        above: u64,
    ) {
        let response =
            NoDataResponse { opcode, meta_field, meta_value, tag, logical_device, load };
        let bits = response.encode();
        prop_assert!(bits >> 30 == 0);
        prop_assert_eq!(NoDataResponse::decode(bits | (u128::from(above) << 30)), Ok(response));
    }

    #[test]
    fn a_response_with_data_is_packed_and_unpacked(
        opcode in select(DataResponseOpcode::ALL),
        (_, meta_field, meta_value, tag) in head(),
        is_poisoned: bool,
        logical_device in device(),
        load in select(DevLoad::ALL),
        above: u64,
    ) {
        let response =
            DataResponse { opcode, meta_field, meta_value, tag, is_poisoned, logical_device, load };
        let bits = response.encode();
        prop_assert!(bits >> 40 == 0);
        prop_assert_eq!(DataResponse::decode(bits | (u128::from(above) << 31)), Ok(response));
    }
}
