//! What the device does when pages come to host DRAM and leave it.

use super::Fabric;
use crate::config::{Config, MemoryKind, Migration};
use crate::device::Device;
use crate::event::Event;
use crate::in_loop::InLoop;
use crate::request::Purpose;
use dram::Access;
use firmware::{Controller, Platform};
use host::placement::{DemotionKind, Location, Pinned, Placement, PromotedDirt};
use host::{NodeId, Region};
use inloop::What;
use units::{Lpa, RequestId, Time};

/// Where the pages of a capture live at first, and which may go where.
pub(super) fn placement_of(config: &Config, page_count: u64) -> Placement {
    let page = config.ftl.mapping_unit;
    let is_ssd = config.design.memory == MemoryKind::Ssd;
    let placement = match (is_ssd, config.mechanisms().migration) {
        (false, _) => Placement::dram_only(page, page_count),
        (true, Migration::Tpp) => Placement::locking(&config.host, &config.tpp, page, page_count),
        (true, Migration::HostCache) => Placement::device_only(page, page_count),
        (true, _) => match config.host_ways() {
            Some(ways) => Placement::in_sets(&config.host, ways, page, page_count),
            None => Placement::mapped(&config.host, page, config.cpu.page_size, page_count),
        },
    };
    let pinned = match is_ssd {
        true => config.host.pinned,
        false => Pinned::None,
    };
    let placement = placement.pinning(pinned.pages(page, page_count));
    match config.mechanisms().migration {
        // No page comes, and huge ones that nobody moves need not be as many as nodes.
        Migration::None => placement,
        _ => placement.on_nodes(config.numa.nodes, NodeId::new(config.numa.home)),
    }
}

/// The device drops its copies of a promoted page; says whether they differed from flash and the
/// host takes notice of it.
pub(crate) fn hand_over<P: Platform>(
    dirt: PromotedDirt,
    controller: &mut Controller,
    now: Time,
    lpa: Lpa,
    platform: &mut P,
) -> bool {
    match dirt {
        PromotedDirt::Kept => controller.on_promotion_done(now, lpa, platform),
        PromotedDirt::Forgotten => {
            controller.on_promotion_forgotten(now, lpa, platform);
            false
        }
    }
}

impl Fabric {
    /// What becomes of the newer bytes of a promoted page.
    pub(crate) fn promoted_dirt(&self) -> PromotedDirt {
        self.promoted_dirt
    }

    /// The device drops its copies of a promoted page; says whether the host has to write the page
    /// back one day.
    pub fn drop_promoted(&mut self, now: Time, lpa: Lpa) -> bool {
        let dirt = self.promoted_dirt;
        let what = |_: &mut InLoop| What::Promoted(lpa);
        self.on_device(
            "promoted pages come from a device",
            now,
            what,
            |device, host| {
                device.with(host, |controller, platform| {
                    hand_over(dirt, controller, now, lpa, platform)
                })
            },
        )
    }

    /// The host does not take a page that the device has offered.
    pub(crate) fn refuse_page(&mut self, lpa: Lpa) {
        self.in_loop.tell(What::Refused(lpa));
        let device = self.device.as_mut().expect("a device made the offer");
        device.controller.on_promotion_refused(lpa);
    }

    /// Whether a read that has arrived at the device is served in host DRAM, because its page was
    /// moved there while it was on its way. The artifact decides where a page is and gives the
    /// answer in one step, so no read of its misses the page that it was sent for.
    pub(super) fn turns_back(&mut self, now: Time, id: RequestId) -> bool {
        let pending = self.requests.get(id);
        let (Purpose::Miss(miss, line), issued) = (pending.purpose, pending.issued) else {
            return false;
        };
        let Region::Data(lpa, in_page) = line.region() else {
            return false;
        };
        let Location::Host(page) = self.placement.locate(lpa) else {
            return false;
        };
        let pending = self.requests.withdraw(id);
        self.release_line(now, pending.line);
        let hop = self.hop_from(pending.source, self.host_dram.node_of(page));
        let done = self.page_access(now + hop.there, page, in_page, Access::Read) + hop.back;
        self.stats.host_read(issued, now, hop, line, done);
        self.queue.push(done, Event::HostDramDone(miss));
        true
    }

    /// Whether a dirty page that leaves host DRAM is lost.
    pub fn loses_demotions(&self) -> bool {
        self.demotion == DemotionKind::Lost
    }

    /// A dirty page that is taken out of host DRAM for the promotion of another one is lost; a
    /// device without a log programs that other one instead.
    pub fn lose(&mut self, now: Time, victim: Lpa, promoted: Lpa) {
        self.placement.copy_at_once(victim);
        self.placement.finish_demotion(victim);
        let has_log = |device: &Device| device.controller.has_log();
        if self.device.as_ref().is_some_and(has_log) {
            return;
        }
        let what = |_: &mut InLoop| What::Program(promoted);
        self.on_device(
            "promoted pages come from a device",
            now,
            what,
            |device, host| {
                device.with(host, |controller, platform| {
                    controller.program_resident(now, promoted, platform)
                });
            },
        );
    }
}
