//! The presets beside the published values that they are made of.

use device::DeviceConfig;
use firmware::{CachePolicy, LogIndexKind};
use units::{Bytes, BytesPerSec, Picos, Ratio};

fn preset(name: &str) -> DeviceConfig {
    DeviceConfig::of_preset(name, &[]).unwrap()
}

/// A load of a logged line on an idle device, without its bytes on the wire, in whole nanoseconds.
fn line_read(config: &DeviceConfig) -> Picos {
    let dram = config.ssd_dram.spec().unloaded_closed();
    let load = config.device.line_read + config.ssd.log.lookup + dram;
    Picos::from_nanos(load.get() / 1_000)
}

/// ByteFS §4.3: log of 256 MB cleaned at 85 %, TxLog of 2 MB, skip list, 89 ns a lookup, no page
/// cache in the device.
fn check_bytefs_firmware(config: &DeviceConfig) {
    let ssd = &config.ssd;
    assert_eq!(ssd.log.size, Bytes::from_mib(256));
    assert_eq!(ssd.log.tx_log, Bytes::from_mib(2));
    assert_eq!(ssd.log.seal_at, Ratio::percent(85));
    assert_eq!(ssd.log.index, LogIndexKind::SkipList);
    assert_eq!(ssd.log.lookup, Picos::from_nanos(89));
    assert_eq!(ssd.cache.policy, CachePolicy::None);
    assert_eq!(ssd.log.entry, Bytes::new(64));
}

/// ByteFS Table 4: 32 GB, 4 KB pages, 8 channels, 3.5/2.5 GB/s.
fn check_table_4(config: &DeviceConfig) {
    assert_eq!(config.capacity(), Bytes::from_mib(32 * 1024));
    assert_eq!(config.page().bytes(), Bytes::from_kib(4));
    assert_eq!(config.nand.channels, 8);
    assert_eq!(
        config.device.read_bandwidth,
        BytesPerSec::new(3_500_000_000)
    );
    assert_eq!(
        config.device.write_bandwidth,
        BytesPerSec::new(2_500_000_000)
    );
}

#[test]
fn bytefs_is_table_4_of_bytefs() {
    let config = preset("bytefs");
    check_bytefs_firmware(&config);
    check_table_4(&config);
    assert_eq!(config.nand.t_r, Picos::from_micros(40));
    assert_eq!(config.nand.t_prog, Picos::from_micros(60));
    assert_eq!(line_read(&config), Picos::from_nanos(4_800));
    assert_eq!(config.device.line_write, Picos::from_nanos(600));
}

#[test]
fn cxl_is_section_5_6_of_bytefs() {
    let config = preset("cxl");
    check_bytefs_firmware(&config);
    check_table_4(&config);
    assert_eq!(config.nand.t_r, Picos::from_micros(3));
    assert_eq!(config.nand.t_prog, Picos::from_micros(80));
    assert_eq!(line_read(&config), Picos::from_nanos(175));
}

#[test]
fn skybyte_is_table_ii_of_skybyte() {
    let config = preset("skybyte");
    let (ssd, nand, device) = (&config.ssd, &config.nand, &config.device);
    assert_eq!(nand.capacity(), Bytes::from_mib(128 * 1024));
    let shape = [nand.channels, nand.chips_per_channel, nand.dies_per_chip];
    assert_eq!(shape, [16, 8, 8]);
    let blocks = [
        nand.planes_per_die,
        nand.blocks_per_plane,
        nand.pages_per_block,
    ];
    assert_eq!(blocks, [1, 128, 256]);
    assert_eq!(config.page().bytes(), Bytes::from_kib(4));
    let times = [nand.t_r, nand.t_prog, nand.t_bers];
    assert_eq!(times, [3, 100, 1_000].map(Picos::from_micros));
    assert_eq!(ssd.dram, Bytes::from_mib(512));
    assert_eq!(ssd.log.size, Bytes::from_mib(64));
    assert_eq!(ssd.log.index, LogIndexKind::TwoLevelHash);
    assert_eq!(ssd.log.lookup, Picos::from_nanos(72));
    assert_eq!(ssd.cache.lookup, Picos::from_nanos(49));
    assert_eq!(ssd.cache.mshr_count, 2_048);
    assert_eq!(device.read_bandwidth, BytesPerSec::new(16_000_000_000));
    assert_eq!(device.line_read, Picos::from_nanos(40));
}
