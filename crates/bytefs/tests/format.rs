//! Sizes of journals that are asked for: those that are of use are, and others are refused.

use crate::common::{AnyClock, Fs, of};
use bytefs::{
    Caller, DataMode, FormatOptions, Ino, MountError, MountOptions, Personality, Timestamp,
    WriteOptions, check,
};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::AnyDevice;
use std::cell::Cell;
use std::rc::Rc;
use units::Bytes;
use vtime::Machine;

type Drive = AnyDevice;

const INODES: u32 = 64;
const CALLER: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(5),
};

fn on_device(test: impl AsyncFnOnce(Drive, AnyClock) + 'static) {
    let sets = [
        "nand.channels=2",
        "nand.blocks_per_plane=64",
        "ssd.dram=8MiB",
        "ssd.log.size=1MiB",
    ];
    let layers = sets.map(|set| Layer::assignment(set).unwrap());
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    let mut machine = Machine::new(DeviceEngine::in_memory(&config, Pace::None).unwrap(), 1);
    let (device, clock) = of(&machine);
    let is_over = Rc::new(Cell::new(false));
    let over = Rc::clone(&is_over);
    machine.spawn("test", async move {
        test(device, clock).await;
        over.set(true);
    });
    machine.run().unwrap();
    assert!(is_over.get());
}

async fn format(
    device: &Drive,
    personality: Personality,
    journal: Bytes,
) -> Result<(), MountError> {
    let options = FormatOptions {
        inodes: Some(INODES),
        journal: Some(journal),
        ..FormatOptions::new(personality)
    };
    Fs::format(device, &options).await
}

/// Files are made and synced, and there behind another mount.
async fn use_it(device: &Drive, clock: &AnyClock, data: DataMode) {
    let options = MountOptions {
        data,
        ..MountOptions::default()
    };
    let mount = async || Fs::mount(device.clone(), clock.clone(), options.clone()).await;
    let fs = mount().await.unwrap();
    for number in 0..20 {
        let name = format!("file {number}");
        let made = fs.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o600).await;
        let ino = made.unwrap().ino;
        for byte in 0..3 {
            let plain = WriteOptions::default();
            let bytes = [byte; 30_000];
            fs.write(&CALLER, ino, 100, &bytes, plain).await.unwrap();
            fs.fsync(ino, false).await.unwrap();
        }
    }
    drop(fs);
    let fs = mount().await.unwrap();
    let ino = fs.lookup(Ino::ROOT, b"file 19").await.unwrap().ino;
    assert!(fs.read(ino, 100, 40_000, false).await.unwrap() == [2; 30_000]);
    fs.unmount().await.unwrap();
    assert!(check(device, false).await.unwrap().is_clean());
}

/// The least size of each personality, where there is one.
const LEAST: [(Personality, u64); 6] = [
    (Personality::ByteFs, 76),
    (Personality::ByteFsLog, 76),
    (Personality::ByteFsDual, 256),
    (Personality::PmfsLike, 256),
    (Personality::Ext4Like, 1024),
    (Personality::NovaLike, 72),
];

#[test]
fn the_least_journal_is_of_use() {
    for (personality, least) in LEAST {
        on_device(async move |device, clock| {
            let least = Bytes::from_kib(least);
            format(&device, personality, least).await.unwrap();
            let data = match personality.needs_transactions() {
                true => DataMode::Journal,
                false => DataMode::Ordered,
            };
            use_it(&device, &clock, data).await;
        });
    }
}

#[test]
fn other_sizes_are_refused_in_a_sentence() {
    on_device(async |device, clock| {
        for (personality, least) in LEAST {
            let tera = 1 << 40;
            let sizes = [
                1 << 10,
                4 << 10,
                (least - 4) << 10,
                tera,
                16 * tera,
                u64::MAX,
            ];
            let none = (!personality.needs_transactions()).then_some(0);
            for size in sizes.into_iter().chain(none).map(Bytes::new) {
                let refused = format(&device, personality, size).await.unwrap_err();
                let told = refused.to_string();
                let begins = format!("--journal is {size}; with {personality} ");
                let limit = format!("at least {}", Bytes::from_kib(least));
                assert!(told.starts_with(&begins) && told.contains(&limit), "{told}");
                assert!(!told.contains('\n'), "{told}");
            }
        }
        format(&device, Personality::ByteFs, Bytes::ZERO)
            .await
            .unwrap();
        use_it(&device, &clock, DataMode::Ordered).await;
        // It has no journal, whatever is said.
        format(&device, Personality::F2fsLike, Bytes::from_kib(1))
            .await
            .unwrap();
        use_it(&device, &clock, DataMode::Ordered).await;
    });
}
