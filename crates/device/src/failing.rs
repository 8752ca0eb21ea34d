//! Flash that fails: what was wrong with it from the factory on, and what its image keeps of it.

use crate::config::DeviceConfig;
use crate::counters::Counters;
use crate::error::DeviceFileError;
use crate::tables::Tables;
use firmware::{Durable, Record};
use nand::{Calendar, Condition, Faults};
use units::BlockAddr;

/// What goes wrong in the flash of an image that has done so much, and how its days are counted;
/// None if nothing does.
pub fn faults_of(
    config: &DeviceConfig,
    tables: &Tables,
    done: &Counters,
) -> Option<(Faults, Calendar)> {
    if config.faults.is_off() {
        return None;
    }
    let calendar = Calendar {
        day: config.faults.day,
        nanos_before: done.nanos_before,
    };
    let mut faults = Faults::new(&config.faults, config.geometry());
    faults.set_today(calendar.today(done.stats.clock));
    for (block, record) in tables.blocks() {
        let written = tables.day(block).filter(|_| record.begun > 0);
        let wear = record.wear;
        faults.restore(block, Condition { wear, written });
    }
    Some((faults, calendar))
}

/// Checks that the flash that a configuration describes has room for a device.
///
/// # Errors
/// Too many of its blocks are bad from the factory.
pub fn check_room(config: &DeviceConfig) -> Result<(), DeviceFileError> {
    let geometry = config.geometry();
    let mut bad_of_die = vec![0; geometry.die_count() as usize];
    let faults = Faults::new(&config.faults, geometry);
    for block in faults.factory_bad_blocks() {
        bad_of_die[geometry.die_of(block).index()] += 1;
    }
    if config.ftl.has_room_without(&geometry, &bad_of_die) {
        return Ok(());
    }
    let (bad, all): (u32, u32) = (bad_of_die.iter().sum(), geometry.block_count());
    Err(DeviceFileError::config(format!(
        "faults.factory_bad makes {bad} of the {all} blocks bad, which leaves no room for the \
         exported pages: lower it, or raise ftl.over_provisioning"
    )))
}

/// Notes of a new image which blocks the factory has marked bad, and how worn the others are.
pub fn note_factory(config: &DeviceConfig, tables: &mut Tables) {
    let wear = config.faults.initial_wear;
    let geometry = config.geometry();
    if wear > 0 {
        for block in (0..geometry.block_count()).map(BlockAddr::new) {
            tables.record(Record::Erased(block, wear));
        }
    }
    for block in Faults::new(&config.faults, geometry).factory_bad_blocks() {
        tables.record(Record::Retired(block));
    }
}
