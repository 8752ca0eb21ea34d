//! Exports that cannot be: each is refused with one sentence, and leaves everything as it was.

use std::path::{Path, PathBuf};
use trace::foreign::{ExportOptions, Format, Portion, export};
use trace::{AccessKind, Assembler, Inst, OpClass, Operand, Provenance, Reg, TraceFile};
use units::{Ratio, ThreadId};

/// A new path for a file or directory of the test called `name`.
fn fresh(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("export-{name}"));
    let gone = if path.is_dir() {
        std::fs::remove_dir_all(&path)
    } else {
        std::fs::remove_file(&path)
    };
    drop(gone);
    path
}

/// A capture of threads that load nine times.
fn capture(threads: usize) -> TraceFile {
    let mut out = Assembler::new();
    let load = Inst::new(OpClass::IntAlu, 0x40_0000, 4)
        .with_memory(true, false)
        .writing(&[Reg::general(3)]);
    let load = out.intern(load, "x");
    let call = out.intern(Inst::new(OpClass::Syscall, 0x40_0004, 2), "syscall");
    let ids: Vec<_> = (0..threads).map(|_| out.thread()).collect();
    for id in &ids {
        let accesses: [(AccessKind, Operand); 1] = [(AccessKind::Load, (64, 8))];
        (0..9).for_each(|_| out.execute(*id, load, &accesses));
    }
    for child in &ids[1..] {
        out.create(ids[0], call, *child);
    }
    TraceFile::from_bytes(out.into_bytes(Provenance::default()), "x").expect("it can be read")
}

/// The export fails with a sentence that names the destination, and writes nothing.
fn refused(file: &TraceFile, format: Format, path: &Path, options: &ExportOptions, part: &str) {
    let error = export(file, format, path, options).expect_err("it cannot be");
    assert_eq!(error.file, path.display().to_string());
    assert!(error.to_string().contains(part), "{error}");
    assert!(!path.exists() && !path.with_extension("part").exists());
}

#[test]
fn an_export_of_nothing_is_refused() {
    let file = capture(1);
    let path = fresh("nothing");
    let part = "would hold no instruction";
    for (skip, limit) in [
        (Portion::Instructions(9), None),
        (Portion::Share(Ratio::percent(200)), None),
        (
            Portion::Instructions(0),
            Some(Portion::Share(Ratio::percent(0))),
        ),
    ] {
        let options = ExportOptions {
            skip,
            limit,
            ..ExportOptions::default()
        };
        refused(&file, Format::Csv, &path, &options, part);
    }
}

#[test]
fn an_export_leaves_alone_what_has_its_temporary_name() {
    let file = capture(1);
    let path = fresh("in-the-way");
    let mine = path.with_extension("part");
    std::fs::write(&mine, "mine").expect("it can be written");
    let error = export(&file, Format::Csv, &path, &ExportOptions::default());
    let error = error.expect_err("it is in the way").to_string();
    assert!(error.contains("cannot be written while"), "{error}");
    assert_eq!(std::fs::read(&mine).expect("it is there"), b"mine");
    std::fs::remove_file(&mine).expect("it was there");
}

#[test]
fn an_export_over_a_directory_and_of_what_a_format_cannot_hold_is_refused() {
    let file = capture(2);
    let path = fresh("refused");
    let error = export(&file, Format::Champsim, &path, &ExportOptions::default());
    assert!(
        error
            .expect_err("two threads")
            .to_string()
            .contains("choose one with --thread")
    );
    assert!(!path.exists() && !path.with_extension("part").exists());
    let one = ExportOptions {
        thread: Some(ThreadId::new(1)),
        ..ExportOptions::default()
    };
    refused(
        &file,
        Format::Pinatrace,
        &path,
        &one,
        "as pinatrace holds all threads",
    );
    let none = ExportOptions {
        thread: Some(ThreadId::new(2)),
        ..one
    };
    refused(&file, Format::Champsim, &path, &none, "2 threads, and none");
    export(&file, Format::Champsim, &path, &one).expect("one thread fits");
    std::fs::remove_file(&path).expect("it was written");
    std::fs::create_dir(&path).expect("it can be made");
    let error = export(&file, Format::Macsim, &path, &ExportOptions::default());
    assert!(
        error
            .expect_err("it is there")
            .to_string()
            .contains("is a directory that exists")
    );
}
