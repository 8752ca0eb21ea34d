//! A capture of version 1 that stays as it is: today's reader must read it as it was written.
//!
//! `UPDATE_GOLDEN=1 cargo test -p entresol-trace --test all golden` writes both files anew, which
//! is right only together with a new version of the format.

use std::fmt::Write;
use std::path::PathBuf;
use trace::{AccessKind, DurationClass, FutexId, Inst, OpClass, Reg, SyncEvent, TraceWriter, Wake};
use units::ThreadId;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests")
        .join(name)
}

fn write() -> TraceWriter {
    let mut writer = TraceWriter::new();
    let (main, child) = (writer.thread(), writer.thread());
    let (futex, duration) = (FutexId::new(0), DurationClass::from_log2(14));
    let call = writer.syscall();
    let load = writer.load(Reg::general(0), Reg::general(6));
    let add = writer.alu(Reg::general(1), &[Reg::general(0), Reg::general(1)]);
    let store = writer.store(Reg::general(1), Reg::general(7));
    let back = writer.branch();
    let gather = writer.define(Inst::new(OpClass::Simd, 0, 6).with_memory(true, false));
    writer.execute_sync(main, call, SyncEvent::ThreadCreate { child });
    for thread in [main, child] {
        for n in 0..20 {
            let at = 0x7f00_0000 + u64::from(thread.get()) * 0x8000 + n * 712;
            writer.execute(thread, load, Some((at, 8)), None);
            writer.execute(thread, add, None, None);
            writer.execute(thread, store, None, Some((at + 0x1_0000, 32)));
            writer.execute(thread, back, None, None);
        }
    }
    let loads: Vec<_> = (0..4)
        .map(|n| (AccessKind::Load, (0x5000 - n * 900, 4)))
        .collect();
    writer.execute_pieces(child, gather, &loads);
    writer.execute_sync(child, call, SyncEvent::FutexWake { futex, count: 0 });
    writer.execute_sync(child, call, SyncEvent::ThreadExit);
    let woken_by = Some(Wake {
        thread: child,
        count: 1,
    });
    writer.execute_sync(main, call, SyncEvent::FutexWait { futex, woken_by });
    writer.execute_sync(
        main,
        call,
        SyncEvent::Syscall {
            number: 1,
            duration,
        },
    );
    writer.execute_sync(main, call, SyncEvent::Join { child });
    writer
}

fn show() -> String {
    let path = file("golden-v1.etr");
    let mut text = String::new();
    for thread in trace::info(&path).unwrap().threads {
        writeln!(text, "{thread:?}").unwrap();
        for line in trace::head(&path, thread.id, 1000).unwrap() {
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

#[test]
fn a_capture_of_version_1_reads_as_it_was_written() {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        write().save(file("golden-v1.etr")).unwrap();
        std::fs::write(file("golden-v1.txt"), show()).unwrap();
    }
    let expected = std::fs::read_to_string(file("golden-v1.txt")).unwrap();
    assert_eq!(show(), expected);
}

#[test]
fn info_adds_up_the_threads() {
    let info = trace::info(file("golden-v1.etr")).unwrap();
    assert_eq!((info.instructions, info.loads, info.stores), (167, 44, 40));
    assert_eq!(info.write_ratio().to_string(), "40/84");
    assert_eq!(info.top_blocks[0].instructions, 40);
    let counts = trace::counts(file("golden-v1.etr")).unwrap();
    assert!(counts.top_blocks.is_empty());
    let all = trace::Info {
        top_blocks: info.top_blocks.clone(),
        ..counts
    };
    assert_eq!(format!("{all:?}"), format!("{info:?}"));
    let missing = trace::head(file("golden-v1.etr"), ThreadId::new(2), 1).unwrap_err();
    assert!(
        missing
            .to_string()
            .ends_with("has 2 threads, so there is no thread 2")
    );
}
