//! What the device does when pages come to host DRAM and leave it.

use super::Fabric;
use firmware::{Controller, Platform};
use host::placement::{DemotionKind, PromotedDirt};
use units::{Lpa, Time};

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
        self.on_device("promoted pages come from a device", |device, host| {
            device.with(host, |controller, platform| {
                hand_over(dirt, controller, now, lpa, platform)
            })
        })
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
        self.on_device("promoted pages come from a device", |device, host| {
            if !device.controller.has_log() {
                device.with(host, |controller, platform| {
                    controller.program_resident(now, promoted, platform)
                });
            }
        });
    }
}
