//! What the reference simulator asks of a MacSim trace.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use trace::TraceFile;
use trace::foreign::{
    ExportOptions, Format, ImportOptions, Portion, Source, export, import, import_source,
    import_warmed,
};

/// Bytes of a record.
const RECORD: usize = 80;

fn capture() -> TraceFile {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden-v1.etr");
    TraceFile::open(path.display().to_string()).expect("the capture is good")
}

/// The directory of the test called `name`, and the records of each thread.
fn exported(file: &TraceFile, name: &str, options: &ExportOptions) -> (PathBuf, Vec<Vec<u8>>) {
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("macsim-{name}"));
    drop(std::fs::remove_dir_all(&directory));
    export(file, Format::Macsim, &directory, options).expect("it can be exported");
    let records = |thread: usize| {
        use std::io::Read;
        let path = directory.join(format!("trace_{thread}.raw"));
        let packed = std::fs::File::open(path).expect("it was written");
        let mut out = Vec::new();
        let mut unpacker = flate2::read::MultiGzDecoder::new(packed);
        unpacker.read_to_end(&mut out).expect("it is a gzip file");
        out
    };
    let records = (0..file.threads().len()).map(records).collect();
    (directory, records)
}

/// It decodes an address once, for all threads; it does nothing for a string instruction that says
/// no size; it stops at an access of no bytes; of a written register only the first counts.
#[test]
fn records_are_such_that_the_reference_does_what_they_say() {
    const FLAGS: u8 = 25;
    const STRINGOP: u8 = 76;
    let (_, threads) = exported(&capture(), "records", &ExportOptions::default());
    let mut shapes = BTreeMap::new();
    for record in threads.iter().flat_map(|records| records.chunks(RECORD)) {
        let shape = record[..25].to_vec();
        let known = shapes.entry(&record[56..64]).or_insert(shape.clone());
        assert_eq!(known, &shape, "one address, one instruction");
        assert!(record[19] != STRINGOP);
        assert!(record[23] == 0 || record[72] > 0, "a load has bytes");
        assert!(record[20] == 0 || record[73] > 0, "a store has bytes");
        assert!(
            record[1] < 2 || record[11] != FLAGS,
            "flags come after registers"
        );
    }
    assert!(shapes.len() > 16, "more than the tail");
}

/// The reference executes no thread's last record, and loses a thread that is switched because of
/// one of its last 256: 3000 that do nothing follow, which an import knows and leaves out.
#[test]
fn a_thread_ends_with_a_tail_that_an_import_leaves_out() {
    let file = capture();
    let records = |tail: u64| {
        let options = ExportOptions {
            tail,
            ..ExportOptions::default()
        };
        let (directory, records) = exported(&file, "tail", &options);
        let back = import(&directory, Format::Macsim, &ImportOptions::default());
        (back.expect("it can be imported").bytes, records)
    };
    assert_eq!(ExportOptions::default().tail, 3000);
    let ((same, with), (bytes, without)) = (records(3000), records(0));
    assert!(same == bytes, "an import does not see the tail");
    for (with, without) in with.iter().zip(&without) {
        let (kept, tail) = with.split_at(without.len());
        assert!(kept == without && tail.len() == 3000 * RECORD);
        for record in tail.chunks(RECORD) {
            // No registers, no branch; a NOP, no store, no load.
            assert_eq!((record[0], record[1], record[17]), (0, 0, 0));
            assert_eq!((record[19], record[20], record[23]), (99, 0, 0));
        }
    }
}

#[test]
fn registers_beyond_those_that_a_capture_names_are_told() {
    let record = |sources: u8, targets: u8, pc: u8| {
        let mut bytes = [0; 80];
        (bytes[0], bytes[1]) = (sources, targets);
        for n in 0..sources {
            bytes[2 + usize::from(n)] = 3 + n;
        }
        for n in 0..targets {
            bytes[11 + usize::from(n)] = 3 + n;
        }
        (bytes[19], bytes[24], bytes[56]) = (13, 1, pc);
        bytes
    };
    let notes = |records: [[u8; 80]; 3]| {
        let bytes = records.concat();
        let source = Source::bytes("given", &bytes);
        import_source(&source, Format::Macsim, &Default::default())
            .unwrap()
            .notes
            .join("; ")
    };
    let few = notes([record(4, 3, 1), record(4, 3, 2), record(4, 3, 3)]);
    assert!(!few.contains("make no dependency"), "{few}");
    let many = notes([record(5, 1, 1), record(1, 4, 2), record(5, 1, 1)]);
    assert!(
        many.contains("2 instructions with more than 4 source or 3"),
        "{many}"
    );
}

