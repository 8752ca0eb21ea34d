//! Foreign formats there and back, and what is made of bytes that are none.

use proptest::prelude::*;
use std::collections::BTreeSet;
use std::path::PathBuf;
use trace::foreign::{ExportOptions, Format, ImportOptions, Portion, Source};
use trace::foreign::{export, format_of, import, import_source, recognise};
use trace::{AccessKind, Assembler, Inst, OpClass, Operand, Provenance, Reg, SyncEvent, TraceFile};
use units::ThreadId;

/// A new path for a file or directory of the test called `name`.
fn fresh(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("foreign-{name}"));
    let gone = if path.is_dir() {
        std::fs::remove_dir_all(&path)
    } else {
        std::fs::remove_file(&path)
    };
    drop(gone);
    path
}

/// An executed instruction as far as any format can carry it.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Plain {
    pc: u64,
    len: u8,
    class: OpClass,
    sources: BTreeSet<Reg>,
    writes: BTreeSet<Reg>,
    /// Is a store, virtual address, bytes.
    accesses: Vec<(bool, u64, u8)>,
    taken: bool,
    creates: Option<usize>,
}

fn plain(file: &TraceFile, thread: usize) -> Vec<Plain> {
    let mut cursor = file.cursor(ThreadId::from_index(thread));
    let (mut out, mut accesses) = (Vec::new(), Vec::new());
    let place = |access: trace::MemAccess| {
        file.pages()[(access.addr.get() >> 12) as usize].page << 12
            | u64::from(access.addr.offset())
    };
    while let Some(piece) = cursor.take() {
        accesses.extend(piece.load().map(|load| (false, place(load), load.bytes)));
        accesses.extend(piece.store().map(|store| (true, place(store), store.bytes)));
        if !piece.counts() {
            continue;
        }
        let inst = file.inst(piece.inst());
        let set = |regs: &[Reg]| regs.iter().copied().filter(|r| !r.is_none()).collect();
        out.push(Plain {
            pc: inst.pc,
            len: inst.len,
            class: inst.class,
            sources: set(&[&inst.reads[..], &inst.address_reads[..]].concat()),
            writes: set(&inst.writes),
            accesses: std::mem::take(&mut accesses),
            taken: piece.taken(),
            creates: match piece.sync() {
                Some(SyncEvent::ThreadCreate { child }) => Some(child.index()),
                _ => None,
            },
        });
    }
    assert!(cursor.error().is_none());
    out
}

fn open(bytes: Vec<u8>) -> TraceFile {
    TraceFile::from_bytes(bytes, "imported").expect("an imported capture can be read")
}

/// A static instruction: class, length, registers, loads, whether it stores.
type Shape = (usize, u8, [u8; 4], u8, bool);
/// An executed one: which, addresses of loads and store.
type Step = (usize, [u64; 3]);

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    let register = prop_oneof![0_u8..4, 5_u8..48, 49_u8..58];
    let shape = (
        0..OpClass::ALL.len(),
        1_u8..16,
        prop::array::uniform4(register),
        0_u8..3,
        any::<bool>(),
    );
    prop::collection::vec(shape, 1..12)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let addr =
        || prop_oneof![3 => (0_u64..512).prop_map(|n| 0x7000_0000 + n * 8), 1 => 1_u64..1 << 46];
    prop::collection::vec((0_usize..12, [addr(), addr(), addr()]), 3..120)
}

