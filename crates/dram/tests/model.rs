//! A plain model of banks and buses, and bulk transfers against single accesses.

use dram::{Access, Dram, DramLine, DramSpec, Mapping, SsdDramConfig};
use proptest::prelude::*;
use std::collections::BTreeMap;
use units::{Bytes, Hertz, Picos, Time};

fn spec(
    (channels, banks): (u32, u32),
    row_lines: u64,
    mapping: Mapping,
    pipelined: bool,
) -> DramSpec {
    let config = SsdDramConfig {
        data_rate: Hertz::new(3_200_000_000),
        channels,
        banks,
        row_size: Bytes::new(64 * row_lines),
        bus_width: Bytes::new(2),
        mapping,
        pipelined,
        cl: 16,
        rcd: 18,
        rp: 18,
    };
    assert!(config.validate().is_empty());
    config.spec()
}

/// Commands at a bank and data on a bus, by division instead of shifts.
struct Model {
    spec: DramSpec,
    mapping: Mapping,
    /// From the end of data to the next column command's.
    gap: Picos,
    channels: u64,
    banks: u64,
    /// By (channel, bank): open row and the time of the last column command.
    open: BTreeMap<(u64, u64), (u64, Time)>,
    /// By channel: end of the last burst.
    bus: BTreeMap<u64, Time>,
}

impl Model {
    /// Channel, bank and row of a line.
    fn place(&self, line: u64) -> (u64, u64, u64) {
        match self.mapping {
            Mapping::Lines => {
                let row = line / self.channels / self.spec.lines_per_row();
                (line % self.channels, row % self.banks, row / self.banks)
            }
            Mapping::Rows => {
                let all = self.channels * self.banks;
                let row = line / self.spec.lines_per_row();
                let bank = (row % all) ^ (line / (32 << 20 >> 6) % all);
                (bank / self.banks, bank % self.banks, row / all)
            }
        }
    }

    fn access(&mut self, at: Time, line: u64) -> Time {
        let (channel, bank, row) = self.place(line);
        let command = match self.open.get(&(channel, bank)) {
            None => at + self.spec.rcd(),
            Some((open, last)) => {
                let ready = at.max(*last + self.spec.burst() + self.gap);
                if *open == row {
                    ready
                } else {
                    ready + self.spec.rp() + self.spec.rcd()
                }
            }
        };
        let bus_free = *self.bus.get(&channel).unwrap_or(&Time::ZERO);
        let data = (command + self.spec.cl()).max(bus_free);
        // A command that meets a busy bus is held back until its data fit.
        let command = Time::from_picos((data - Time::ZERO - self.spec.cl()).get());
        self.open.insert((channel, bank), (row, command));
        self.bus.insert(channel, data + self.spec.burst());
        data + self.spec.burst()
    }
}

/// (time in ns, not monotone; first line; lines)
fn requests() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    proptest::collection::vec((0u64..2000, 0u64..600, 0u64..70), 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn accesses_and_bulk_transfers_agree_with_a_plain_model(
        requests in requests(),
        channel_bits in 0u32..4,
        bank_bits in 0u32..3,
        row_bits in 0u32..6,
        (in_rows, pipelined) in any::<(bool, bool)>(),
        // Where bits are folded into the bank.
        origin in prop::sample::select(vec![0u64, (32 << 20 >> 6) - 300]),
    ) {
        let (channels, banks) = (1 << channel_bits, 1 << bank_bits);
        let mapping = if in_rows { Mapping::Rows } else { Mapping::Lines };
        let spec = spec((channels, banks), 1 << row_bits, mapping, pipelined);
        let mut single = Dram::new(&spec);
        let mut bulk = Dram::new(&spec);
        let gap = if pipelined { Picos::ZERO } else { spec.cl() };
        let mut model = Model {
            spec,
            mapping,
            gap,
            channels: channels.into(),
            banks: banks.into(),
            open: BTreeMap::new(),
            bus: BTreeMap::new(),
        };
        let mut latency = Picos::ZERO;
        for (nanos, first, line_count) in requests {
            let at = Time::ZERO + Picos::from_nanos(nanos);
            let first = origin + first;
            let mut last = at;
            for line in first..first + line_count {
                let done = single.access(at, DramLine::new(line), Access::Write);
                prop_assert_eq!(done, model.access(at, line));
                last = last.max(done);
                latency += done - at;
            }
            let done = bulk.bulk(at, DramLine::new(first), line_count, Access::Write);
            prop_assert_eq!(done, last);
            prop_assert_eq!(bulk.stats(), single.stats());
            single.audit();
        }
        let stats = single.stats();
        let unloaded = spec.unloaded_hit() * stats.row_hits
            + spec.unloaded_closed() * stats.row_misses
            + spec.unloaded_conflict() * stats.row_conflicts;
        prop_assert_eq!(latency, unloaded + stats.wait);
    }

    /// What goes ahead takes the bus from what goes behind: together they never have more of it
    /// than time has passed, and without anything behind, ahead is as ever.
    #[test]
    fn a_bus_is_shared_by_what_goes_ahead_and_behind(
        requests in proptest::collection::vec((0u64..300, 0u64..600, 1u64..70, 0..3), 1..60),
        channel_bits in 0u32..3,
        (in_rows, pipelined) in any::<(bool, bool)>(),
    ) {
        let mapping = if in_rows { Mapping::Rows } else { Mapping::Lines };
        let spec = spec((1 << channel_bits, 4), 32, mapping, pipelined);
        let mut shared = Dram::new(&spec);
        let (mut ahead, mut plain) = (Dram::new(&spec), Dram::new(&spec));
        for (nanos, first, line_count, way) in requests {
            let (at, line) = (Time::ZERO + Picos::from_nanos(nanos), DramLine::new(first));
            let done = match way {
                0 => shared.access_ahead(at, line, Access::Read),
                1 => shared.bulk_ahead(at, line, line_count, Access::Read),
                _ => shared.bulk_behind(at, line, line_count, Access::Write),
            };
            prop_assert!(done >= at + spec.unloaded_hit());
            shared.audit();
            let lines = if way == 0 { 1 } else { line_count };
            let done = ahead.bulk_ahead(at, line, lines, Access::Read);
            prop_assert_eq!(done, plain.bulk(at, line, lines, Access::Read));
        }
        prop_assert_eq!(ahead.stats(), plain.stats());
    }
}
