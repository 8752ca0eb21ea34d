//! What syncs take with and without persistent memory, and what cannot be mounted with it.

use super::drive::{Fs, append, create, engine, engine_with, formatted, run, with};
use bytefs::{DaxReport, FormatOptions, MountError, MountOptions, Personality};
use dax::{PolicyKind, Settings};
use units::{Picos, Stream};

/// Appends of 200 bytes, each with an fdatasync: what one of the last ones takes, flushes of them,
/// and what was done.
fn stream_on(
    of: Personality,
    sets: &[&str],
    dax: Option<Settings>,
) -> (Picos, u64, Option<DaxReport>) {
    let (_, done) = run(engine_with(of, "2MiB", sets), async move |device, clock| {
        let fs = formatted(&device, &clock, with(dax), of).await;
        let ino = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        let mut begun = (port::Clock::now(&clock), 0);
        for nth in 0..420 {
            if nth == 20 {
                begun = (port::Clock::now(&clock), fs.stats().flushes);
            }
            append(&fs, ino, nth * 200, &[nth as u8; 200]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        let took = (port::Clock::now(&clock) - begun.0) / 400;
        let flushes = fs.stats().flushes - begun.1;
        let report = fs.dax_report();
        fs.unmount().await.expect("an unmount");
        (took, flushes, report)
    });
    done
}

fn stream(of: Personality, dax: Option<Settings>) -> (Picos, u64, Option<DaxReport>) {
    stream_on(of, &[], dax)
}

#[test]
fn an_append_stream_asks_for_no_flush_once_its_range_is_upgraded() {
    let (without, flushes, report) = stream(Personality::Ext4Like, None);
    assert_eq!(report, None);
    assert!(flushes >= 400, "{flushes}");
    let (with, flushes, report) = stream(Personality::Ext4Like, Some(Settings::default()));
    let report = report.expect("it is on");
    assert_eq!(flushes, 0);
    assert_eq!(report.ranges.upgrades, 1);
    assert!(report.pmem.light_syncs >= 410, "{report:?}");
    assert!(with.scale(20, 1) < without, "{with} beside {without}");
    let (.., report) = stream(Personality::ByteFs, Some(Settings::default()));
    assert!(report.expect("it is on").pmem.light_syncs >= 410);
}

/// What a sync of 200 appended bytes takes with drives of different flush costs:
/// `cargo test -p entresol-bytefs --test all dax::costs::a_light -- --nocapture` prints it.
#[test]
fn a_light_sync_takes_what_it_takes_whatever_a_flush_costs() {
    let mut light = Vec::new();
    for cost in ["100us", "1ms", "3500us"] {
        let each = [None, Some(Settings::default())].map(|dax| {
            let flush = format!("ssd.flush_cost={cost}");
            let (took, ..) = stream_on(Personality::Ext4Like, &[&flush], dax);
            took
        });
        println!("flush {cost}: {} a sync, light {}", each[0], each[1]);
        light.push(each[1]);
        let flush: Picos = cost.parse().expect("a span");
        assert!(each[0] > flush && each[1] < Picos::from_micros(20));
    }
    assert!(light.iter().all(|took| *took == light[0]), "{light:?}");
}

/// Appends of `size` bytes, each synced: what all take, the syncs among them that the window has
/// answered alone, and frames at the end.
fn appended(kind: PolicyKind, order: u32, size: usize) -> (Picos, u64, u64) {
    const SYNCS: u64 = 200;
    let settings = Settings {
        kind,
        order,
        ..Settings::default()
    };
    let of = Personality::Ext4Like;
    let (_, done) = run(engine(of, "4MiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(settings)), of).await;
        let ino = create(&fs, b"log").await;
        fs.sync().await.expect("a sync");
        let begun = port::Clock::now(&clock);
        for nth in 0..SYNCS {
            append(&fs, ino, nth * size as u64, &vec![7; size]).await;
            fs.fsync(ino, true).await.expect("a sync");
        }
        let took = port::Clock::now(&clock) - begun;
        let report = fs.dax_report().expect("it is on");
        (took, report.pmem.light_syncs, report.frames.0)
    });
    done
}

/// The thesis's policy beside the one that looks ahead, on append streams with ranges of 2^G pages:
/// `cargo test -p entresol-bytefs --test all dax::costs::what_is_predicted -- --nocapture` prints
/// it. The last two are pipelined: ten records of 512 B go with one write.
#[test]
fn what_is_predicted_is_light_from_its_first_sync() {
    for (order, size, least) in [
        (0, 4096, 20),
        (4, 200, 1),
        (4, 4096, 10),
        (4, 5120, 10),
        (9, 5120, 1),
    ] {
        let [ratio, predict] =
            [PolicyKind::Ratio, PolicyKind::Predict].map(|kind| appended(kind, order, size));
        println!(
            "G = {order}, {size} B: ratio {} with {} light syncs of 200, predict {} with {}; {} \
             and {} frames",
            ratio.0, ratio.1, predict.0, predict.1, ratio.2, predict.2
        );
        assert!(predict.1 >= 192, "G = {order}, {size} B: {predict:?}");
        let gain = ratio.0.get() / predict.0.get().max(1);
        assert!(predict.0 <= ratio.0 && gain >= least, "{size} B: {gain}");
    }
}

/// A log to which 512 bytes are appended and synced each ten milliseconds, and beside it ten pages
/// a second anywhere in a table of 8 MiB, of which each fourth is synced: what a sync takes in the
/// mean of twelve seconds. Counts last for one and two.
fn mixed(kind: PolicyKind) -> Picos {
    let settings = Settings {
        kind,
        order: 4,
        write_delay: Picos::from_micros(2_000_000),
        write_back_delay: Picos::from_micros(1_000_000),
        ..Settings::default()
    };
    let of = Personality::Ext4Like;
    let (_, done) = run(engine(of, "16MiB"), async move |device, clock| {
        let fs = formatted(&device, &clock, with(Some(settings)), of).await;
        let (log, table) = (create(&fs, b"log").await, create(&fs, b"table").await);
        append(&fs, table, 0, &vec![1; TABLE * 4096]).await;
        fs.sync().await.expect("a sync");
        let mut draw = Stream::new(18, "mixed load");
        let begun = port::Clock::now(&clock);
        let (mut took, mut syncs) = (Picos::ZERO, 0);
        for nth in 0..1200 {
            let at = begun + Picos::from_micros(10_000) * nth;
            port::Clock::sleep_until(&clock, at).await;
            let mut synced = vec![log];
            append(&fs, log, nth * 512, &[nth as u8; 512]).await;
            if nth % 10 == 0 {
                let page = draw.below(TABLE as u64);
                append(&fs, table, page * 4096, &[nth as u8; 4096]).await;
            }
            if nth % 40 == 30 {
                synced.push(table);
            }
            for ino in synced {
                let begun = port::Clock::now(&clock);
                fs.fsync(ino, true).await.expect("a sync");
                took += port::Clock::now(&clock) - begun;
                syncs += 1;
            }
        }
        took / syncs
    });
    done
}

const TABLE: usize = 2048;

/// `cargo test -p entresol-bytefs --test all dax::costs::thresholds -- --nocapture` prints it.
#[test]
fn thresholds_that_adapt_to_a_table_keep_no_log_out() {
    let [ratio, adaptive] = [PolicyKind::Ratio, PolicyKind::Adaptive].map(mixed);
    println!("a sync of a log and a table: ratio {ratio}, adaptive {adaptive}");
    assert!(adaptive <= ratio, "{adaptive} beside {ratio}");
}

#[test]
fn what_cannot_be_mounted_so_says_why() {
    let refused = |of: Personality, pmem: &str, options: MountOptions| {
        let (_, said) = run(engine(of, pmem), async move |device, clock| {
            let format = FormatOptions {
                inodes: Some(64),
                ..FormatOptions::new(of)
            };
            Fs::format(&device.any(), &format)
                .await
                .expect("there is room");
            let mounted = Fs::mount(device.any(), clock, options).await;
            let refused: Option<MountError> = mounted.err();
            refused.expect("it is refused").to_string()
        });
        assert!(!said.contains('\n'), "{said}");
        said
    };
    let auto = || with(Some(Settings::default()));
    assert!(refused(Personality::Ext4Like, "0B", auto()).contains("device.pmem=64MiB"));
    assert!(refused(Personality::Ext4Like, "4KiB", auto()).contains("this one has 4KiB"));
    assert!(refused(Personality::F2fsLike, "1MiB", auto()).contains("f2fs-like"));
    let mut crossed = Settings::default();
    crossed.policy.upgrade_above = 10;
    let said = refused(Personality::Ext4Like, "1MiB", with(Some(crossed)));
    assert!(said.contains("back and forth"), "{said}");
}
