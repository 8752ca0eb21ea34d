//! Saturation and waiting against closed formulas.

use crate::common::{Driven, page, small};
use nand::{Kind, NandConfig, Operation, Parallelism};
use units::{Picos, Stream, Time};

#[test]
fn a_saturated_die_completes_one_read_each_service_time() {
    let config = small();
    let mut driven = Driven::new(&config);
    for tag in 0..1000 {
        driven.submit(
            Time::ZERO,
            tag,
            Operation::Read(page(&config, 0, 0, tag % 8)),
        );
    }
    driven.finish();
    assert_eq!(
        driven.finish_of(999),
        Time::ZERO + config.unloaded_read() * 1000
    );
    let stats = driven.nand.stats();
    assert_eq!(stats.die_busy, config.t_r * 1000);
    assert_eq!(stats.die_occupied, config.unloaded_read() * 1000);
    // Sum of 0, 1, … 999 service times.
    assert_eq!(stats.of(Kind::Read).wait, config.unloaded_read() * 499_500);
}

#[test]
fn a_saturated_channel_carries_its_bandwidth_and_no_more() {
    let config = small();
    let mut driven = Driven::new(&config);
    // Four dies on channel 0: together they would read 4 pages in 4.7 us, the bus carries 2.75.
    for tag in 0..4000 {
        driven.submit(
            Time::ZERO,
            tag,
            Operation::Read(page(&config, tag % 4 * 2, 0, 0)),
        );
    }
    driven.finish();
    // The bus is idle only until the first page is read.
    let end = Time::ZERO + config.t_r + config.transfer_time() * 4000;
    assert_eq!(driven.completed.last().map(|last| last.finished), Some(end));
    assert_eq!(
        driven.nand.stats().channel_busy,
        config.transfer_time() * 4000
    );
}

#[test]
fn programs_on_all_dies_overlap_at_the_cells() {
    let config = small();
    let mut driven = Driven::new(&config);
    for die in 0..8 {
        driven.submit(
            Time::ZERO,
            die,
            Operation::Program(page(&config, die, 0, 0)),
        );
    }
    driven.finish();
    // Four pages go into each channel one after the other; the programs overlap.
    let end = Time::ZERO + config.transfer_time() * 4 + config.t_prog;
    assert_eq!(driven.completed.last().map(|last| last.finished), Some(end));
}

/// Relative error allowed between a simulated mean of 300,000 waits and its formula; at the highest
/// load here the standard error of the mean is about 1 %.
const QUEUEING_TOLERANCE: f64 = 0.05;

#[test]
fn random_reads_of_a_die_wait_as_in_an_m_d_1_queue() {
    for parallelism in [Parallelism::Die, Parallelism::Channel] {
        for load in [0.2, 0.5, 0.8] {
            let (mean_wait, service) = mean_random_wait(parallelism, load, 300_000);
            let predicted = load * service / (2.0 * (1.0 - load));
            let error = (mean_wait / predicted - 1.0).abs();
            assert!(
                error < QUEUEING_TOLERANCE,
                "{parallelism:?} at load {load}: {mean_wait:.0} ps, predicted {predicted:.0} ps"
            );
        }
    }
}

/// Mean wait and service time, in picoseconds, of Poisson reads on four dies, each alone on its
/// channel, so that a die's service includes the transfer and nothing else shares the bus.
fn mean_random_wait(parallelism: Parallelism, load: f64, read_count: u32) -> (f64, f64) {
    let config = NandConfig {
        channels: 4,
        chips_per_channel: 1,
        dies_per_chip: 1,
        parallelism,
        ..small()
    };
    let service = config.unloaded_read().get() as f64;
    let mean_gap = service / load / 4.0;
    let mut stream = Stream::new(1, "nand/queueing");
    let mut driven = Driven::new(&config);
    let mut now = Time::ZERO;
    for tag in 0..read_count {
        let uniform = (stream.below(1 << 52) + 1) as f64 / (1u64 << 52) as f64;
        now += Picos::new((-uniform.ln() * mean_gap) as u64);
        let die = stream.below(4) as u32;
        driven.submit(now, tag, Operation::Read(page(&config, die, 0, 0)));
    }
    driven.finish();
    let wait = driven.nand.stats().of(Kind::Read).wait;
    (wait.get() as f64 / f64::from(read_count), service)
}
