//! Latencies and bandwidth against closed formulas.

use dram::{Access, Dram, DramLine, DramSpec, HostDramConfig, Mapping, SsdDramConfig};
use units::{Bytes, Hertz, Picos, Time};

fn host() -> DramSpec {
    let config = HostDramConfig {
        data_rate: Hertz::new(4_800_000_000),
        channels: 8,
        banks: 32,
        row_size: Bytes::from_kib(8),
        bus_width: Bytes::new(8),
        mapping: Mapping::Lines,
        pipelined: true,
        cl: 36,
        rcd: 38,
        rp: 38,
    };
    assert!(config.validate().is_empty());
    config.spec()
}

fn ssd() -> DramSpec {
    ssd_config().spec()
}

fn ssd_config() -> SsdDramConfig {
    SsdDramConfig {
        data_rate: Hertz::new(3_200_000_000),
        channels: 2,
        banks: 8,
        row_size: Bytes::from_kib(2),
        bus_width: Bytes::new(2),
        mapping: Mapping::Lines,
        pipelined: true,
        cl: 16,
        rcd: 18,
        rp: 18,
    }
}

/// The line at (row, bank, column, channel) of the device's DRAM: 32 lines to a row.
fn ssd_line(row: u64, bank: u64, column: u64, channel: u64) -> DramLine {
    DramLine::new(((row * 8 + bank) * 32 + column) * 2 + channel)
}

/// An instant after everything before has ended.
fn later(round: u64) -> Time {
    Time::ZERO + Picos::from_micros(round)
}

#[test]
fn timings_are_their_clocks_rounded_up_once() {
    // 36 and 38 clocks of 2.4 GHz; 16 and 18 of 1.6 GHz; 8 and 32 transfers.
    let picos = |spec: DramSpec| [spec.cl(), spec.rcd(), spec.rp(), spec.burst()].map(Picos::get);
    assert_eq!(picos(host()), [15_000, 15_834, 15_834, 1_667]);
    assert_eq!(picos(ssd()), [10_000, 11_250, 11_250, 10_000]);
}

#[test]
fn an_unloaded_access_takes_the_sum_of_its_parts() {
    let spec = ssd();
    let mut dram = Dram::new(&spec);
    for (round, (line, latency)) in [
        (ssd_line(0, 0, 0, 0), spec.unloaded_closed()),
        (ssd_line(0, 0, 31, 0), spec.unloaded_hit()),
        (ssd_line(1, 0, 0, 0), spec.unloaded_conflict()),
        (ssd_line(0, 1, 0, 0), spec.unloaded_closed()),
        (ssd_line(1, 0, 5, 0), spec.unloaded_hit()),
        (ssd_line(1, 0, 5, 1), spec.unloaded_closed()),
    ]
    .into_iter()
    .enumerate()
    {
        let at = later(round as u64);
        assert_eq!(dram.access(at, line, Access::Read), at + latency);
    }
    assert_eq!(spec.unloaded_hit(), Picos::from_nanos(20));
    assert_eq!(spec.unloaded_conflict(), Picos::new(42_500));
    let stats = dram.stats();
    assert_eq!(
        (stats.row_hits, stats.row_misses, stats.row_conflicts),
        (2, 3, 1)
    );
    assert_eq!(
        (stats.reads, stats.writes, stats.bytes()),
        (6, 0, Bytes::new(384))
    );
    assert_eq!((stats.wait, stats.busy), (Picos::ZERO, spec.burst() * 6));
}

#[test]
fn hits_follow_each_other_at_the_speed_of_the_bus() {
    let spec = ssd();
    let mut dram = Dram::new(&spec);
    for column in 0..32 {
        let done = dram.access(Time::ZERO, ssd_line(0, 0, column, 0), Access::Write);
        assert_eq!(
            done,
            Time::ZERO + spec.unloaded_closed() + spec.burst() * column
        );
    }
    // Not a picosecond sooner: an access that comes when the last column command has been
    // followed by one burst finds nothing in its way.
    let free = Time::ZERO + spec.rcd() + spec.burst() * 32;
    let mut twin = dram.clone();
    let line = ssd_line(0, 0, 0, 0);
    let unloaded = free + spec.unloaded_hit();
    assert_eq!(dram.access(free, line, Access::Read), unloaded);
    let early = Time::from_picos(free.as_picos() - 1);
    assert_eq!(twin.access(early, line, Access::Read), unloaded);
    assert_eq!(twin.stats().wait.get(), dram.stats().wait.get() + 1);
}

