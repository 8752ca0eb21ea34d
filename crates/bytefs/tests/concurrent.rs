//! Many tasks on one file system: everybody finds what he wrote, and in the end everything fits
//! together, on a device that is nearly full and with caches that are too small.

use crate::common::{AnyClock, Fs, of};
use bytefs::{
    Allocate, Caller, CpuCosts, FormatOptions, FsError, Ino, MountOptions, Personality, Rename,
    Seek, SetAttr, SetXattr, Timestamp, WriteOptions, check,
};
use device::config::Layer;
use device::{DeviceConfig, DeviceEngine, Pace};
use port::{AnyDevice, Clock};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use units::{Bytes, Picos, Stream};
use vtime::Machine;

/// What a task knows of its own files: contents by name.
type Known = BTreeMap<String, Vec<u8>>;

fn engine() -> DeviceEngine {
    let sets = [
        "nand.channels=2",
        "nand.chips_per_channel=2",
        "nand.dies_per_chip=1",
        "nand.planes_per_die=1",
        "nand.blocks_per_plane=64",
        "nand.pages_per_block=32",
        "ftl.over_provisioning=60%",
        "ssd.log.size=512KiB",
        "ssd.log.tx_log=4KiB",
        "ssd.dram=1MiB",
    ];
    let layers: Vec<Layer> = sets
        .iter()
        .map(|set| Layer::assignment(set).unwrap())
        .collect();
    let config = DeviceConfig::of_preset("bytefs", &layers).unwrap();
    DeviceEngine::in_memory(&config, Pace::None).unwrap()
}

fn is_full(error: &FsError) -> bool {
    matches!(error, FsError::NoSpace | FsError::NoInodes)
}

/// One step of a task in its own directory, compared with what it knows.
async fn step(fs: &Fs, me: &Caller, dir: Ino, known: &mut Known, random: &mut Stream) -> bool {
    let name = format!(
        "file {} {}",
        random.below(12),
        "n".repeat(random.below(3) as usize * 60)
    );
    let found = fs.lookup(dir, name.as_bytes()).await;
    assert_eq!(
        found.is_ok(),
        known.contains_key(&name),
        "{name}: {found:?}"
    );
    let Ok(attr) = found else {
        return match fs.create(me, dir, name.as_bytes(), 0o644).await {
            Ok(attr) => {
                known.insert(name, Vec::new());
                fs.release(attr.ino).await.unwrap();
                false
            }
            Err(error) => {
                assert!(is_full(&error), "{error}");
                true
            }
        };
    };
    let content = known.get_mut(&name).unwrap();
    assert_eq!(attr.size, content.len() as u64, "{name}");
    let ino = attr.ino;
    match random.below(13) {
        0..4 => {
            let at = random.below(40_000);
            let size = [10, 64, 500, 4096, 12_000][random.below(5) as usize];
            let data: Vec<u8> = (0..size).map(|_| 1 + random.below(255) as u8).collect();
            let options = WriteOptions {
                direct: random.below(4) == 0,
                sync: random.below(6) == 0,
                kill_privileges: false,
            };
            match fs.write(me, ino, at, &data, options).await {
                Ok(count) => {
                    assert_eq!(count, data.len());
                    let end = at as usize + count;
                    content.resize(content.len().max(end), 0);
                    content[at as usize..end].copy_from_slice(&data);
                }
                Err(error) => {
                    assert!(is_full(&error), "{error}");
                    return true;
                }
            }
        }
        4..6 => {
            let read = fs
                .read(ino, 0, 1 << 20, random.below(3) == 0)
                .await
                .unwrap();
            let differs = read.iter().zip(content.iter()).position(|(a, b)| a != b);
            assert!(
                read == *content,
                "{name} differs at {differs:?} of {}",
                content.len()
            );
        }
        6 => {
            let size = random.below(50_000);
            let set = SetAttr {
                size: Some(size),
                ..SetAttr::default()
            };
            fs.setattr(me, ino, set).await.unwrap();
            content.resize(size as usize, 0);
        }
        7 => {
            fs.unlink(me, dir, name.as_bytes()).await.unwrap();
            known.remove(&name);
        }
        8 => {
            let to = format!("file {}", random.below(12));
            fs.rename(
                me,
                dir,
                name.as_bytes(),
                dir,
                to.as_bytes(),
                Rename::Replace,
            )
            .await
            .unwrap();
            if to != name {
                let content = known.remove(&name).unwrap();
                known.insert(to, content);
            }
        }
        9 => fs.fsync(ino, random.below(2) == 0).await.unwrap(),
        10 => {
            let at = random.below(40_000);
            let size = 1 + random.below(20_000);
            let punch = fs.fallocate(me, ino, Allocate::PunchHole, at, size).await;
            if let Err(error) = punch {
                assert!(is_full(&error), "{error}");
                return true;
            }
            let end = content.len().min((at + size) as usize);
            if (at as usize) < end {
                content[at as usize..end].fill(0);
            }
        }
        11 => {
            let at = random.below(40_000);
            match fs.fallocate(me, ino, Allocate::Grow, at, 9_000).await {
                Ok(()) => {
                    let end = at as usize + 9_000;
                    content.resize(content.len().max(end), 0);
                }
                Err(error) => {
                    assert!(is_full(&error), "{error}");
                    return true;
                }
            }
        }
        _ => {
            let value = vec![3; random.below(2000) as usize];
            let set = fs
                .set_xattr(me, ino, b"user.x", &value, SetXattr::Any)
                .await;
            assert!(set.as_ref().err().is_none_or(is_full), "{set:?}");
        }
    }
    false
}

