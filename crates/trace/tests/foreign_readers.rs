//! Readers of other tools' traces on what they should not meet, and tables there and back.

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use trace::foreign::block::block_requests;
use trace::foreign::{
    ExportOptions, Format, ImportOptions, Portion, Source, export, import, import_source, recognise,
};
use trace::{AccessKind, Operand, Reg, TraceFile, TraceWriter};
use units::ThreadId;

const FORMATS: [(Format, &[u8]); 4] = [
    (Format::Lackey, include_bytes!("foreign/tiny.lackey")),
    (
        Format::Drmemtrace,
        include_bytes!("foreign/tiny.drmemtrace"),
    ),
    (Format::MqsimCxl, include_bytes!("foreign/tiny.mqsim")),
    (Format::Csv, include_bytes!("foreign/tiny.csv")),
];

fn read(format: Format, bytes: &[u8]) -> Result<TraceFile, String> {
    let source = Source::bytes("given", bytes);
    let imported = import_source(&source, format, &ImportOptions::default());
    let imported = imported.map_err(|error| error.to_string())?;
    Ok(TraceFile::from_bytes(imported.bytes, "given").expect("what was written can be read"))
}

/// A directory of this test's own, removed with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("foreign-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

/// A zip archive with one stored member, and a central directory that is not read.
fn zip(members: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for data in members {
        let mut crc = flate2::Crc::new();
        crc.update(data);
        out.extend(b"PK\x03\x04\x14\0\0\0\0\0\0\0\0\0");
        for word in [crc.sum(), data.len() as u32, data.len() as u32, 0] {
            out.extend(word.to_le_bytes());
        }
        out.extend(*data);
    }
    out.extend(b"PK\x01\x02");
    out
}

#[test]
fn errors_name_file_record_and_byte() {
    let check = |format, text: &[u8], said: &str| {
        let error = read(format, text).map(|_| ()).unwrap_err();
        assert!(
            error.starts_with("given: ") && error.contains(said),
            "{error}"
        );
    };
    let lackey = Format::Lackey;
    check(
        lackey,
        b"I  10,2\n L 20,x\n",
        "record 2 at byte 8 is no line of lackey: \"L 20,x\"",
    );
    check(
        lackey,
        b" L 20,8\n",
        "record 1 at byte 0 is an access before the first instruction",
    );
    check(lackey, b"I  10,16\n", "is an instruction of 16 bytes");
    check(
        lackey,
        b"I  10,2\n S ffffffffffffffff,2\n",
        "beyond the end of memory",
    );
    let mqsim = Format::MqsimCxl;
    check(
        mqsim,
        b"5 0 0 8 1\n4 0 0 8 1\n",
        "record 2 at byte 10 is earlier than the access",
    );
    check(
        mqsim,
        b"5 0 0 8 2\n",
        "record 1 at byte 0 is not `time device address size type`",
    );
    let csv = Format::Csv;
    let head = "thread,instructions,address,size,op\n";
    check(
        csv,
        b"thread,address,size,op\n",
        "has no column instructions or time_ns; it has thread",
    );
    check(csv, b"thread,time,address,size,op\n", "without a unit");
    check(
        csv,
        b"thread,time_ns,address,op\n",
        "has no column size; it has thread, time_ns, a",
    );
    check(
        csv,
        b"# no more\n",
        "record 2 at byte 10 is missing: begin with thread,",
    );
    let row = |row: &str| [head, row].concat().into_bytes();
    check(
        csv,
        &row("0,5,0,8,R\n0,4,0,8,R\n"),
        "record 3 at byte 46 is earlier than the row",
    );
    check(
        csv,
        &row("0,100000001,0,8,R\n"),
        "100000001 instructions after",
    );
    check(
        csv,
        &row("0,5,0,8,X\n"),
        "record 2 at byte 36 is neither a read nor a write",
    );
}