/// A capture of threads that the first one starts, one after each of its first instructions.
fn capture(shapes: &[Shape], threads: &[Vec<Step>]) -> TraceFile {
    let mut out = Assembler::new();
    let mut pc = 0x40_0000;
    let mut known = Vec::new();
    for (class, len, registers, loads, stores) in shapes {
        let class = OpClass::ALL[*class];
        let bare = matches!(class, OpClass::Fence | OpClass::Syscall);
        let regs: Vec<_> = registers.iter().map(|n| reg(*n)).collect();
        let (loads, stores) = if bare { (0, false) } else { (*loads, *stores) };
        let mut inst = Inst::new(class, pc, *len).with_memory(loads > 0, stores);
        if !bare {
            inst = inst
                .reading(&regs[..2])
                .writing(&[Reg::general(3), regs[3]]);
            inst = if loads > 0 || stores {
                inst.addressing(&[Reg::general(6)])
            } else {
                inst
            };
        }
        known.push((out.intern(inst, "x"), loads, stores));
        pc += u64::from(*len);
    }
    let call = out.intern(Inst::new(OpClass::Syscall, pc, 2), "syscall");
    let ids: Vec<_> = threads.iter().map(|_| out.thread()).collect();
    for (n, (id, steps)) in ids.iter().zip(threads).enumerate() {
        let mut children = if n == 0 { ids[1..].iter() } else { [].iter() };
        for (which, addrs) in steps {
            let (inst, loads, stores) = known[which % known.len()];
            let load = |n: u8| (AccessKind::Load, (addrs[usize::from(n)], 8));
            let mut accesses: Vec<(AccessKind, Operand)> = (0..loads).map(load).collect();
            accesses.extend(stores.then_some((AccessKind::Store, (addrs[2], 4))));
            out.execute(*id, inst, &accesses);
            if let Some(child) = children.next() {
                out.create(*id, call, *child);
            }
        }
    }
    open(out.into_bytes(Provenance::default()))
}

fn reg(number: u8) -> Reg {
    match number {
        n @ 0..=15 => Reg::general(n),
        n @ 16..=47 => Reg::vector(n - 16),
        49 => Reg::X87,
        n => Reg::mask(n - 50),
    }
}

fn there_and_back(file: &TraceFile, format: Format, name: &str) -> (TraceFile, Vec<String>) {
    let path = fresh(name);
    export(file, format, &path, &ExportOptions::default()).expect("it can be exported");
    let imported = import(&path, format, &ImportOptions::default()).expect("it can be imported");
    (open(imported.bytes), imported.notes)
}

/// The accesses by lines: what the reference's warm-up knows of them.
fn by_lines(accesses: &[(bool, u64, u8)]) -> Vec<(bool, u64, u8)> {
    let lines = |&(is_store, addr, bytes): &(bool, u64, u8)| {
        let last = addr + u64::from(bytes).max(1) - 1;
        (addr / 64..=last / 64).map(move |line| (is_store, line * 64, 64))
    };
    accesses.iter().flat_map(lines).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// All but the split of sources into data and addresses.
    #[test]
    fn macsim_carries_every_instruction(
        shapes in shapes(), threads in prop::collection::vec(steps(), 1..4)
    ) {
        let file = capture(&shapes, &threads);
        let (back, _) = there_and_back(&file, Format::Macsim, "macsim-there");
        prop_assert_eq!(back.threads().len(), file.threads().len());
        prop_assert_eq!(back.pages(), file.pages());
        for thread in 0..file.threads().len() {
            prop_assert_eq!(back.threads()[thread].parent, file.threads()[thread].parent);
            prop_assert_eq!(plain(&back, thread), plain(&file, thread));
        }
    }

    /// Lines accessed, their kinds, their distance in instructions, and who starts whom; not the
    /// instructions, nor what stands before the first access and after the last.
    #[test]
    fn pinatrace_carries_every_access_and_the_time_between(
        shapes in shapes(), threads in prop::collection::vec(steps(), 1..4)
    ) {
        let file = capture(&shapes, &threads);
        let accesses = |file: &TraceFile, thread: usize| {
            let all = plain(file, thread);
            let mut found = Vec::new();
            let first = all.iter().position(|i| !i.accesses.is_empty() || i.creates.is_some());
            for (n, inst) in all.iter().enumerate().skip(first.unwrap_or(0)) {
                if !inst.accesses.is_empty() || inst.creates.is_some() {
                    found.push((n - first.unwrap_or(0), by_lines(&inst.accesses), inst.creates));
                }
            }
            found
        };
        // A thread that accesses nothing is in the directory, and not in the capture.
        if (0..file.threads().len()).any(|thread| accesses(&file, thread).is_empty()) {
            return Ok(());
        }
        let path = fresh("pinatrace-there");
        export(&file, Format::Pinatrace, &path, &ExportOptions::default()).expect("exported");
        let back = open(import(&path, Format::Pinatrace, &ImportOptions::default()).expect("imported").bytes);
        for thread in 0..file.threads().len() {
            prop_assert_eq!(accesses(&back, thread), accesses(&file, thread));
        }
    }

    /// Addresses of instructions and accesses, and branches. Lengths only up to what follows.
    #[test]
    fn champsim_carries_addresses_and_branches(shapes in shapes(), steps in steps()) {
        let file = capture(&shapes, &[steps]);
        let (back, notes) = there_and_back(&file, Format::Champsim, "champsim-there.xz");
        prop_assert!(notes.iter().any(|note| note.contains("8 bytes")));
        let (expected, found) = (plain(&file, 0), plain(&back, 0));
        prop_assert_eq!(found.len(), expected.len());
        for (n, (found, expected)) in found.iter().zip(&expected).enumerate() {
            prop_assert_eq!(found.pc, expected.pc);
            let places = |inst: &Plain| inst.accesses.iter().map(|a| (a.0, a.1)).collect::<Vec<_>>();
            prop_assert_eq!(places(found), places(expected));
            prop_assert_eq!(found.class.is_branch(), expected.class.is_branch());
            if expected.class.is_branch() {
                prop_assert_eq!(found.class, expected.class);
                // The last outcome has nothing to show it.
                prop_assert!(found.taken == expected.taken || n + 1 == places(found).len() || n + 1 == file.threads()[0].instructions as usize);
            }
        }
    }

    #[test]
    fn no_bytes_make_an_importer_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..600), pack in any::<bool>()
    ) {
        let bytes = if pack { gz(&bytes) } else { bytes };
        for format in Format::all().filter(|format| format.imports()) {
            judge(&bytes, format)?;
        }
    }

    #[test]
    fn a_damaged_trace_is_read_or_named_with_its_place(
        shapes in shapes(), steps in steps(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let file = capture(&shapes, &[steps]);
        for (format, inner) in [
            (Format::Macsim, "trace_0.raw"),
            (Format::Pinatrace, "pinatrace.out.0"),
            (Format::Champsim, ""),
        ] {
            let path = fresh(&format!("damaged-{}", format.name()));
            export(&file, format, &path, &ExportOptions::default()).expect("it can be exported");
            let path = if inner.is_empty() { path } else { path.join(inner) };
            let good = std::fs::read(path).expect("it was written");
            // Both the packed bytes and the records themselves.
            for mut bytes in [good.clone(), unpacked(&good)] {
                for (at, value) in &damage {
                    if !bytes.is_empty() {
                        let at = at.index(bytes.len());
                        bytes[at] = *value;
                    }
                }
                judge(&bytes, format)?;
                bytes.truncate(cut.index(bytes.len() + 1));
                judge(&bytes, format)?;
            }
        }
    }
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("memory can be written");
    out.finish().expect("memory can be written")
}