/// One step among names that all tasks share: anything may come of it but damage.
async fn shared_step(fs: &Fs, me: &Caller, dir: Ino, random: &mut Stream) {
    let one = format!("shared {}", random.below(6));
    let other = format!("shared {}", random.below(6));
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let done = match random.below(8) {
        0 => fs.mkdir(me, dir, one, 0o755).await.map(|_| ()),
        1 => fs.rmdir(me, dir, one).await,
        2 => fs.unlink(me, dir, one).await,
        3 => match fs.create(me, dir, one, 0o644).await {
            Ok(attr) => {
                let data = vec![7; random.below(30_000) as usize];
                let _ = fs
                    .write(me, attr.ino, 0, &data, WriteOptions::default())
                    .await;
                fs.release(attr.ino).await
            }
            Err(error) => Err(error),
        },
        4 => fs.rename(me, dir, one, dir, other, Rename::Exchange).await,
        5 => {
            let to = fs.lookup(dir, other).await.map_or(dir, |attr| attr.ino);
            fs.rename(me, dir, one, to, b"inner", Rename::Replace).await
        }
        6 => match fs.lookup(dir, one).await {
            Ok(attr) => fs.link(me, attr.ino, dir, other).await.map(|_| ()),
            Err(error) => Err(error),
        },
        _ => match fs.lookup(dir, one).await {
            Ok(attr) if fs.open(attr.ino).await.is_ok() => {
                let _ = fs.read(attr.ino, 0, 9_000, false).await;
                let _ = fs
                    .write(me, attr.ino, 5_000, &[9; 9_000], WriteOptions::default())
                    .await;
                fs.release(attr.ino).await
            }
            _ => Ok(()),
        },
    };
    if let Err(error) = done {
        assert!(
            !matches!(error, FsError::Io(_) | FsError::ReadOnly(_)),
            "{error}"
        );
    }
}