#[test]
fn lackey_shows_branches_by_where_they_go() {
    let classes = |text: &str| {
        let file = read(Format::Lackey, text.as_bytes()).unwrap();
        let mut cursor = file.cursor(ThreadId::new(0));
        let mut words = Vec::new();
        while let Some(piece) = cursor.take() {
            words.push(file.inst(piece.inst()).class.word());
        }
        words.join(" ")
    };
    // To one other place, to a second, and then to the next: it stays what it was found to be.
    let jumps = "I  10,2\nI  20,2\nI  10,2\nI  30,2\nI  10,2\nI  12,2\n";
    assert_eq!(
        classes(jumps),
        "cond-branch cond-branch indirect-jump cond-branch indirect-jump int-alu"
    );
    let through_memory =
        "I  10,6\n L 80,8\nI  40,5\n S 90,8\nI  60,2\n S 90,8\nI  70,1\n L 90,8\nI  62,1\n";
    assert_eq!(
        classes(through_memory),
        "indirect-jump call indirect-call return int-alu"
    );
}

/// A record of drmemtrace.
fn record(kind: u16, size: u16, value: u64) -> Vec<u8> {
    [
        &kind.to_le_bytes()[..],
        &size.to_le_bytes(),
        &value.to_le_bytes(),
    ]
    .concat()
}

#[test]
fn a_drmemtrace_that_is_not_whole_or_not_one_says_so() {
    let head = [record(25, 0, 7), record(22, 4, 1), record(10, 4, 0x1000)].concat();
    let check = |rest: &[Vec<u8>], said: &str| {
        let bytes = [head.clone(), rest.concat()].concat();
        let error = read(Format::Drmemtrace, &bytes).map(|_| ()).unwrap_err();
        assert!(error.contains(said), "{error}");
    };
    check(&[], "record 4 at byte 36 is missing: no footer");
    check(
        &[vec![1, 2]],
        "record 4 at byte 36 is cut short: 2 of 12 bytes are there",
    );
    check(
        &[record(26, 0, 0), record(10, 4, 0)],
        "record 5 at byte 48 stands behind the footer",
    );
    check(&[record(50, 0, 0)], "is of type 50");
    check(
        &[record(24, 4, 1), record(24, 4, 2)],
        "is of process 2, but the first of 1",
    );
    check(&[record(17, 9, 0)], "is a bundle of more than 8");
    check(&[record(25, 0, 7)], "does not begin with a header");
    let said = |bytes: &[u8]| read(Format::Drmemtrace, bytes).map(|_| ()).unwrap_err();
    assert!(said(&record(10, 4, 0)).contains("does not begin with a header"));
    assert!(said(&record(25, 0, 8)).contains("versions 1 to 7"));
    let unnamed = [record(25, 0, 7), record(10, 4, 0)].concat();
    assert!(said(&unnamed).contains("before a record that names its thread"));
}

#[test]
fn a_directory_of_drmemtrace_is_its_threads_packed_in_any_way() {
    let scratch = Scratch::new("directory");
    let thread = |tid: u64, count: u64| {
        let mut records = vec![record(25, 0, 6), record(22, 4, tid), record(24, 4, 9)];
        records.extend((0..count).map(|n| record(10, 4, 0x1000 + 4 * n)));
        records.extend([record(23, 4, tid), record(26, 0, 0)]);
        records.concat()
    };
    scratch.write("trace/drmemtrace.app.9.0001.trace", &thread(11, 2));
    scratch.write("trace/drmemtrace.app.9.0002.trace.gz", &gz(&thread(12, 3)));
    let whole = thread(13, 5);
    let (first, second) = whole.split_at(4 * 12);
    scratch.write(
        "trace/drmemtrace.app.9.0003.trace.zip",
        &zip(&[first, second]),
    );
    scratch.write("trace/cpu_schedule.bin.zip", b"not a trace");
    scratch.write("raw/drmemtrace.app.9.0001.raw", b"not read");
    assert_eq!(recognise(&scratch.0), Some(Format::Drmemtrace));
    let options = ImportOptions::default();
    let imported = import(&scratch.0, Format::Drmemtrace, &options).unwrap();
    let file = TraceFile::from_bytes(imported.bytes, "directory").unwrap();
    let executed: Vec<_> = file
        .threads()
        .iter()
        .map(|thread| thread.instructions)
        .collect();
    assert_eq!(executed, [2, 3, 5]);

    scratch.write("trace/drmemtrace.app.9.0004.trace", &thread(12, 1));
    let error = import(&scratch.0, Format::Drmemtrace, &options)
        .map(|_| ())
        .unwrap_err();
    let error = error.to_string();
    assert!(
        error.contains("0004.trace: record 2 at byte 12 is of thread 12"),
        "{error}"
    );
    scratch.write("trace/drmemtrace.app.9.0005.trace.lz4", b"");
    let error = import(&scratch.0, Format::Drmemtrace, &options)
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("lz4"), "{error}");
}

