//! Traces of other tools that have the form of good ones: a sentence, or a capture that opens.

use flate2::read::MultiGzDecoder;
use forge::{Choices, change_text};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use std::io::Read;
use std::path::{Path, PathBuf};
use trace::foreign::block::block_requests;
use trace::foreign::{ExportOptions, Format, ImportOptions, export, import};
use trace::{Reg, TraceFile, TraceWriter};
use units::ThreadId;

/// A directory of a test, empty.
fn place(name: &str) -> PathBuf {
    let path =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", env!("CARGO_PKG_NAME")));
    let _ = std::fs::remove_dir_all(&path);
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// A small capture of two threads.
fn good() -> TraceFile {
    let mut writer = TraceWriter::new();
    let threads = [writer.thread(), writer.thread()];
    let load = writer.load(Reg::general(0), Reg::general(6));
    let store = writer.store(Reg::general(1), Reg::general(7));
    let branch = writer.branch();
    for n in 0..20_u64 {
        for thread in threads {
            writer.execute(thread, load, Some((0x5000 + n * 900, 8)), None);
            writer.execute(thread, store, None, Some((0x9_0000 + n * 8, 8)));
            writer.execute(thread, branch, None, None);
        }
    }
    writer.finish()
}

/// The files of a path, alone or in a directory, uncompressed.
fn files(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    if path.is_dir() {
        let mut inner: Vec<PathBuf> = std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        inner.sort();
        return inner.iter().flat_map(|path| files(path)).collect();
    }
    let bytes = std::fs::read(path).unwrap();
    let mut raw = Vec::new();
    match bytes.starts_with(&[0x1f, 0x8b]) {
        true => drop(
            MultiGzDecoder::new(&bytes[..])
                .read_to_end(&mut raw)
                .unwrap(),
        ),
        false => raw = bytes,
    }
    vec![(path.to_owned(), raw)]
}

/// The same kind of bytes with something changed: lines if it is text, else records.
fn changed(bytes: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return change_text(text, choices).into_bytes();
    }
    let mut bytes = bytes.to_vec();
    while !choices.is_over() {
        choices.damage(&mut bytes);
    }
    bytes
}

#[test]
fn a_changed_trace_of_any_tool_is_refused_in_a_sentence_or_imported() {
    let file = good();
    let place = place("forged-foreign");
    let both = |format: &Format| format.imports() && format.exports();
    let mut tried = 0;
    for format in Format::all().filter(both) {
        let path = place.join(format.name());
        // Some formats hold one thread.
        let one = ExportOptions {
            thread: Some(ThreadId::new(0)),
            ..ExportOptions::default()
        };
        export(&file, format, &path, &ExportOptions::default())
            .or_else(|_| export(&file, format, &path, &one))
            .unwrap();
        let whole = files(&path);
        let choices = prop::collection::vec(any::<u8>(), 1..24);
        let mut runner = TestRunner::new(ProptestConfig::with_cases(100));
        let outcome = runner.run(&(0..whole.len(), choices), |(which, bytes)| {
            for (path, bytes) in &whole {
                std::fs::write(path, bytes).unwrap();
            }
            let (changed_path, whole) = &whole[which];
            std::fs::write(changed_path, changed(whole, &mut Choices::new(&bytes))).unwrap();
            match import(&path, format, &ImportOptions::default()) {
                Ok(made) => drop(TraceFile::from_bytes(made.bytes, "made").unwrap()),
                Err(error) => prop_assert!(!error.to_string().contains('\n')),
            }
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{}: {error}", format.name()));
        tried += 1;
    }
    assert!(tried >= 4, "{tried} formats");
}

const BLOCKS: &str = "time_us,op,offset,size\n0,R,4096,8192\n1.5,W,0,512\n3,read,12288,4096\n\
    20,write,65536,1024\n";

#[test]
fn a_changed_block_trace_is_read_or_refused_in_a_sentence() {
    let path = place("forged-blocks").join("trace.csv");
    std::fs::write(&path, BLOCKS).unwrap();
    assert_eq!(
        block_requests(&path).unwrap().filter(Result::is_ok).count(),
        4
    );
    let choices = prop::collection::vec(any::<u8>(), 1..24);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(500));
    let outcome = runner.run(&choices, |bytes| {
        std::fs::write(&path, change_text(BLOCKS, &mut Choices::new(&bytes))).unwrap();
        match block_requests(&path) {
            Ok(requests) => drop(requests.take_while(Result::is_ok).count()),
            Err(error) => prop_assert!(!error.to_string().contains('\n')),
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