fn unpacked(bytes: &[u8]) -> Vec<u8> {
    use std::io::Read;
    let mut out = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(bytes);
    if decoder.read_to_end(&mut out).is_err() {
        return bytes.to_vec();
    }
    out
}

/// What `bytes` are taken for: a capture that reads back, or one sentence that names the file, and
/// the record if one is to blame.
fn judge(bytes: &[u8], format: Format) -> Result<(), TestCaseError> {
    match import_source(
        &Source::bytes("x.in", bytes),
        format,
        &ImportOptions::default(),
    ) {
        Ok(imported) => {
            let file = open(imported.bytes);
            for thread in 0..file.threads().len() {
                plain(&file, thread);
            }
        }
        Err(error) => {
            let sentence = error.to_string();
            prop_assert!(!sentence.contains('\n'));
            let whole = sentence == "x.in: holds no instruction" || error.record == 0;
            let placed = sentence.starts_with(&format!(
                "x.in: record {} at byte {} ",
                error.record, error.offset
            ));
            prop_assert!(whole || placed, "{}", sentence);
        }
    }
    Ok(())
}

#[test]
fn a_window_is_exported_exactly() {
    let shapes = [
        (3, 4, [0, 1, 2, 3], 1, false),
        (11, 2, [0, 1, 2, 3], 0, false),
    ];
    let steps: Vec<Step> = (0..200)
        .map(|n| (n % 2, [0x10_0000 + n as u64 * 64, 0, 0]))
        .collect();
    let file = capture(&shapes, &[steps.clone(), steps[..50].to_vec()]);
    let all = plain(&file, 0);
    let path = fresh("window");
    let options = ExportOptions {
        skip: Portion::Share("25%".parse().expect("a share")),
        limit: Some(Portion::Instructions(40)),
        ..ExportOptions::default()
    };
    export(&file, Format::Macsim, &path, &options).expect("it can be exported");
    let back = open(
        import(&path, Format::Macsim, &ImportOptions::default())
            .expect("imported")
            .bytes,
    );
    // 201 instructions, one of which creates: a quarter is 50. The other thread ran already.
    let found = plain(&back, 0);
    assert_eq!(found.len(), 40);
    assert_eq!(found[..39], all[50..89]);
    let other = plain(&back, 1);
    assert_eq!((other.len(), back.threads()[1].parent), (38, None));
}

