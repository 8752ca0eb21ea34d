//! Syncs that lines of the device's log answer alone.

use super::drive::{
    CALLER, Fs, append, create, eager, engine_with, formatted, put, run, with, with_safe_log,
};
use bytefs::{Allocate, DataMode, DaxAt, FormatOptions, MountOptions, Personality};
use dax::Settings;
use units::Picos;

/// Appends of a thousand bytes, each synced: what a sync takes in the mean of the last ones,
/// flushes of them, and syncs that were light.
fn stream(dax: Option<Settings>, data_only: bool) -> (Picos, u64, u64) {
    let of = Personality::ByteFs;
    let (_, done) = run(with_safe_log(of), async move |device, clock| {
        let fs = formatted(&device, &clock, with(dax), of).await;
        let ino = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        let mut begun = (port::Clock::now(&clock), 0);
        for nth in 0..220 {
            if nth == 20 {
                begun = (port::Clock::now(&clock), fs.stats().flushes);
            }
            append(&fs, ino, nth * 1000, &[nth as u8; 1000]).await;
            fs.fsync(ino, data_only).await.expect("a sync");
        }
        let took = (port::Clock::now(&clock) - begun.0) / 200;
        let flushes = fs.stats().flushes - begun.1;
        let light = fs.dax_report().map_or(0, |report| report.pmem.light_syncs);
        fs.unmount().await.expect("an unmount");
        (took, flushes, light)
    });
    done
}

/// An `fsync` too, whose times go with the batch that its lines do.
#[test]
fn an_append_stream_asks_for_no_flush_and_writes_no_block() {
    for data_only in [true, false] {
        let (usual, flushes, _) = stream(None, data_only);
        assert!(flushes >= 200, "{flushes}");
        let (took, flushes, light) = stream(Some(Settings::default()), data_only);
        println!("data_only {data_only}: usual {usual}, by the log {took}");
        assert_eq!(flushes, 0);
        assert!(light >= 210, "{light}");
        assert!(took.scale(50, 1) < usual, "{took} beside {usual}");
    }
}

/// Lines of pages that are small changes go so without DAX already, and where nothing went by
/// blocks there is nothing to be flushed.
#[test]
fn without_blocks_there_is_nothing_to_flush() {
    let of = Personality::ByteFs;
    let (_, flushes) = run(with_safe_log(of), async move |device, clock| {
        let fs = formatted(&device, &clock, with(None), of).await;
        let ino = create(&fs, b"log").await;
        append(&fs, ino, 0, &[1; 8192]).await;
        fs.fsync(ino, true).await.expect("a sync");
        let before = fs.stats().flushes;
        for nth in 0..20 {
            append(&fs, ino, nth * 100, &[2; 100]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        let few = fs.stats().flushes - before;
        append(&fs, ino, 0, &[3; 4096]).await;
        fs.fsync(ino, true).await.expect("a sync");
        (few, fs.stats().flushes - before)
    });
    assert_eq!(flushes, (0, 1));
}

/// What goes by blocks has to survive before a later sync says so of lines.
#[test]
fn a_block_that_is_not_flushed_makes_the_next_sync_a_usual_one() {
    let of = Personality::ByteFs;
    let (left, ()) = run(with_safe_log(of), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), of).await;
        let ino = create(&fs, b"a").await;
        for byte in 1..4 {
            append(&fs, ino, 0, &[byte; 4096]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        let light = || fs.dax_report().expect("it is on").pmem.light_syncs;
        assert!(light() > 0, "it is upgraded");
        append(&fs, ino, 0, &[4; 4096]).await;
        // Past the cache, and not flushed.
        let direct = super::drive::DIRECT;
        let written = fs.write(&CALLER, ino, 0, &[5; 4096], direct).await;
        assert_eq!(written, Ok(4096));
        append(&fs, ino, 100, &[6; 64]).await;
        let before = light();
        fs.fsync(ino, true).await.expect("a sync");
        assert_eq!(light(), before, "a usual one");
        append(&fs, ino, 200, &[7; 64]).await;
        fs.fsync(ino, true).await.expect("a sync");
        assert_eq!(light(), before + 1);
    });
    run(left.power_cycled(|| true), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None)).await;
        let fs = fs.expect("it is mounted");
        let ino = fs.lookup(bytefs::Ino::ROOT, b"a").await.expect("it is").ino;
        let seen = fs.read(ino, 0, 8192, false).await.expect("a read");
        let mut wanted = [5; 4096];
        wanted[100..164].fill(6);
        wanted[200..264].fill(7);
        assert!(seen == wanted, "all that was synced");
    });
}