#[test]
fn a_trace_that_claims_what_no_program_has_is_refused_before_it_fills_the_memory() {
    let mut threads = String::from("thread,instructions,address,size,op\n");
    for thread in 0..4097 {
        threads += &format!("{thread},0,64,8,R\n");
    }
    let error = read(Format::Csv, threads.as_bytes()).err().unwrap();
    assert!(error.contains("record 4098 at byte"), "{error}");
    assert!(
        error.contains("thread number 4097; at most 4096"),
        "{error}"
    );
    let head = [record(25, 0, 7), record(24, 0, 1)].concat();
    let tids = (0..4097).flat_map(|tid| record(22, 0, tid));
    let many: Vec<u8> = head.into_iter().chain(tids).collect();
    let error = read(Format::Drmemtrace, &many).err().unwrap();
    assert!(error.contains("record 4099 at byte"), "{error}");
    let accesses = [b"I  10,2\n".to_vec(), b" L 40,8\n".repeat(4097)].concat();
    let error = read(Format::Lackey, &accesses).err().unwrap();
    assert!(
        error.contains("record 4098 at byte") && error.contains("4096 already"),
        "{error}"
    );
}

#[test]
fn times_at_the_end_of_their_range_do_not_overflow() {
    let mut bytes = Vec::new();
    for time in [0, u64::MAX, u64::MAX - 1, u64::MAX, u64::MAX] {
        bytes.extend(time.to_le_bytes());
        bytes.extend([64, 0, 0, 0, 0, 0, 0, 0, b'R', 8]);
    }
    let options = ImportOptions {
        slowdown_milli: 1,
        ..ImportOptions::default()
    };
    let source = Source::bytes("given", &bytes);
    let imported = import_source(&source, Format::Pinatrace, &options).unwrap();
    let file = TraceFile::from_bytes(imported.bytes, "given").unwrap();
    // The first, a gap that is cut to a million, and the others, the last two of which are one.
    assert_eq!(file.threads()[0].instructions, 1_000_004);
}

#[test]
fn block_traces_are_looked_through_gzip() {
    let scratch = Scratch::new("block");
    let path = scratch.write(
        "t.csv.gz",
        &gz(b"time_ns,offset,size,op\n0,0,512,R\n7,0,0,R\n"),
    );
    let mut requests = block_requests(&path).unwrap();
    assert_eq!(requests.next().unwrap().unwrap().size.get(), 512);
    let error = requests.next().unwrap().unwrap_err().to_string();
    assert!(
        error.contains("t.csv.gz: record 3 at byte 33 moves no byte"),
        "{error}"
    );
    let error = block_requests(Path::new("/nothing/here"))
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("cannot be read"), "{error}");
}

/// What a table holds of a capture: for each thread, its accesses with the number of the
/// instruction that makes them, at the program's addresses.
fn accesses(file: &TraceFile) -> Vec<Vec<(u64, AccessKind, Operand)>> {
    let mut threads = Vec::new();
    for thread in file.threads() {
        let (mut cursor, mut number, mut found) = (file.cursor(thread.id), 0, Vec::new());
        while let Some(piece) = cursor.take() {
            let both = [
                (AccessKind::Load, piece.load()),
                (AccessKind::Store, piece.store()),
            ];
            for (kind, access) in both {
                if let Some(access) = access {
                    let page = file.pages()[access.addr.page().get() as usize].page;
                    let addr = page << 12 | u64::from(access.addr.offset());
                    found.push((number, kind, (addr, access.bytes)));
                }
            }
            number += u64::from(piece.counts());
        }
        threads.push(found);
    }
    threads
}

