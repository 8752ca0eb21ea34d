//! Images whose configuration was written when parameters had other names.

use crate::common::{Place, small};
use device::{DeviceConfig, DeviceEngine, Image, Pace};
use firmware::RENAMED;
use forge::image::set_config_of;

/// What an image held before the section `ssd` had groups: of ByteFS, small, and every parameter
/// that has another name now with a value of its own.
const BEFORE_GROUPS: &str = include_str!("data/before_groups.toml");

/// The same device in the names of now. The ring alone is for simulation, so the mode stays.
fn same_device() -> DeviceConfig {
    small(
        "bytefs",
        &[
            "ssd.dram=100KiB",
            "ssd.log.size=32KiB",
            "ssd.log.entry=96B",
            "ssd.log.design_share=90%",
            "ssd.log.mode=halves",
            "ssd.log.seal_at=70%",
            "ssd.log.index=two_level_hash",
            "ssd.log.lookup=71ns",
            "ssd.log.tx_log=4KiB",
            "ssd.log.write_updates_cache=false",
            "ssd.log.write_lookup=free",
            "ssd.log.merge_on_fill=free",
            "ssd.cache.ways=4",
            "ssd.cache.policy=clock",
            "ssd.cache.mshr_count=77",
            "ssd.cache.lookup=48ns",
            "ssd.cache.clean_victims=program",
            "ssd.cache.victim_order=behind_read",
            "ssd.prefetch.kind=stride",
            "ssd.prefetch.pages=2",
            "ssd.prefetch.on_first_use=true",
            "ssd.prefetch.reserve=3",
            "ssd.prefetch.streams=5",
            "ssd.prefetch.regions=6",
            "ssd.compaction.page_cost=7ns",
            "ssd.compaction.copies=free",
            "ssd.compaction.batch=9",
            "ssd.promotion.counts=cache_hits",
            "ssd.promotion.threshold=11",
        ],
    )
}

#[test]
fn an_image_from_before_the_groups_is_the_same_device() {
    let table: toml::Table = BEFORE_GROUPS.parse().unwrap();
    for (old, _) in RENAMED {
        let (section, name) = old.split_once('.').unwrap();
        assert!(table[section].get(name).is_some(), "{old} is not tried");
    }
    let config = DeviceConfig::from_toml(BEFORE_GROUPS).unwrap();
    assert_eq!(config, same_device());
    assert_eq!(DeviceConfig::from_toml(&config.to_toml()).unwrap(), config);
}

#[test]
fn it_opens_and_closes() {
    let place = Place::new("before-groups");
    let image = place.path("image");
    Image::create(&image, &same_device()).unwrap();
    set_config_of(&image, BEFORE_GROUPS);
    assert_eq!(Image::describe(&image).unwrap().config, same_device());
    for _ in 0..2 {
        let engine = DeviceEngine::open(&image, Pace::None).unwrap();
        engine.close().unwrap();
    }
}

#[test]
fn a_value_under_both_names_is_refused() {
    let both = format!("{BEFORE_GROUPS}\n[ssd.log]\nsize = \"64KiB\"\n");
    let error = DeviceConfig::from_toml(&both).unwrap_err().to_string();
    let told = "the image: ssd.write_log is called ssd.log.size now; write that";
    assert!(error.contains(told), "{error}");
}