/// A block that a file was given holds what another file left there: lines of zeroes are written
/// too.
#[test]
fn a_page_that_was_given_and_not_written_is_zero_around_what_is_written() {
    let of = Personality::ByteFs;
    let pages = 1024;
    let (left, ()) = run(with_safe_log(of), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), of).await;
        let old = create(&fs, b"old").await;
        // Most of what there is, so that the next file has blocks of it wherever they are.
        for page in 0..fs.usage().free_blocks * 9 / 10 {
            append(&fs, old, page * 4096, &[0xaa; 4096]).await;
        }
        fs.fsync(old, false).await.expect("a sync");
        fs.release(old).await.expect("it is closed");
        let gone = fs.unlink(&CALLER, bytefs::Ino::ROOT, b"old").await;
        gone.expect("it is removed");
        fs.sync().await.expect("a sync");
        let new = create(&fs, b"new").await;
        let given = fs.fallocate(&CALLER, new, Allocate::Grow, 0, pages * 4096);
        given.await.expect("there is room");
        fs.sync().await.expect("a sync");
        let light = || fs.dax_report().expect("it is on").pmem.light_syncs;
        let mut by_log = 0;
        for range in (0..pages / 4).step_by(8) {
            for byte in 1..4 {
                put(&fs, new, range * 4, byte).await;
            }
            let before = light();
            append(&fs, new, (range * 4 + 1) * 4096 + 1000, &[7; 64]).await;
            fs.fsync(new, true).await.expect("a sync");
            by_log += light() - before;
        }
        assert_eq!(by_log, pages / 32, "each is light");
    });
    run(left.power_cycled(|| true), async move |device, clock| {
        let fs = Fs::mount(device.any(), clock, with(None)).await;
        let fs = fs.expect("it is mounted");
        let root = bytefs::Ino::ROOT;
        let ino = fs.lookup(root, b"new").await.expect("it is there").ino;
        let mut wanted = [0; 4096];
        wanted[1000..1064].fill(7);
        for range in (0..pages / 4).step_by(8) {
            let at = (range * 4 + 1) * 4096;
            let seen = fs.read(ino, at, 4096, false).await.expect("a read");
            assert!(
                seen == wanted,
                "around what was written of page {}",
                at / 4096
            );
        }
    });
}

#[test]
fn what_cannot_be_mounted_so_says_why() {
    let refused = |of: Personality, sets: &[&str], options: MountOptions| {
        let (_, said) = run(engine_with(of, "0B", sets), async move |device, clock| {
            let format = FormatOptions {
                inodes: Some(64),
                ..FormatOptions::new(of)
            };
            let made = Fs::format(&device.any(), &format).await;
            made.expect("there is room");
            let mounted = Fs::mount(device.any(), clock, options).await;
            let refused = mounted.err();
            refused.map(|error| error.to_string()).unwrap_or_default()
        });
        assert!(!said.contains('\n'), "{said}");
        said
    };
    let safe = ["ssd.power_loss_protection=log"];
    let by_log = || MountOptions {
        dax_at: Some(DaxAt::Log),
        ..with(Some(Settings::default()))
    };
    let said = refused(Personality::Ext4Like, &[], by_log());
    assert!(said.contains("--personality bytefs"), "{said}");
    let reserve = Settings {
        reserve: 25,
        ..Settings::default()
    };
    let said = refused(Personality::ByteFs, &safe, with(Some(reserve)));
    assert!(said.contains("dax_reserve"), "{said}");
    let at_window = MountOptions {
        dax_at: Some(DaxAt::Window),
        ..by_log()
    };
    let said = refused(Personality::ByteFs, &safe, at_window);
    assert!(said.contains("device.pmem=64MiB"), "{said}");
    let journal = MountOptions {
        data: DataMode::Journal,
        ..with(None)
    };
    let said = refused(Personality::ByteFs, &safe, journal);
    assert!(said.contains("leave data=journal out"), "{said}");
    // A log beside a personality that uses none.
    let with_log = ["ssd.log.size=1MiB", safe[0]];
    for of in [Personality::PmfsLike, Personality::NovaLike] {
        let said = refused(of, &with_log, with(None));
        assert!(said.contains("the log alone survives"), "{said}");
    }
    // Where all survives it has to be asked for, and can be.
    assert_eq!(refused(Personality::ByteFs, &[], by_log()), "");
}

#[test]
fn a_reserve_of_frames_cannot_be_set_where_there_are_none() {
    let of = Personality::ByteFs;
    let (_, said) = run(with_safe_log(of), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(eager())), of).await;
        fs.change_dax("reserve", "10").unwrap_err()
    });
    assert!(said.contains("dax_at=log has none"), "{said}");
}