fn campaign(personality: Personality, seed: u64, tasks: u64, steps: u32) {
    let mut machine = Machine::new(engine(), 4);
    let (device, clock) = of(&machine);
    let fs: Rc<RefCell<Option<Rc<Fs>>>> = Rc::default();
    let options = MountOptions {
        cache: Bytes::from_kib(256),
        metadata_cache: Bytes::from_kib(64),
        ..MountOptions::default()
    };
    let place = Rc::clone(&fs);
    let mount = options.clone();
    machine.spawn("mount", async move {
        let format = FormatOptions {
            journal: (!personality.needs_transactions()).then_some(Bytes::from_mib(2)),
            inodes: Some(120),
            ..FormatOptions::new(personality)
        };
        Fs::format(&device, &format).await.unwrap();
        let fs = Fs::mount(device, clock, mount).await.unwrap();
        place.replace(Some(Rc::new(fs)));
    });
    machine.run().unwrap();
    let fs = fs.take().unwrap();
    let known: Rc<RefCell<Vec<Known>>> = Rc::default();
    known.borrow_mut().resize(tasks as usize, Known::new());
    let full = Rc::new(RefCell::new(0));
    for task in 0..tasks {
        let (fs, known, full) = (Rc::clone(&fs), Rc::clone(&known), Rc::clone(&full));
        let clock = AnyClock::new(machine.clock());
        machine.spawn(format!("task {task}"), async move {
            let mut random = Stream::new(seed * 1000 + task, "concurrent");
            let mut me = Caller {
                uid: 0,
                gid: 0,
                core: task as u32,
                now: Timestamp(0),
            };
            let name = format!("dir {task}");
            let dir = fs
                .mkdir(&me, Ino::ROOT, name.as_bytes(), 0o755)
                .await
                .unwrap()
                .ino;
            let mut mine = Known::new();
            for _ in 0..steps {
                me.now = Timestamp(clock.now().as_picos() as i64 / 1000);
                match random.below(5) {
                    0 => shared_step(&fs, &me, Ino::ROOT, &mut random).await,
                    1 if random.below(20) == 0 => fs.sync().await.unwrap(),
                    1 => fs.flush_old(me.now).await.unwrap(),
                    _ => {
                        let is_full = step(&fs, &me, dir, &mut mine, &mut random).await;
                        *full.borrow_mut() += u32::from(is_full);
                    }
                }
            }
            known.borrow_mut()[task as usize] = mine;
        });
    }
    machine.run().unwrap();
    let Ok(fs) = Rc::try_unwrap(fs) else {
        panic!("all tasks are over");
    };
    assert_eq!(fs.failed(), None);
    let clock = AnyClock::new(machine.clock());
    machine.spawn("end", async move {
        fs.unmount().await.unwrap();
        let device = fs.into_device();
        let report = check(&device, false).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        let fs = Fs::mount(device, clock, options).await.unwrap();
        let known = known.take();
        look(&fs, &known).await;
    });
    machine.run().unwrap();
    // So that room does run out.
    assert!(*full.borrow() > 0 || steps < 300, "{full:?}");
}

async fn look(fs: &Fs, known: &[Known]) {
    for (task, known) in known.iter().enumerate() {
        let name = format!("dir {task}");
        let dir = fs.lookup(Ino::ROOT, name.as_bytes()).await.unwrap();
        let entries = fs.readdir(dir.ino, 0, 1000).await.unwrap();
        assert_eq!(entries.len(), known.len() + 2);
        for (name, content) in known {
            let attr = fs.lookup(dir.ino, name.as_bytes()).await.unwrap();
            let read = fs.read(attr.ino, 0, 1 << 20, false).await.unwrap();
            assert!(read == *content, "{name} of task {task} is another");
        }
    }
}

#[test]
fn everybody_finds_what_he_wrote() {
    for personality in Personality::ALL {
        for seed in 0..8 {
            campaign(personality, seed, 6, 400);
        }
    }
}

/// A file of a file system.
type Found = (Rc<Fs>, Ino);