fn there_and_back(file: &TraceFile, options: &ExportOptions) -> TraceFile {
    let scratch = Scratch::new(&format!("table-{:?}", std::thread::current().id()));
    let path = scratch.0.join("table.csv");
    export(file, Format::Csv, &path, options).unwrap();
    assert_eq!(recognise(&path), Some(Format::Csv));
    let imported = import(&path, Format::Csv, &ImportOptions::default()).unwrap();
    TraceFile::from_bytes(imported.bytes, "table").unwrap()
}

type Step = (usize, Option<Operand>, Option<Operand>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let operand = (0_u64..1 << 20, prop_oneof![Just(1_u8), Just(8), Just(64)]);
    let operand = prop::option::of(operand.prop_map(|(addr, bytes)| (0x7000_0000 + addr, bytes)));
    prop::collection::vec((0_usize..90, operand.clone(), operand), 0..60)
}

fn capture(threads: &[Vec<Step>]) -> TraceFile {
    let mut writer = TraceWriter::new();
    let inst = writer.alu(Reg::general(0), &[]);
    for steps in threads {
        let thread = writer.thread();
        for (gap, load, store) in steps {
            (0..*gap).for_each(|_| writer.execute(thread, inst, None, None));
            writer.execute(thread, inst, *load, *store);
        }
        // A thread whose last instruction accesses nothing would be shorter in a table.
        writer.execute(thread, inst, Some((0x7000_0000, 8)), None);
    }
    writer.finish()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_table_keeps_every_access_and_its_instruction(
        threads in prop::collection::vec(steps(), 1..3),
    ) {
        let file = capture(&threads);
        let back = there_and_back(&file, &ExportOptions::default());
        prop_assert_eq!(accesses(&back), accesses(&file));
        for (one, other) in file.threads().iter().zip(back.threads()) {
            prop_assert_eq!(one.instructions, other.instructions);
        }
        prop_assert_eq!(back.pages(), file.pages());
    }
}

#[test]
fn a_part_of_one_thread_can_be_exported() {
    let load = Some((0x7000_0000, 8));
    let file = capture(&[
        vec![],
        vec![(0, load, None), (3, load, None), (3, load, None)],
    ]);
    let options = ExportOptions {
        skip: Portion::Instructions(1),
        limit: Some(Portion::Instructions(4)),
        thread: Some(ThreadId::new(1)),
        ..ExportOptions::default()
    };
    let back = there_and_back(&file, &options);
    // Of instructions 1 to 4, the last accesses memory.
    let expected = vec![vec![(3, AccessKind::Load, (0x7000_0000, 8))]];
    assert_eq!(accesses(&back), expected);
}

proptest! {
    #[test]
    fn no_bytes_make_a_reader_panic(
        which in 0..FORMATS.len(),
        bytes in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        if let Err(error) = read(FORMATS[which].0, &bytes) {
            prop_assert!(error.starts_with("given: "), "{}", error);
        }
    }

    #[test]
    fn a_changed_trace_is_read_or_its_record_named(
        which in 0..FORMATS.len(),
        at in any::<prop::sample::Index>(),
        soup in prop::collection::vec(prop_oneof![any::<u8>(), b'0'..=b'9'], 1..5),
        packed in any::<bool>(),
    ) {
        let (format, whole) = FORMATS[which];
        let mut bytes = if packed { gz(whole) } else { whole.to_vec() };
        let at = at.index(bytes.len());
        let end = (at + soup.len()).min(bytes.len());
        bytes[at..end].copy_from_slice(&soup[..end - at]);
        if let Err(error) = read(format, &bytes) {
            let named = error.starts_with("given: record ") && error.contains(" at byte ");
            prop_assert!(named || error == "given: holds no instruction", "{}", error);
        }
    }

    #[test]
    fn a_trace_cut_anywhere_is_read_or_its_record_named(
        which in 0..FORMATS.len(),
        at in any::<prop::sample::Index>(),
    ) {
        let (format, whole) = FORMATS[which];
        let at = at.index(whole.len());
        match read(format, &whole[..at]) {
            Ok(_) => prop_assert!(format != Format::Drmemtrace, "a footer is missing"),
            Err(error) => {
                let named = error.starts_with("given: record ");
                prop_assert!(named || error == "given: holds no instruction", "{}", error);
            }
        }
    }
}