/// What warms and what is measured, of one capture: `share` of each thread and the rest.
fn parts(file: &TraceFile, name: &str, share: u64) -> (PathBuf, PathBuf) {
    let share = Portion::Share(units::Ratio::percent(share));
    let warms = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("macsim-{name}-warms"));
    drop(std::fs::remove_dir_all(&warms));
    let options = ExportOptions {
        limit: Some(share),
        ..ExportOptions::default()
    };
    export(file, Format::Pinatrace, &warms, &options).expect("it can be exported");
    let options = ExportOptions {
        skip: share,
        ..ExportOptions::default()
    };
    let (measured, _) = exported(file, name, &options);
    (warms, measured)
}

fn instructions(file: &TraceFile) -> Vec<u64> {
    file.threads().iter().map(|t| t.instructions).collect()
}

/// The artifact warms its device with one trace and measures another. Joined, each thread does
/// first what warms, and the capture says how much that is.
#[test]
fn what_warms_comes_before_what_is_measured() {
    let file = capture();
    let (warms, measured) = parts(&file, "joined", 40);
    let options = ImportOptions::default();
    let open = |bytes| TraceFile::from_bytes(bytes, "x").expect("it is good");
    let joined = open(import_warmed(&measured, &warms, &options).unwrap().bytes);
    let alone = import(&measured, Format::Macsim, &options).unwrap();
    let alone = instructions(&open(alone.bytes));
    let before = import(&warms, Format::Pinatrace, &options).unwrap();
    let before = instructions(&open(before.bytes));
    assert_eq!(joined.provenance().warms, before);
    let notes = &joined.provenance().notes;
    assert!(notes[0].starts_with("of what warms: no registers"));
    assert!(
        notes
            .last()
            .is_some_and(|note| !note.starts_with("of what warms"))
    );
    // A thread that runs already is not started again, for which no system call is made up.
    let both: Vec<u64> = before.iter().zip(&alone).map(|(a, b)| a + b).collect();
    let made_up = both[0] - instructions(&joined)[0];
    assert!(made_up < both.len() as u64, "{made_up}");
    assert_eq!(instructions(&joined)[1..], both[1..]);
    let parents = joined.threads().iter().map(|t| t.parent);
    assert!(parents.skip(1).all(|parent| parent.is_some()));
}

/// A thread of which nothing warms starts where the list says.
#[test]
fn a_thread_without_a_file_that_warms_starts_where_the_list_says() {
    let file = capture();
    let (warms, measured) = parts(&file, "lacking", 40);
    let last = file.threads().len() - 1;
    let text = std::fs::read(warms.join("pinatrace.out.0")).unwrap();
    let records = text.chunks(18);
    let kept: Vec<u8> = records
        .filter(|record| !(record[16] == b'F' && record[8] as usize == last))
        .flatten()
        .copied()
        .collect();
    std::fs::write(warms.join("pinatrace.out.0"), kept).unwrap();
    std::fs::remove_file(warms.join(format!("pinatrace.out.{last}"))).unwrap();
    let joined = import_warmed(&measured, &warms, &ImportOptions::default()).unwrap();
    let joined = TraceFile::from_bytes(joined.bytes, "x").unwrap();
    assert_eq!(joined.provenance().warms[last], 0);
    assert!(instructions(&joined)[last] > 0);
}

#[test]
fn a_trace_without_a_list_is_not_joined() {
    let file = capture();
    let (warms, measured) = parts(&file, "listless", 40);
    let options = ImportOptions::default();
    let one = measured.join("trace_0.raw");
    let error = import_warmed(&one, &warms, &options).err().unwrap();
    assert!(error.to_string().contains("trace_0.raw"), "{error}");
    let error = import_warmed(&measured, &measured, &options).err().unwrap();
    assert!(error.to_string().contains("macsim-listless"), "{error}");
}