/// Reads a file while its pages are punched out, from this long after the punch has begun on; says
/// whether bytes that were punched out are read afterwards.
fn reads_what_was_punched(later: Picos) -> bool {
    const SIZE: u64 = 8 * 4096;
    let mut machine = Machine::new(engine(), 2);
    let (device, clocks) = (
        AnyDevice::new(machine.device()),
        [
            AnyClock::new(machine.clock()),
            AnyClock::new(machine.clock()),
        ],
    );
    let fs: Rc<RefCell<Option<Found>>> = Rc::default();
    let place = Rc::clone(&fs);
    machine.spawn("file", async move {
        let [first, second] = clocks;
        let me = Caller {
            uid: 0,
            gid: 0,
            core: 0,
            now: Timestamp(0),
        };
        let format = FormatOptions::new(Personality::ByteFs);
        Fs::format(&device, &format).await.unwrap();
        // A change takes longer than a read.
        let costs = CpuCosts {
            change: Picos::from_micros(200),
            ..CpuCosts::default()
        };
        let options = MountOptions {
            costs,
            ..MountOptions::default()
        };
        let fs = Fs::mount(device, first, options.clone()).await.unwrap();
        let ino = fs.create(&me, Ino::ROOT, b"file", 0o644).await.unwrap().ino;
        let data = vec![7; SIZE as usize + 4096];
        let how = WriteOptions::default();
        fs.write(&me, ino, 0, &data, how).await.unwrap();
        fs.unmount().await.unwrap();
        // Nothing is cached but what leads to the file and its last page.
        let fs = Fs::mount(fs.into_device(), second, options).await.unwrap();
        let ino = fs.lookup(Ino::ROOT, b"file").await.unwrap().ino;
        fs.read(ino, SIZE, 1, false).await.unwrap();
        place.replace(Some((Rc::new(fs), ino)));
    });
    machine.run().unwrap();
    let (fs, ino) = fs.take().unwrap();
    let punching = Rc::clone(&fs);
    machine.spawn("punch", async move {
        let me = Caller {
            uid: 0,
            gid: 0,
            core: 0,
            now: Timestamp(1),
        };
        let punched = punching.fallocate(&me, ino, Allocate::PunchHole, 0, SIZE);
        punched.await.unwrap();
    });
    let (reading, clock) = (Rc::clone(&fs), AnyClock::new(machine.clock()));
    machine.spawn("read", async move {
        clock.sleep_until(clock.now() + later).await;
        reading.read(ino, 0, SIZE as usize, false).await.unwrap();
    });
    machine.run().unwrap();
    let is_old = Rc::new(RefCell::new(false));
    let found = Rc::clone(&is_old);
    machine.spawn("look", async move {
        let read = fs.read(ino, 0, SIZE as usize, false).await.unwrap();
        found.replace(read.iter().any(|byte| *byte != 0));
    });
    machine.run().unwrap();
    *is_old.borrow()
}

#[test]
fn who_reads_beside_a_punch_keeps_no_page_that_is_gone() {
    for step in 0..20 {
        let later = Picos::from_micros(step * 10);
        assert!(!reads_what_was_punched(later), "{later} later");
    }
}

const ME: Caller = Caller {
    uid: 0,
    gid: 0,
    core: 0,
    now: Timestamp(1),
};

/// A file with these runs of pages of sevens, of which nothing is cached. A change takes longer
/// than a read.
fn file_of(machine: &mut Machine<DeviceEngine>, runs: &'static [(u64, u64)]) -> Found {
    let device = AnyDevice::new(machine.device());
    let [first, second] = [(); 2].map(|()| AnyClock::new(machine.clock()));
    let fs: Rc<RefCell<Option<Found>>> = Rc::default();
    let place = Rc::clone(&fs);
    machine.spawn("file", async move {
        let format = FormatOptions::new(Personality::ByteFs);
        Fs::format(&device, &format).await.unwrap();
        let costs = CpuCosts {
            change: Picos::from_micros(200),
            ..CpuCosts::default()
        };
        let options = MountOptions {
            costs,
            ..MountOptions::default()
        };
        let fs = Fs::mount(device, first, options.clone()).await.unwrap();
        let made = fs.create(&ME, Ino::ROOT, b"file", 0o644).await;
        let ino = made.unwrap().ino;
        for (page, count) in runs {
            let data = vec![7; *count as usize * 4096];
            let how = WriteOptions::default();
            let written = fs.write(&ME, ino, page * 4096, &data, how);
            written.await.unwrap();
            fs.fsync(ino, false).await.unwrap();
        }
        fs.unmount().await.unwrap();
        let fs = Fs::mount(fs.into_device(), second, options).await.unwrap();
        let ino = fs.lookup(Ino::ROOT, b"file").await.unwrap().ino;
        place.replace(Some((Rc::new(fs), ino)));
    });
    machine.run().unwrap();
    fs.take().unwrap()
}

