//! How much memory a run takes, told before it begins.
//!
//! A bound from what a run keeps, with room; not measured. What is kept of each page and file is
//! measured (`docs/loads.md`, Costs).

use super::error::LoadError;
use super::hardware::scaled;
use super::runner::Setup;
use super::spec::Load;
use units::Bytes;

/// Of a page of flash: its spare area, its place in the tables of device and firmware, and what it
/// holds of files, packed.
const FLASH_PAGE: u64 = 160;
/// The same where a store of keys writes it: of each kilobyte the head of a record is kept too.
const STORE_PAGE: u64 = 640;
/// Of a file or directory: what file system and load know of it.
const FILE: u64 = 2048;
/// Of a record: what the store and its client know of it.
const RECORD: u64 = 16;
/// Of anything.
const REST: Bytes = Bytes::from_mib(64);

/// About the most memory that a run of a load takes.
///
/// # Errors
/// The device cannot be.
pub fn memory(load: &Load, setup: &Setup) -> Result<Bytes, LoadError> {
    let config = scaled(setup.preset(), setup.scale, &setup.layers)?;
    let of = |number: u64, least: u64| setup.scale.of(number, least);
    let files: u64 = (load.files.iter())
        .map(|files| of(files.entries, files.least))
        .sum();
    let records = load
        .store
        .as_ref()
        .map_or(0, |store| of(store.records, 256));
    let page = match records {
        0 => FLASH_PAGE,
        _ => STORE_PAGE,
    };
    let flash = config.geometry().unit_count() * page;
    let cache = setup.scale.of_bytes(setup.cache, Bytes::from_mib(1));
    let mut sum = flash + config.ssd.dram.get() + cache.get() + files * FILE + records * RECORD;
    if let Some(store) = &load.store {
        // One that is filled and one that is written, as bytes and as records.
        sum += 4 * setup
            .scale
            .of_bytes(store.memtable, Bytes::from_kib(16))
            .get();
    }
    if setup.fs.keeps_contents_on_the_host() {
        let size = |files: &super::spec::FilesSpec| {
            let size = files.size.map_or(0, Bytes::get);
            of(files.entries, files.least) * (size + config.page().bytes().get())
        };
        sum += load.files.iter().map(size).sum::<u64>();
        let of_store = load.store.as_ref().map_or(0, |store| store.value.get());
        // Merging has both what it reads and what it writes.
        sum += 3 * records * of_store;
    }
    Ok(Bytes::new(sum) + REST)
}
