//! What only simulated runs may do is refused where programs would lose by it.

use bytefs::fuse::{MountPoint, Mounted, Silent, Terms, Trust, WallClock};
use bytefs::{Batches, FileSystem, FormatOptions, MountOptions, Personality, Shortcuts};
use device::config::Layer;
use device::{DeviceConfig, Pace, RealDevice};
use std::sync::Arc;
use units::Ratio;

/// A small device, with a file system on it.
fn device() -> Arc<RealDevice> {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=1",
        "nand.blocks_per_plane=40",
        "nand.pages_per_block=64",
        "ftl.over_provisioning=25%",
        "ssd.dram=8MiB",
        "ssd.log.size=1MiB",
        "ssd.log.tx_log=64KiB",
        "ssd.buffers=16",
    ];
    let layers = sets.map(|set| Layer::assignment(set).unwrap());
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    let device = RealDevice::in_memory(&config, Pace::None).unwrap();
    let format = FormatOptions::new(Personality::ByteFs);
    let formed = FileSystem::<_, WallClock>::format(&device, &format);
    device.block_on(formed).unwrap();
    Arc::new(device)
}

#[test]
fn no_program_gets_a_file_system_that_forgets() {
    let device = device();
    let options = MountOptions {
        shortcuts: Shortcuts {
            batches: Batches::Lines,
            ..Shortcuts::default()
        },
        ..MountOptions::default()
    };
    let mounting = FileSystem::mount(Arc::clone(&device), WallClock::start(), options);
    let fs = device.block_on(mounting).unwrap();
    let directory = std::env::temp_dir().join(format!("entresol-shortcuts-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let place = MountPoint::find(&directory).unwrap();
    let terms = Terms {
        for_others: false,
        read_only: false,
        writes_back: false,
        trust: Trust::default(),
        threads: 1,
    };
    let refused = Mounted::new(fs.into(), place, terms, Box::new(Silent));
    std::fs::remove_dir(&directory).unwrap();
    let error = refused.err().expect("it is refused").error.to_string();
    assert!(error.contains("a simulated file system"), "{error}");
}

#[test]
fn the_share_for_blocks_is_above_nothing_and_at_most_all() {
    let device = device();
    for (share, is_one) in [
        ((1, 64), true),
        ((1, 1), true),
        ((0, 1), false),
        ((3, 2), false),
    ] {
        let options = MountOptions {
            blocks_from: Ratio::new(share.0, share.1),
            ..MountOptions::default()
        };
        let mounting = FileSystem::mount(Arc::clone(&device), WallClock::start(), options);
        let mounted = device.block_on(mounting).map(drop);
        assert_eq!(mounted.is_ok(), is_one, "{share:?}");
        if let Err(error) = mounted {
            assert!(error.to_string().contains("it must be above 0%"), "{error}");
        }
    }
}