/// A punch that needs a block for its list of extents is taken back and tried again. Until then the
/// file's extents are not known, and nobody may take that for a hole.
#[test]
fn who_reads_beside_a_punch_that_is_tried_again_finds_what_it_leaves() {
    for step in 0..400 {
        let later = Picos::from_nanos(step * 500);
        let mut machine = Machine::new(engine(), 3);
        let (fs, ino) = file_of(&mut machine, &[(0, 16), (18, 2)]);
        // The second one waits for pages of the first one, and then looks for the others again.
        for (begin, end, after) in [(0, 8, 0), (4, 16, 1)] {
            let (fs, clock) = (Rc::clone(&fs), AnyClock::new(machine.clock()));
            machine.spawn("read", async move {
                let span = later + Picos::from_micros(after);
                clock.sleep_until(clock.now() + span).await;
                let size = (end - begin) as usize * 4096;
                let read = fs.read(ino, begin * 4096, size, false).await.unwrap();
                for (page, bytes) in (begin..).zip(read.chunks(4096)) {
                    let is_whole = bytes.iter().all(|byte| *byte == 7);
                    assert!(is_whole || page == 2, "{page}, {later} later");
                }
            });
        }
        machine.spawn("punch", async move {
            let punched = fs.fallocate(&ME, ino, Allocate::PunchHole, 2 * 4096, 4096);
            punched.await.unwrap();
        });
        machine.run().unwrap();
    }
}

/// The kernel's write-back comes without the file's lock: who grows a file cuts nothing off that is
/// written behind the new end meanwhile.
#[test]
fn what_is_written_beside_a_growth_stays() {
    const FAR: u64 = 1 << 20;
    for step in 0..60 {
        let later = Picos::from_micros(step * 20);
        let mut machine = Machine::new(engine(), 2);
        let (fs, ino) = file_of(&mut machine, &[(0, 1)]);
        let (growing, writing) = (Rc::clone(&fs), Rc::clone(&fs));
        machine.spawn("grow", async move {
            let grown = growing.fallocate(&ME, ino, Allocate::Grow, 0, 8 * 4096);
            grown.await.unwrap();
        });
        let clock = AnyClock::new(machine.clock());
        machine.spawn("write", async move {
            clock.sleep_until(clock.now() + later).await;
            let written = writing.write(&ME, ino, FAR, &[9; 4096], WriteOptions::default());
            written.await.unwrap();
        });
        machine.run().unwrap();
        machine.spawn("look", async move {
            fs.sync().await.unwrap();
            assert_eq!(
                fs.getattr(ino).await.unwrap().size,
                FAR + 4096,
                "{later} later"
            );
            let read = fs.read(ino, FAR, 4096, false).await.unwrap();
            assert_eq!(read, [9; 4096], "{later} later");
        });
        machine.run().unwrap();
    }
}