#[test]
fn conflicts_of_a_bank_follow_each_other_and_other_banks_overlap() {
    let spec = ssd();
    let mut dram = Dram::new(&spec);
    dram.access(Time::ZERO, ssd_line(0, 0, 0, 0), Access::Read);
    let mut done = Time::ZERO;
    for row in 1..=100 {
        done = dram.access(Time::ZERO, ssd_line(row, 0, 0, 0), Access::Read);
    }
    let conflict = spec.rp() + spec.rcd() + spec.burst();
    assert_eq!(done, Time::ZERO + spec.unloaded_closed() + conflict * 100);
    let mut dram = Dram::new(&spec);
    for bank in 0..8 {
        done = dram.access(Time::ZERO, ssd_line(0, bank, 0, 0), Access::Read);
    }
    assert_eq!(done, Time::ZERO + spec.unloaded_closed() + spec.burst() * 7);
}

#[test]
fn a_stream_reaches_the_bandwidth_of_all_buses_and_no_more() {
    for (spec, channel_count, rate) in [(host(), 8, 307_200_000_000), (ssd(), 2, 12_800_000_000)] {
        let mut dram = Dram::new(&spec);
        let line_count = 100_000;
        let mut done = Time::ZERO;
        for line in 0..line_count {
            done = done.max(dram.access(Time::ZERO, DramLine::new(line), Access::Read));
        }
        let buses = spec.burst() * (line_count / channel_count);
        // The bank of the next row opens it while the bus is busy with this one, so only the
        // first row shows.
        assert_eq!(done, Time::ZERO + spec.rcd() + spec.cl() + buses);
        let bytes_per_second =
            u128::from(64 * line_count) * 1_000_000_000_000 / u128::from(buses.get());
        assert!(bytes_per_second <= rate, "{bytes_per_second}");
        assert!(bytes_per_second > rate - rate / 1000, "{bytes_per_second}");
    }
}

#[test]
fn order_of_calls_is_order_of_service() {
    let spec = ssd();
    let mut dram = Dram::new(&spec);
    let first = dram.access(later(1), ssd_line(0, 0, 0, 0), Access::Read);
    let second = dram.access(Time::ZERO, ssd_line(0, 0, 1, 0), Access::Read);
    assert_eq!(second, first + spec.burst());
}

#[test]
fn all_problems_of_a_section_are_reported() {
    let bad = SsdDramConfig {
        data_rate: Hertz::new(1),
        channels: 3,
        banks: 512,
        row_size: Bytes::new(96),
        bus_width: Bytes::ZERO,
        mapping: Mapping::Lines,
        pipelined: true,
        cl: 0,
        rcd: 1001,
        rp: 18,
    };
    let problems = bad.validate();
    let names = [
        "data_rate",
        "channels",
        "banks",
        "row_size",
        "bus_width",
        "cl",
        "rcd",
    ];
    assert_eq!(problems.len(), names.len(), "{problems:?}");
    for (problem, name) in problems.iter().zip(names) {
        assert!(
            problem.starts_with(&format!("ssd_dram.{name} is ")),
            "{problem}"
        );
    }
    assert!(ssd_config().validate().is_empty());
    assert_eq!(HostDramConfig::PARAMETERS[0].key, "host_dram.data_rate");
}

#[test]
fn a_line_goes_ahead_of_a_page_that_was_put_behind() {
    let page = |row| ssd_line(row, 0, 0, 0);
    let mut memory = Dram::new(&ssd());
    let alone = memory.bulk_behind(later(1), page(0), 64, Access::Write);
    assert_eq!(
        alone,
        later(1) + ssd().unloaded_closed() + ssd().burst() * 31
    );
    // Of another bank, so that it opens a row of its own; a burst of the page is on its bus.
    let at = later(1) + ssd().burst() * 8;
    let done = memory.access_ahead(at, ssd_line(0, 3, 0, 0), Access::Read);
    assert_eq!(done, at + ssd().unloaded_closed());
    let hit = memory.access_ahead(done, ssd_line(0, 3, 1, 0), Access::Read);
    assert_eq!(
        hit,
        done + ssd().burst() * 2,
        "behind one burst of the page, not all"
    );
    memory.audit();
}

#[test]
fn what_is_behind_ends_as_much_later_as_others_went_ahead() {
    let ends = |ahead: u64| {
        let mut memory = Dram::new(&ssd());
        memory.bulk_behind(later(1), ssd_line(0, 0, 0, 0), 64, Access::Write);
        for column in 0..ahead {
            // Hits in one row, all on the first channel.
            memory.access_ahead(later(1), ssd_line(0, 3, column, 0), Access::Read);
        }
        let end = memory.bulk_behind(later(1), ssd_line(0, 5, 0, 0), 64, Access::Write);
        memory.audit();
        end
    };
    assert_eq!(ends(5) - ends(0), ssd().burst() * 5);
}
