//! Stores to the window that were not persisted are lost.

use super::drive::{Fs, append, beside, create, eager, engine, formatted, run, run_for, with};
use bytefs::{Ino, Personality};
use dax::{PolicyKind, Settings};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use units::{Picos, Stream};

/// Pages of the file whose frames are taken.
const PAGES: u64 = 8;

/// Writes the first byte of pages and syncs them one by one: they have frames then.
async fn frame(fs: &Fs, ino: Ino, pages: u64) {
    for page in 0..pages {
        for byte in 0..3 {
            append(fs, ino, page * 4096, &[byte; 4096]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
    }
}

/// Two tasks: one syncs a file for which there are no frames, so that those of the other file are
/// taken, whose pages are clean; the other one writes these anew and syncs them the usual way. The
/// device answers that sync while the persist of the zeroes waits, and then the power goes.
#[test]
fn a_frame_that_is_being_taken_does_not_come_back_over_what_was_synced_meanwhile() {
    let seen: Rc<RefCell<Vec<u8>>> = Rc::default();
    let (ran, report) = run(
        engine(Personality::Ext4Like, "64KiB"),
        async move |device, clock| {
            let options = with(Some(eager()));
            let fs = formatted(&device, &clock, options, Personality::Ext4Like).await;
            let fs = Rc::new(fs);
            let (old, new) = (create(&fs, b"old").await, create(&fs, b"new").await);
            fs.sync().await.expect("a sync");
            frame(&fs, old, PAGES).await;
            // Written back and durable: the frames are those of clean pages.
            fs.sync().await.expect("a sync");
            let before = fs.dax_report().expect("it is on").frames;
            assert!(before.0 >= PAGES, "{before:?}");
            frame(&fs, new, 3).await;
            for page in 3..before.1 {
                append(&fs, new, page * 4096, &[9; 4096]).await;
            }
            device.hesitates.set(Picos::from_micros(1_000_000));
            let taking = async {
                fs.fsync(new, true).await.expect("a sync");
            };
            let syncing = async {
                // Behind the frames' being taken.
                let soon = port::Clock::now(&clock) + Picos::from_micros(50);
                port::Clock::sleep_until(&clock, soon).await;
                for page in 0..PAGES {
                    append(&fs, old, page * 4096, &[77; 4096]).await;
                }
                fs.fsync(old, false).await.expect("a sync");
            };
            beside(syncing, taking).await;
            fs.dax_report().expect("it is on")
        },
    );
    assert!(report.pmem.light_syncs > 0, "{report:?}");
    let left = ran.power_cycled(|| false);
    let place = Rc::clone(&seen);
    run(left, async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None))
            .await
            .expect("mounts");
        let found = fs.lookup(Ino::ROOT, b"old").await.expect("it was synced");
        let bytes = fs.read(found.ino, 0, 1 << 20, false).await.expect("a read");
        place.replace(bytes);
    });
    let wrong = seen.borrow().iter().position(|byte| *byte != 77);
    assert_eq!(wrong, None, "of {} bytes", seen.borrow().len());
}

/// As above, and when the frames are to be taken a light sync of their file is under way: it ends
/// before the zeroes are durable, so a sync that follows would be undone. They are not taken.
#[test]
fn frames_of_a_file_that_is_being_synced_are_not_taken() {
    let (ran, report) = run(
        engine(Personality::Ext4Like, "64KiB"),
        async move |device, clock| {
            let options = with(Some(eager()));
            let fs = formatted(&device, &clock, options, Personality::Ext4Like).await;
            let (old, new) = (create(&fs, b"old").await, create(&fs, b"new").await);
            fs.sync().await.expect("a sync");
            frame(&fs, old, PAGES).await;
            fs.sync().await.expect("a sync");
            frame(&fs, new, 3).await;
            let frames = fs.dax_report().expect("it is on").frames.1;
            for page in 3..frames {
                append(&fs, new, page * 4096, &[9; 4096]).await;
            }
            device.hesitates.set(Picos::from_micros(100));
            let taking = async {
                let soon = port::Clock::now(&clock) + Picos::from_micros(50);
                port::Clock::sleep_until(&clock, soon).await;
                device.hesitates.set(Picos::from_micros(1_000_000));
                fs.fsync(new, true).await.expect("a sync");
            };
            let syncing = async {
                let light = || fs.dax_report().expect("it is on").pmem.light_syncs;
                let before = light();
                append(&fs, old, (PAGES - 1) * 4096, &[5; 4096]).await;
                fs.fsync(old, true).await.expect("a sync");
                assert_eq!(light(), before + 1, "it is a light one");
                for page in 0..PAGES - 1 {
                    append(&fs, old, page * 4096, &[77; 4096]).await;
                }
                fs.fsync(old, false).await.expect("a sync");
            };
            beside(syncing, taking).await;
            fs.dax_report().expect("it is on")
        },
    );
    assert_eq!(report.frames.0, PAGES + 3, "none was taken");
    let seen: Rc<RefCell<Vec<u8>>> = Rc::default();
    let place = Rc::clone(&seen);
    run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None))
            .await
            .expect("mounts");
        let found = fs.lookup(Ino::ROOT, b"old").await.expect("it was synced");
        place.replace(fs.read(found.ino, 0, 1 << 20, false).await.expect("a read"));
    });
    let seen = seen.borrow();
    let (synced, last) = seen.split_at((PAGES as usize - 1) * 4096);
    let wrong = synced.iter().position(|byte| *byte != 77);
    assert_eq!((seen.len(), wrong), (PAGES as usize * 4096, None));
    assert!(last.iter().all(|byte| *byte == 5));
}