/// A file of many extents goes in several steps; who opens it meanwhile has all of it or none.
#[test]
fn a_file_that_goes_is_not_opened() {
    const RUNS: [(u64, u64); 12] = {
        let mut runs = [(0, 1); 12];
        let mut index = 0;
        while index < runs.len() {
            runs[index] = (index as u64 * 2, 1);
            index += 1;
        }
        runs
    };
    let mut opened = 0;
    for step in 0..60 {
        let later = Picos::from_micros(step * 20);
        let mut machine = Machine::new(engine(), 2);
        let (fs, ino) = file_of(&mut machine, &RUNS);
        let (going, has_opened) = (Rc::clone(&fs), Rc::new(RefCell::new(false)));
        machine.spawn("unlink", async move {
            going.unlink(&ME, Ino::ROOT, b"file").await.unwrap();
        });
        let (clock, told) = (AnyClock::new(machine.clock()), Rc::clone(&has_opened));
        machine.spawn("open", async move {
            clock.sleep_until(clock.now() + later).await;
            match fs.open(ino).await {
                Err(FsError::Stale) => return,
                found => found.unwrap(),
            };
            told.replace(true);
            clock
                .sleep_until(clock.now() + Picos::from_micros(5_000))
                .await;
            let read = fs.read(ino, 0, 23 * 4096, false).await.unwrap();
            for page in 0..23 {
                let expected = if page % 2 == 0 { 7 } else { 0 };
                let bytes = &read[page * 4096..][..4096];
                assert!(
                    bytes.iter().all(|byte| *byte == expected),
                    "{page}, {later} later"
                );
            }
            fs.release(ino).await.unwrap();
        });
        machine.run().unwrap();
        opened += usize::from(*has_opened.borrow());
    }
    assert!((1..60).contains(&opened), "{opened}");
}

/// Pages that are written back are neither dirty nor have a place that the inode tells of, and are
/// data all the same.
#[test]
fn what_is_written_back_is_no_hole() {
    const SIZE: u64 = 32 * 4096;
    for is_preallocated in [false, true] {
        let mut machine = Machine::new(engine(), 2);
        let (device, clock) = of(&machine);
        let others = AnyClock::new(machine.clock());
        let is_over = Rc::new(RefCell::new(false));
        let looks = Rc::new(RefCell::new(0));
        let fs: Rc<RefCell<Option<Found>>> = Rc::default();
        let place = Rc::clone(&fs);
        let me = Caller {
            uid: 0,
            gid: 0,
            core: 0,
            now: Timestamp(0),
        };
        machine.spawn("file", async move {
            let format = FormatOptions::new(Personality::ByteFs);
            Fs::format(&device, &format).await.unwrap();
            let fs = Fs::mount(device, clock, MountOptions::default());
            let fs = fs.await.unwrap();
            let ino = fs.create(&me, Ino::ROOT, b"file", 0o644).await.unwrap().ino;
            if is_preallocated {
                let given = fs.fallocate(&me, ino, Allocate::Grow, 0, SIZE);
                given.await.unwrap();
            }
            let data = vec![7; SIZE as usize];
            let how = WriteOptions::default();
            fs.write(&me, ino, 0, &data, how).await.unwrap();
            place.replace(Some((Rc::new(fs), ino)));
        });
        machine.run().unwrap();
        let (fs, ino) = fs.take().unwrap();
        let (syncing, ended) = (Rc::clone(&fs), Rc::clone(&is_over));
        machine.spawn("sync", async move {
            syncing.fsync(ino, false).await.unwrap();
            ended.replace(true);
        });
        let looked = Rc::clone(&looks);
        machine.spawn("seek", async move {
            while !*is_over.borrow() {
                assert_eq!(fs.seek(ino, 0, Seek::Data).await.unwrap(), 0);
                assert_eq!(fs.seek(ino, 0, Seek::Hole).await.unwrap(), SIZE);
                let attr = fs.getattr(ino).await.unwrap();
                assert!(attr.blocks >= SIZE / 4096, "{} blocks", attr.blocks);
                *looked.borrow_mut() += 1;
                others
                    .sleep_until(others.now() + Picos::from_micros(5))
                    .await;
            }
        });
        machine.run().unwrap();
        assert!(*looks.borrow() > 3);
    }
}
