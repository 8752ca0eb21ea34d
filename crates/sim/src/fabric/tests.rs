//! The fabric without cores: reads come from the test, fills are collected.

use super::*;
use crate::config::{Layer, presets};
use host::{Hop, Uncore};

fn fabric(design: &str, overrides: &[&str]) -> Fabric {
    let mut layers = presets::layers("demo", None, design).unwrap();
    layers.extend(
        overrides
            .iter()
            .map(|text| Layer::assignment(text).unwrap()),
    );
    Fabric::new(&Config::from_layers(&layers).unwrap(), 256)
}

fn line(page: u64) -> HostLine {
    HostLine::data(Lpa::new(page), LineInPage::new(0))
}

impl Fabric {
    fn load(&mut self, core: u32, line: HostLine) {
        let slot = MissSlot::new(0, 0);
        self.read(
            self.queue.now(),
            CoreId::new(core),
            slot,
            line,
            MissKind::Load,
        );
    }

    /// Handles everything that is going to happen; the cores whose loads were filled, in order.
    fn drain(&mut self) -> Vec<CoreId> {
        let mut filled = Vec::new();
        let mut at_device: Vec<(RequestId, LineAddr, bool)> = Vec::new();
        while let Some((now, event)) = self.queue.pop() {
            match event {
                Event::L3Access {
                    core,
                    slot,
                    line,
                    kind,
                } => {
                    self.l3_access(now, core, slot, line, kind);
                }
                Event::L3WriteBack(line) => self.l3_write_back(now, line),
                Event::HostDramDone(miss) => self.host_dram_done(now, miss),
                Event::DeviceArrive(id) => {
                    let Pending { line, op, .. } = *self.requests.get(id);
                    let is_write = op == RequestOp::Write;
                    let conflicts = |other: &(RequestId, LineAddr, bool)| {
                        other.1 == line && (other.2 || is_write)
                    };
                    assert!(
                        !at_device.iter().any(conflicts),
                        "the firmware is asked out of order"
                    );
                    at_device.push((id, line, is_write));
                    self.device_arrive(now, id);
                }
                Event::DeviceSend(id) => self.device_send(now, id),
                Event::HostArrive(id) => {
                    at_device.retain(|(other, ..)| *other != id);
                    self.host_arrive(now, id);
                }
                Event::Fill { core, .. } => filled.push(core),
                Event::Device(event) => self.device_event(now, event),
                event => unreachable!("{event:?} does not happen here"),
            }
            filled.extend(self.fills.drain(..).map(|waiter| waiter.core));
        }
        self.audit();
        filled
    }
}

#[test]
fn a_read_that_found_every_l3_mshr_taken_is_not_forgotten_when_the_one_before_it_hits() {
    let mut fabric = fabric("dram-only", &["cpu.cores=4", "cpu.l3_mshrs=1"]);
    // The second read of page 2 hits once the first one is filled and needs no MSHR.
    for (core, page) in [(0, 1), (1, 2), (2, 2), (3, 3)] {
        fabric.load(core, line(page));
    }
    let mut filled = fabric.drain();
    filled.sort_unstable();
    assert_eq!(filled, [0, 1, 2, 3].map(CoreId::new));
}

#[test]
fn a_read_does_not_go_to_the_device_before_a_write_of_its_line_is_acknowledged() {
    for design in ["base-cssd", "skybyte-w"] {
        let mut fabric = fabric(design, &["ssd.log.size=128B"]);
        // More writes than the log has room for, so that the last one waits on the device.
        for page in 0..5 {
            fabric.write_memory(Time::ZERO, line(page));
        }
        fabric.load(0, line(4));
        fabric.send_migration(
            Time::ZERO,
            device_line(Lpa::new(4), LineInPage::new(0)),
            Purpose::Promotion,
        );
        fabric.write_memory(Time::ZERO, line(4));
        assert_eq!(fabric.drain(), [CoreId::new(0)]);
        assert_eq!(fabric.stats.device_writes, 6);
        fabric.stats.audit();
    }
}

/// A read that is held back because a write is on its way; then its page begins to move.
fn held_read(design: &str) -> Fabric {
    let mut fabric = fabric(design, &["link.write_credits=1"]);
    fabric.write_memory(Time::ZERO, line(0));
    let (core, slot) = (CoreId::new(0), MissSlot::new(0, 0));
    fabric.l3_access(Time::ZERO, core, slot, line(4), MissKind::Load);
    assert_eq!(fabric.stats.reads_held, 1);
    assert!(fabric.placement.begin_promotion(Lpa::new(4)).is_ok());
    fabric
}

#[test]
fn a_held_read_goes_to_where_its_page_has_moved_meanwhile() {
    let mut fabric = held_read("skybyte-p");
    fabric.placement.copy_at_once(Lpa::new(4));
    fabric.placement.finish_promotion(Lpa::new(4), false);
    assert_eq!(fabric.drain(), [CoreId::new(0)]);
    assert_eq!(fabric.stats.host_reads, 1);
}

#[test]
fn a_held_read_waits_for_its_page_if_that_is_locked_meanwhile() {
    let mut fabric = held_read("skybyte-ct");
    assert_eq!(fabric.drain(), []);
    fabric.placement.copy_at_once(Lpa::new(4));
    fabric.placement.finish_promotion(Lpa::new(4), true);
    fabric.unlock(fabric.queue.now(), Lpa::new(4));
    assert_eq!(fabric.drain(), [CoreId::new(0)]);
    assert_eq!(fabric.stats.host_reads, 1);
}

#[test]
fn a_held_read_of_a_page_that_has_stayed_goes_to_the_device() {
    let mut fabric = held_read("skybyte-p");
    // No line is copied yet: the source has the newest bytes.
    assert_eq!(fabric.drain(), [CoreId::new(0)]);
    assert_eq!(fabric.stats.host_reads, 0);
}

#[test]
fn a_first_touch_is_a_cold_miss_even_if_it_is_answered_by_skybyte_delay() {
    let mut fabric = fabric("skybyte-c", &["os.switch_threshold=1ns"]);
    fabric.load(0, line(3));
    fabric.drain();
    assert_eq!((fabric.stats.delayed, fabric.stats.cold_misses), (1, 1));
}

#[test]
fn a_line_that_was_delayed_counts_from_its_first_issue_wherever_it_comes_from_and_once() {
    let mut fabric = fabric("dram-only", &[]);
    let (early, late) = (Time::ZERO, Time::ZERO + Picos::from_micros(5));
    fabric.stats.remember_first_issue(line(3), early);
    for _ in 0..2 {
        fabric
            .stats
            .host_read(late, late, Hop::NONE, line(3), late + Picos::from_nanos(50));
    }
    let all = fabric.stats.all.mean();
    assert_eq!(all, Picos::from_nanos((5_050 + 50) / 2));
    fabric.stats.audit();
}