/// A light sync has made the beginning of a page durable. The page is filled and many follow, so
/// that its owner writes behind before the next sync, which has to bring the rest of the page.
#[test]
fn what_is_written_behind_does_not_keep_a_page_from_the_next_light_sync() {
    const REST: u64 = 700;
    let (ran, ()) = run(
        engine(Personality::ByteFs, "4MiB"),
        async |device, clock| {
            let kind = PolicyKind::Always;
            let always = Settings { kind, ..eager() };
            let fs = formatted(&device, &clock, with(Some(always)), Personality::ByteFs).await;
            let light = || fs.dax_report().expect("it is on").pmem.light_syncs;
            let ino = create(&fs, b"log").await;
            fs.fsync(ino, false).await.expect("a sync");
            fs.fsync(ino, true).await.expect("a sync");
            append(&fs, ino, 0, &[7; 100]).await;
            fs.fsync(ino, true).await.expect("a sync");
            assert_eq!(light(), 1, "the page has a frame");
            append(&fs, ino, 100, &[7; 4096 - 100]).await;
            for page in 1..=REST {
                append(&fs, ino, page * 4096, &[7; 4096]).await;
            }
            assert!(fs.can_write_behind(ino));
            fs.write_behind(ino).await.expect("it is written");
            fs.fsync(ino, true).await.expect("a sync");
        },
    );
    let wrong: Rc<Cell<Option<(usize, usize)>>> = Rc::default();
    let place = Rc::clone(&wrong);
    run(ran.power_cycled(|| false), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None)).await;
        let fs = fs.expect("mounts");
        let found = fs.lookup(Ino::ROOT, b"log").await.expect("it was synced");
        let bytes = fs.read(found.ino, 0, 1 << 23, false).await.expect("a read");
        let first = bytes.iter().position(|byte| *byte != 7);
        place.set(Some((first.unwrap_or(bytes.len()), bytes.len())));
    });
    let size = (1 + REST as usize) * 4096;
    assert_eq!(wrong.get(), Some((size, size)), "right bytes, and all");
}

/// The power goes while the first sync of three pages is under way, and takes any stores back. What
/// is left of the file is a beginning of what was written.
#[test]
fn a_sync_that_was_not_answered_leaves_no_zeroes_before_what_it_brings() {
    let asked: Rc<Cell<(u64, u64)>> = Rc::default();
    let grow = |requests: u64| {
        let place = Rc::clone(&asked);
        run_for(
            requests,
            engine(Personality::Ext4Like, "64KiB"),
            async move |device, clock| {
                let options = with(Some(eager()));
                let fs = formatted(&device, &clock, options, Personality::Ext4Like).await;
                let ino = create(&fs, b"log").await;
                fs.sync().await.expect("a sync");
                frame(&fs, ino, 1).await;
                let before = u64::MAX - device.left.get();
                append(&fs, ino, 4096, &[7; 3 * 4096]).await;
                fs.fsync(ino, true).await.expect("a sync");
                place.set((before, u64::MAX - device.left.get()));
                fs.dax_report().expect("it is on").pmem.light_syncs
            },
        )
    };
    let (_, light) = grow(u64::MAX);
    assert!(
        light.expect("it goes on") > 1,
        "the last sync is a light one"
    );
    let (before, behind) = asked.get();
    let mut stream = Stream::new(1, "lost");
    let mut grown = 0;
    for requests in before..behind {
        let (ran, _) = grow(requests);
        for _ in 0..16 {
            let left = ran.power_cycled(|| stream.below(2) == 0);
            let bytes: Rc<RefCell<Vec<u8>>> = Rc::default();
            let place = Rc::clone(&bytes);
            run(left, async move |device, clock| {
                let fs = Fs::mount(device.any(), clock, with(None))
                    .await
                    .expect("mounts");
                let found = fs.lookup(Ino::ROOT, b"log").await.expect("it was synced");
                place.replace(fs.read(found.ino, 0, 1 << 20, false).await.expect("a read"));
            });
            let bytes = bytes.borrow();
            let hole = bytes.iter().skip(4096).position(|byte| *byte != 7);
            assert_eq!(hole, None, "{requests} requests, {} bytes", bytes.len());
            grown += usize::from(bytes.len() > 4096);
        }
    }
    assert!(grown > 0, "no power cut has left a part of the sync");
}
