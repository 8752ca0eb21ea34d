//! The unloaded latency of each path is the sum of its documented parts, exactly. One access at a
//! time, driven through the fabric alone; every expectation is computed from the configuration.

use crate::common::{mixed, prepare};
use cxl::MessageClass::{Drs, MemRd, MemWr, Ndr};
use dram::DramSpec;
use firmware::{GcKind, Served};
use host::{HostLine, MissKind, MissSlot};
use sim::config::Config;
use sim::event::Event;
use sim::fabric::{Arrived, Fabric};
use sim::request::Purpose;
use units::{CoreId, LineInPage, Lpa, PageSize, Picos};

/// The memory system of the demo machine without cores.
struct Lone {
    config: Config,
    fabric: Fabric,
}

/// Settings under which one access meets nothing but itself.
const QUIET: [&str; 3] = ["ssd.prefetch.pages=0", "ftl.overwritten=0%", "ftl.fill=50%"];

impl Lone {
    fn new(design: &str, overrides: &[&str]) -> Self {
        let overrides = [&QUIET[..], overrides].concat();
        let trace = mixed(1, 1, 1, 1);
        let config = prepare(&trace, "demo", design, &overrides).config().clone();
        assert_eq!(config.ftl.gc, GcKind::Incremental);
        Self {
            fabric: Fabric::new(&config, 10_000),
            config,
        }
    }

    /// Handles events until there is an answer for which `is_awaited`; says when it came.
    fn answer(&mut self, is_awaited: impl Fn(&Event, Option<Arrived>) -> bool) -> units::Time {
        loop {
            let (now, event) = self.fabric.queue.pop().expect("an access is answered");
            let mut arrived = None;
            match event {
                Event::DeviceArrive(id) => self.fabric.device_arrive(now, id),
                Event::DeviceSend(id) => self.fabric.device_send(now, id),
                Event::HostArrive(id) => arrived = Some(self.fabric.host_arrive(now, id)),
                Event::HostDramDone(miss) => self.fabric.host_dram_done(now, miss),
                Event::Fill { .. } => {}
                Event::Device(event) => self.fabric.device_event(now, event),
                other => unreachable!("{other:?} does not happen here"),
            }
            if is_awaited(&event, arrived) {
                return now;
            }
        }
    }

    /// Lets everything under way end.
    fn settle(&mut self) {
        while !self.fabric.queue.is_empty() {
            self.answer(|_, _| true);
        }
        self.fabric.audit();
    }

    /// A load that misses L2: from its arrival at L3 until the line is there.
    fn read(&mut self, page: u64, line: u16) -> Picos {
        let start = self.fabric.queue.now();
        let line = HostLine::data(Lpa::new(page), LineInPage::new(line));
        let (core, slot) = (CoreId::new(0), MissSlot::new(0, 0));
        self.fabric
            .l3_access(start, core, slot, line, MissKind::Load);
        let end = self.answer(|event, arrived| {
            matches!(event, Event::Fill { .. } | Event::HostDramDone(_))
                || matches!(arrived, Some(Arrived::Line | Arrived::Delay(_)))
        });
        self.fabric.fills.clear();
        end - start
    }

    /// As [`Lone::read`], of which the fabric says that it was `served` so.
    #[track_caller]
    fn read_served(&mut self, page: u64, line: u16, served: Served) -> Picos {
        let before = self.fabric.stats.served_by(served);
        let latency = self.read(page, line);
        assert_eq!(
            self.fabric.stats.served_by(served),
            before + 1,
            "{served:?}"
        );
        latency
    }

    /// A line written to the device: until it is acknowledged.
    fn write(&mut self, page: u64, line: u16) -> Picos {
        let start = self.fabric.queue.now();
        let line = Lpa::new(page).line(PageSize::KIB_4, LineInPage::new(line));
        self.fabric.send_migration(start, line, Purpose::Demotion);
        self.answer(|_, arrived| matches!(arrived, Some(Arrived::Demotion(_)))) - start
    }

    fn l3(&self) -> Picos {
        self.config
            .cpu
            .l3_latency
            .span(self.config.cpu.clock.period().expect("a clock"))
    }
    fn link(&self, there: cxl::MessageClass, back: cxl::MessageClass) -> Picos {
        self.fabric.link.unloaded(there) + self.fabric.link.unloaded(back)
    }
    fn lookup(&self) -> Picos {
        let ssd = &self.config.ssd;
        if self.config.design.write_log {
            ssd.log.lookup.max(ssd.cache.lookup)
        } else {
            ssd.cache.lookup
        }
    }
    fn ssd_dram(&self) -> DramSpec {
        self.config.ssd_dram.spec()
    }
    /// A page written to device DRAM whose rows are all in one state: the first line's cost, and a
    /// burst for each further line of a channel.
    fn page_fill(&self, first_line: Picos) -> Picos {
        let lines = u64::from(PageSize::KIB_4.line_count() / self.config.ssd_dram.channels as u16);
        first_line + self.ssd_dram().burst() * (lines - 1)
    }
}

