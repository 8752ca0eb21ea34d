//! Two tasks that sync one file at once, and one that syncs a file of which a range leaves.

use super::drive::{
    CALLER, DIRECT, Fs, append, beside, create, eager, engine, formatted, put, run,
};
use bytefs::{Ino, Personality};
use dax::{PolicyKind, Settings, Stage};
use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use units::Picos;

const OF: Personality = Personality::Ext4Like;
/// 14 frames.
const SMALL: &str = "64KiB";

thread_local! {
    /// What is done when somebody who waits is woken for the first time.
    static LOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// Looks before it wakes: another thread would go on at that moment.
struct Looks(Waker);

impl Wake for Looks {
    fn wake(self: Arc<Self>) {
        if let Some(look) = LOOK.take() {
            look();
        }
        self.0.wake_by_ref();
    }
}

fn stages(fs: &Fs, ino: Ino) -> Vec<Stage> {
    let files = fs.dax_view().expect("it is on").files;
    let file = files.iter().find(|file| file.ino == ino);
    let ranges = file.map(|file| file.ranges.iter().map(|(range, _)| range.stage));
    ranges.into_iter().flatten().collect()
}

/// A range whose frames are given back is plain before a sync that waits for that goes on: it would
/// take frames for the range again.
#[test]
fn who_waits_for_a_downgrade_finds_a_plain_range() {
    let settings = Settings {
        kind: PolicyKind::Predict,
        write_delay: Picos::from_micros(20_000),
        write_back_delay: Picos::from_micros(10_000),
        ..eager()
    };
    let seen: Rc<RefCell<Option<Vec<Stage>>>> = Rc::default();
    let place = Rc::clone(&seen);
    run(engine(OF, SMALL), async move |device, clock| {
        let fs = formatted(&device, &clock, super::drive::with(Some(settings)), OF).await;
        let fs = Rc::new(fs);
        let (old, new) = (create(&fs, b"old").await, create(&fs, b"new").await);
        fs.sync().await.expect("a sync");
        for byte in 1..=6 {
            put(&fs, old, 0, byte).await;
        }
        // Clean, and idle: it costs the headers of its frames alone.
        fs.sync().await.expect("a sync");
        assert_eq!(stages(&fs, old), [Stage::Upgraded]);
        let after = |micros| {
            let then = port::Clock::now(&clock) + Picos::from_micros(micros);
            port::Clock::sleep_until(&clock, then)
        };
        after(30_000).await;
        device.hesitates.set(Picos::from_micros(100_000));
        let begun = port::Clock::now(&clock);
        let leaving = async {
            put(&fs, new, 0, 9).await;
        };
        let syncing = async {
            after(50_000).await;
            assert_eq!(stages(&fs, old), [Stage::Downgrading]);
            fs.fsync(old, true).await.expect("a sync");
        };
        let (looking, counted) = (Rc::clone(&fs), Rc::clone(&place));
        LOOK.set(Some(Box::new(move || {
            counted.replace(Some(stages(&looking, old)));
        })));
        let mut syncing = pin!(syncing);
        let waiting = poll_fn(|context| {
            let now = port::Clock::now(&clock);
            // It is before the gate then, and for nothing else.
            if now.saturating_since(begun) < Picos::from_micros(60_000) {
                return syncing.as_mut().poll(context);
            }
            let waker = Waker::from(Arc::new(Looks(context.waker().clone())));
            syncing.as_mut().poll(&mut Context::from_waker(&waker))
        });
        beside(leaving, waiting).await;
        device.hesitates.set(Picos::ZERO);
    });
    LOOK.set(None);
    let seen = seen.take().expect("it has waited");
    assert!(!seen.contains(&Stage::Downgrading), "{seen:?}");
}

/// Runs all of them to their ends.
async fn all(mut running: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>>) {
    poll_fn(|context| {
        running.retain_mut(|one| one.as_mut().poll(context).is_pending());
        match running.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
    .await;
}

/// As the kernel, which tags a page for write-back once.
#[test]
fn a_page_that_two_syncs_make_durable_at_once_counts_once() {
    run(engine(OF, SMALL), async move |device, clock| {
        let settings = Settings {
            order: 2,
            ..Settings::default()
        };
        let fs = formatted(&device, &clock, super::drive::with(Some(settings)), OF).await;
        let fs = Rc::new(fs);
        let log = create(&fs, b"log").await;
        append(&fs, log, 0, &[1; 12 * 4096]).await;
        fs.sync().await.expect("a sync");
        put(&fs, log, 0, 2).await;
        let counts = async |fs: &Fs| {
            let view = fs.dax_view().expect("it is on");
            let range = &view.files[0].ranges[0].0;
            assert_eq!(range.pages, 0..4);
            (range.counts.writes, range.counts.write_backs)
        };
        let before = counts(&fs).await;
        device.is_slow.set(Picos::from_micros(100_000));
        let (writing, clock) = (Rc::clone(&fs), Rc::new(clock));
        let mut tasks: Vec<std::pin::Pin<Box<dyn Future<Output = ()>>>> =
            vec![Box::pin(async move {
                // It has passed the file's gate until the device answers.
                let written = writing.write(&CALLER, log, 8 * 4096, &[3; 4096], DIRECT);
                assert_eq!(written.await, Ok(4096));
            })];
        for is_writer in [true, false] {
            let (fs, clock) = (Rc::clone(&fs), Rc::clone(&clock));
            tasks.push(Box::pin(async move {
                let soon = port::Clock::now(&*clock) + Picos::from_micros(10_000);
                port::Clock::sleep_until(&*clock, soon).await;
                if is_writer {
                    append(&fs, log, 0, &[4; 4096]).await;
                }
                fs.fsync(log, true).await.expect("a sync");
            }));
        }
        all(tasks).await;
        let after = counts(&fs).await;
        assert_eq!(after, (before.0 + 1, before.1 + 1));
    });
}