#[test]
fn a_macsim_directory_is_recognised_and_the_others_ask_for_their_name() {
    let file = capture(
        &[(3, 4, [0, 1, 2, 3], 1, false)],
        &[vec![(0, [64, 0, 0]); 9]],
    );
    let directory = fresh("recognised");
    export(&file, Format::Macsim, &directory, &ExportOptions::default()).expect("exported");
    assert_eq!(recognise(&directory), Some(Format::Macsim));
    assert_eq!(
        recognise(&directory.join("trace.txt")),
        Some(Format::Macsim)
    );
    let raw = directory.join("trace_0.raw");
    assert_eq!(recognise(&raw), None);
    let error = format_of(&raw, None)
        .expect_err("it has no mark")
        .to_string();
    assert!(
        error.contains("trace_0.raw: is in no format") && error.contains("--format"),
        "{error}"
    );
    let named = format_of(&raw, Some(Format::Macsim)).expect("it was named");
    let one = import(&raw, named, &ImportOptions::default()).expect("one thread alone");
    assert_eq!(open(one.bytes).threads()[0].instructions, 9);
}

#[test]
fn a_malformed_record_is_named_with_file_record_and_offset() {
    let file = capture(
        &[(3, 4, [0, 1, 2, 3], 1, false)],
        &[vec![(0, [64, 0, 0]); 9]],
    );
    let directory = fresh("malformed");
    export(&file, Format::Macsim, &directory, &ExportOptions::default()).expect("exported");
    let raw = directory.join("trace_0.raw");
    let mut records = unpacked(&std::fs::read(&raw).expect("it was written"));
    records[3 * 80 + 23] = 7;
    std::fs::write(&raw, gz(&records)).expect("it can be written");
    let error = import(&directory, Format::Macsim, &ImportOptions::default());
    let sentence = error.err().expect("7 loads do not fit").to_string();
    assert!(
        sentence.ends_with(
            "malformed/trace_0.raw: record 4 at byte 240 has 7 loads, and 2 is the most"
        ),
        "{sentence}"
    );
}

#[test]
fn a_list_of_threads_that_is_cut_or_lies_is_an_error() {
    for (text, problem) in [
        ("x86 1.3\n2\n0 0\n", "the number of thread 1 is missing"),
        ("x86 1.2\n1\n0 0\n", "the version is 1.2"),
        ("x86 1.3\nmany\n", "the number of threads is `many`"),
        ("x86 1.3\n0\n", "it lists no thread"),
        ("x86 1.3\n1\n0 0\n", "cannot be read"),
    ] {
        let directory = fresh("list");
        std::fs::create_dir(&directory).expect("it can be made");
        std::fs::write(directory.join("trace.txt"), text).expect("it can be written");
        let error = import(&directory, Format::Macsim, &ImportOptions::default());
        let sentence = error.err().expect("the list is wrong").to_string();
        assert!(sentence.contains(problem), "{sentence}");
    }
}

#[test]
fn threads_that_start_each_other_in_a_circle_are_refused() {
    let record = |time: u64, addr: u64, kind: u8, bytes: u8| {
        let mut out = [time.to_le_bytes(), addr.to_le_bytes()].concat();
        out.extend([kind, bytes]);
        out
    };
    let directory = fresh("circle");
    std::fs::create_dir(&directory).expect("it can be made");
    let fork = |child| [record(5, 4096, b'R', 8), record(9, child, b'F', 0)].concat();
    std::fs::write(directory.join("pinatrace.out.0"), fork(1)).expect("it can be written");
    std::fs::write(directory.join("pinatrace.out.1"), fork(0)).expect("it can be written");
    let error = import(&directory, Format::Pinatrace, &ImportOptions::default());
    let sentence = error.err().expect("neither can run first").to_string();
    assert!(
        sentence.ends_with("out.1: record 2 at byte 18 starts thread 0, which runs already"),
        "{sentence}"
    );
}