#[test]
fn host_dram_costs_its_row_state() {
    let mut lone = Lone::new("dram-only", &[]);
    let spec = lone.config.host_dram.spec();
    let lines = u64::from(lone.config.host_dram.banks) * spec.lines_per_row();
    let other_row = lines * u64::from(lone.config.host_dram.channels) / 64;
    for (page, line, expected) in [
        (0, 0, spec.unloaded_closed()),
        (0, 1, spec.unloaded_hit()),
        (other_row, 0, spec.unloaded_conflict()),
    ] {
        let latency = lone.read(page, line);
        assert_eq!(latency, lone.l3() + expected, "page {page}, line {line}");
        lone.settle();
    }
    assert_eq!(lone.fabric.stats.paper_total, lone.fabric.stats.host_dram);
    lone.fabric.stats.audit();
}

#[test]
fn a_line_in_l3_costs_l3_only() {
    let mut lone = Lone::new("base-cssd", &[]);
    lone.read(3, 3);
    lone.settle();
    assert_eq!(lone.read(3, 3), lone.l3());
}

#[test]
fn a_flash_miss_costs_link_lookup_flash_and_the_page_into_device_dram() {
    for design in ["base-cssd", "skybyte-w"] {
        let mut lone = Lone::new(design, &[]);
        let nand = &lone.config.nand;
        let flash = nand.t_r + nand.transfer_time();
        let fill = lone.page_fill(lone.ssd_dram().unloaded_closed());
        let parts = lone.link(MemRd, Drs) + lone.lookup() + flash + fill;
        assert_eq!(
            lone.read_served(3, 3, Served::Flash),
            lone.l3() + parts,
            "{design}"
        );
        let stats = &lone.fabric.stats;
        assert_eq!(stats.link, lone.link(MemRd, Drs));
        assert_eq!(stats.device.index, lone.lookup());
        assert_eq!((stats.device.flash, stats.device.dram), (flash, fill));
        assert_eq!(
            (stats.device.stall, stats.credit_wait),
            (Picos::ZERO, Picos::ZERO)
        );
        assert_eq!(stats.paper_total, parts);
        stats.audit();
    }
}

#[test]
fn a_cache_hit_costs_link_cache_lookup_and_a_line_of_device_dram() {
    for design in ["base-cssd", "skybyte-w"] {
        let mut lone = Lone::new(design, &[]);
        lone.read(3, 3);
        lone.settle();
        // The fill has left the page's rows open.
        let parts =
            lone.link(MemRd, Drs) + lone.config.ssd.cache.lookup + lone.ssd_dram().unloaded_hit();
        assert_eq!(
            lone.read_served(3, 4, Served::CacheHit),
            lone.l3() + parts,
            "{design}"
        );
    }
}

#[test]
fn a_log_hit_costs_link_log_lookup_and_a_line_of_device_dram() {
    let mut lone = Lone::new("skybyte-w", &[]);
    let write =
        lone.link(MemWr, Ndr) + lone.config.ssd.log.lookup + lone.ssd_dram().unloaded_closed();
    assert_eq!(lone.write(3, 3), write);
    lone.settle();
    let read = lone.link(MemRd, Drs) + lone.config.ssd.log.lookup + lone.ssd_dram().unloaded_hit();
    assert_eq!(lone.read_served(3, 3, Served::LogHit), lone.l3() + read);
}

#[test]
fn a_page_that_was_never_written_costs_link_and_lookup() {
    for design in ["base-cssd", "skybyte-w"] {
        let mut lone = Lone::new(design, &["ftl.fill=0%"]);
        let parts = lone.link(MemRd, Drs) + lone.lookup();
        assert_eq!(
            lone.read_served(3, 3, Served::Unmapped),
            lone.l3() + parts,
            "{design}"
        );
    }
}

#[test]
fn a_page_on_its_way_to_flash_costs_link_lookup_and_its_way_back_into_device_dram() {
    // One set of one way: the next page evicts this one, and each evicts the other.
    let mut lone = Lone::new(
        "base-cssd",
        &["ssd.dram=4KiB", "ssd.log.size=0B", "ssd.cache.ways=1"],
    );
    lone.read(3, 3);
    lone.settle();
    lone.write(3, 4);
    lone.settle();
    lone.read(9, 3);
    // The frame's rows are open: the page before was read from them, the next one written to them.
    let fill = lone.page_fill(lone.ssd_dram().unloaded_hit());
    let parts = lone.link(MemRd, Drs) + lone.lookup() + fill;
    assert_eq!(lone.read_served(3, 5, Served::BufferHit), lone.l3() + parts);
}

#[test]
fn a_delay_costs_a_message_each_way_and_the_lookup() {
    let mut lone = Lone::new("skybyte-c", &[]);
    let parts = lone.link(MemRd, Ndr) + lone.lookup();
    assert_eq!(lone.read(3, 3), lone.l3() + parts);
    assert_eq!(
        (lone.fabric.stats.delayed, lone.fabric.stats.counted()),
        (1, 0)
    );
}

#[test]
fn reads_wait_for_write_credits_and_amat_says_so() {
    let mut lone = Lone::new("skybyte-w", &["link.write_credits=1"]);
    let start = lone.fabric.queue.now();
    let line = Lpa::new(3).line(PageSize::KIB_4, LineInPage::new(0));
    lone.fabric.send_migration(start, line, Purpose::Demotion);
    let write =
        lone.link(MemWr, Ndr) + lone.config.ssd.log.lookup + lone.ssd_dram().unloaded_closed();
    lone.read(4, 0);
    assert_eq!(lone.fabric.stats.reads_held, 1);
    assert_eq!(lone.fabric.stats.credit_wait, write - lone.l3());
    lone.fabric.stats.audit();
}
