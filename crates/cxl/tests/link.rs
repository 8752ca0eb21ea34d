//! The link's latency, bandwidth and order against closed formulas.

use cxl::{Link, LinkConfig, MessageClass};
use proptest::prelude::*;
use units::{Bytes, BytesPerSec, Picos, Time};

/// SkyByte Table II.
fn table_ii() -> LinkConfig {
    let config = LinkConfig {
        bandwidth: BytesPerSec::new(16_000_000_000),
        write_credits: 256,
        ownership: cxl::Ownership::Read,
        write_echo: false,
        protocol_latency: Picos::from_nanos(40),
    };
    assert!(config.validate().is_empty());
    config
}

#[test]
fn an_unloaded_message_takes_its_bytes_and_half_the_protocol_latency() {
    // 17 B and 85 B at 16 GB/s are 1062.5 and 5312.5 ps, rounded up.
    let expected = [
        (MessageClass::MemRd, 17, 1_063),
        (MessageClass::MemWr, 85, 5_313),
        (MessageClass::Ndr, 17, 1_063),
        (MessageClass::Drs, 85, 5_313),
    ];
    let start = Time::from_picos(7);
    for (class, bytes, serialization) in expected {
        let mut link = Link::new(&table_ii());
        assert_eq!(class.wire_bytes(), Bytes::new(bytes));
        assert_eq!(link.unloaded(class), Picos::new(20_000 + serialization));
        assert_eq!(link.send(start, class), start + link.unloaded(class));
    }
}

#[test]
fn both_ways_add_up_to_the_protocol_latency_when_it_is_odd() {
    let config = LinkConfig {
        protocol_latency: Picos::new(41),
        ..table_ii()
    };
    let link = Link::new(&config);
    let both = link.unloaded(MessageClass::MemRd) + link.unloaded(MessageClass::Ndr);
    assert_eq!(both, Picos::new(1_063 * 2 + 41));
}

#[test]
fn a_saturated_direction_carries_its_bandwidth_and_no_more() {
    let mut link = Link::new(&table_ii());
    let mut last = Time::ZERO;
    for _ in 0..10_000 {
        last = link.send(Time::ZERO, MessageClass::Drs);
    }
    let busy = Picos::new(5_313) * 10_000;
    assert_eq!(last, Time::ZERO + busy + Picos::from_nanos(20));
    let stats = link.stats();
    assert_eq!(stats.to_host.busy, busy);
    assert_eq!(stats.to_host.bytes, Bytes::new(850_000));
    let rate = u128::from(stats.to_host.bytes.get()) * 1_000_000_000_000 / u128::from(busy.get());
    assert!((15_990_000_000..=16_000_000_000).contains(&rate), "{rate}");
    // 64 of every 85 bytes are data.
    assert_eq!(
        stats.of(MessageClass::Drs) * 64,
        stats.to_host.bytes.get() * 64 / 85
    );
    assert_eq!(stats.to_device, cxl::DirectionStats::default());
}

#[test]
fn a_message_waits_for_those_before_it_and_not_a_picosecond_longer() {
    for (late, wait) in [(5_312, 1), (5_313, 0), (5_314, 0)] {
        let mut link = Link::new(&table_ii());
        link.send(Time::ZERO, MessageClass::MemWr);
        let at = Time::from_picos(late);
        let unloaded = link.unloaded(MessageClass::MemRd);
        assert_eq!(
            link.send(at, MessageClass::MemRd),
            at + Picos::new(wait) + unloaded
        );
        assert_eq!(link.stats().to_device.wait, Picos::new(wait));
    }
}

#[test]
fn problems_of_the_section_are_reported() {
    let bad = LinkConfig {
        bandwidth: BytesPerSec::new(0),
        protocol_latency: Picos::from_micros(1_001),
        write_credits: 0,
        ..table_ii()
    };
    assert_eq!(bad.validate().len(), 3);
    assert_eq!(LinkConfig::PARAMETERS[1].key, "link.protocol_latency");
}

proptest! {
    /// A direction is a queue with one server: each message is put on the wire when it is ready
    /// and the one called before it is off the wire.
    #[test]
    fn messages_of_a_direction_arrive_in_order_of_call(
        sends in proptest::collection::vec((0u64..200_000, 0usize..4), 1..100),
    ) {
        let mut link = Link::new(&table_ii());
        let serialization = |class: MessageClass| class.wire_bytes().get() * 125 / 2;
        let mut off_wire = [0u64; 2];
        for (at, class) in sends {
            let class = MessageClass::ALL[class];
            let free = &mut off_wire[class.direction() as usize];
            // 62.5 ps a byte, rounded up for each message.
            *free = at.max(*free) + serialization(class) + class.wire_bytes().get() % 2;
            let arrival = link.send(Time::from_picos(at), class);
            prop_assert_eq!(arrival, Time::from_picos(*free + 20_000));
            link.audit();
        }
        let stats = link.stats();
        prop_assert!(stats.to_device.busy.get() <= off_wire[0]);
        prop_assert!(stats.to_host.busy.get() <= off_wire[1]);
    }
}
