//! What the device says of itself.

use crate::activity::{
    Done, SmartLog, Standing, done_in_numbers, health_in_numbers, standing_in_numbers,
};
use crate::counters::{Counters, HEALTH_STEP, STEP};
use crate::engine::DeviceEngine;
use crate::latency::Latencies;
use firmware::Health;
use port::DeviceStats;

impl DeviceEngine {
    /// What it has done since the image was made.
    pub fn stats(&self) -> DeviceStats {
        let mut stats = self.at_open.stats.plus(&self.engine.stats());
        stats.clock = self.engine.now();
        let nand = self.engine.soc().resources.nand.stats();
        let flash = &mut stats.flash;
        let completed = |kind| nand.of(kind).completed;
        flash.reads = self.at_open.stats.flash.reads + completed(nand::Kind::Read);
        flash.programs = self.at_open.stats.flash.programs + completed(nand::Kind::Program);
        flash.erases = self.at_open.stats.flash.erases + completed(nand::Kind::Erase);
        flash.read_bytes = self.page.bytes() * flash.reads;
        let page = self.engine.soc().resources.nand.geometry().page_size();
        flash.programmed_bytes = page * flash.programs;
        stats
    }

    /// How it is: spare blocks, wear, failures.
    pub fn health(&self) -> Health {
        let mut health = self.engine.soc().controller.health();
        health.unsafe_shutdowns = self.at_open.unsafe_shutdowns;
        health
    }

    /// Writes the counters once in a while.
    pub(crate) fn count_down(&mut self) {
        self.until_write -= 1;
        if self.until_write.is_multiple_of(STEP) {
            self.counters()
                .write(self.engine.bytes_mut().tables.map_mut());
        }
        if self.until_write == 0 {
            self.publish();
        }
    }

    /// Writes everything that `entresol device stats` reads into the image, so that who looks sees
    /// the device as it is now. Happens by itself every 65,536 commands; whoever serves a
    /// device calls it a few times a second.
    pub fn publish(&mut self) {
        self.until_write = HEALTH_STEP;
        let counters = self.counters();
        let health = health_in_numbers(&SmartLog {
            health: self.engine.soc().controller.health(),
            rated_wear: self.rated_wear,
            factory_bad: self.factory_bad,
            today: self.engine.soc().resources.today(),
        });
        let map = self.engine.bytes_mut().tables.map_mut();
        counters.write(map);
        Counters::write_health(map, &health);
    }

    /// What it has done since the image was made, and how it stands; health is as it was when it
    /// was last written.
    pub fn counters(&self) -> Counters {
        let before = &self.at_open;
        let since = done_in_numbers(&Done::of(self.engine.soc()));
        let standing = Standing {
            fullness: self.engine.soc().controller.fullness(),
            open_transactions: self.engine.open_transactions(),
            running: self.engine.running(),
            is_stopped: self.stopped().is_some(),
        };
        Counters {
            unsafe_shutdowns: before.unsafe_shutdowns,
            nanos_before: before.nanos_before,
            stats: self.stats(),
            activity: std::array::from_fn(|nth| before.activity[nth].wrapping_add(since[nth])),
            standing: standing_in_numbers(&standing),
            health: Counters::read(self.engine.bytes().tables.map()).health,
        }
    }

    /// How long requests took, since the image was made.
    pub fn latencies(&self) -> Latencies {
        Latencies::read(self.engine.bytes().tables.map())
    }
}
