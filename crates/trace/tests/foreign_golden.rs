//! Tiny traces of other tools, each beside the capture that it becomes, as text.
//!
//! `tiny.lackey` was recorded by Valgrind 3.19 from twenty instructions of assembly with a repeated
//! store, a loop, calls, a locked increment and a system call.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use trace::foreign::{Dependencies, Format, ImportOptions, import, recognise};
use trace::{MemAccess, TraceFile};

fn place(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/foreign")
        .join(name)
}

/// Every piece of a capture, one line each: address, class, accesses at the program's addresses.
fn text(file: &TraceFile) -> String {
    let mut out = String::new();
    for thread in file.threads() {
        let mut cursor = file.cursor(thread.id);
        let (number, instructions) = (thread.id.get(), thread.instructions);
        writeln!(out, "thread {number}: {instructions} instructions").unwrap();
        while let Some(piece) = cursor.take() {
            let inst = file.inst(piece.inst());
            write!(out, "{:x} {}", inst.pc, inst.class.word()).unwrap();
            for (word, access) in [("load", piece.load()), ("store", piece.store())] {
                if let Some(access) = access {
                    write!(out, " {word} {:x},{}", address(file, access), access.bytes).unwrap();
                }
            }
            out += if piece.taken() { " taken" } else { "" };
            out += if piece.counts() { "\n" } else { " …\n" };
        }
        assert_eq!(cursor.error(), None);
    }
    out
}

fn address(file: &TraceFile, access: MemAccess) -> u64 {
    let page = file.pages()[access.addr.page().get() as usize];
    page.page << 12 | u64::from(access.addr.offset())
}

fn check(name: &str, format: Format) -> TraceFile {
    let path = place(name);
    let told = format.is_recognised().then_some(format);
    assert_eq!(recognise(&path), told, "{name}");
    let imported = import(&path, format, &ImportOptions::default()).unwrap();
    assert!(!imported.notes.is_empty());
    let file = TraceFile::from_bytes(imported.bytes, name).unwrap();
    let golden = place(&format!("{name}.txt"));
    let found = text(&file);
    let expected = std::fs::read_to_string(&golden).unwrap_or_default();
    if found != expected {
        let seen = std::env::temp_dir().join(format!("{name}.txt"));
        std::fs::write(&seen, &found).unwrap();
        panic!(
            "{name} becomes {}, not {}",
            seen.display(),
            golden.display()
        );
    }
    file
}

#[test]
fn lackey() {
    let file = check("tiny.lackey", Format::Lackey);
    // 36 fetches, of which three are iterations of the store that another one follows.
    assert_eq!(file.threads()[0].instructions, 36 - 3);
}

/// Written field by field from the layout in `macsim/record.rs`, one thread plain and one packed.
#[test]
fn macsim() {
    let file = check("tiny.macsim", Format::Macsim);
    // The second thread starts with the system call, the third instruction of the first.
    assert_eq!(file.threads()[1].parent, Some(file.threads()[0].id));
    let mut main = file.cursor(file.threads()[0].id);
    let events: Vec<_> = std::iter::from_fn(|| main.take())
        .map(|p| p.sync().is_some())
        .collect();
    assert_eq!(events, [false, false, true, false, false, false, false]);
    // `add [rbx], rax` forms its address from rbx and rax, which are both only read.
    let update = file
        .insts()
        .iter()
        .find(|inst| inst.pc == 0x40_1008)
        .unwrap();
    assert_eq!(
        update.address_reads[..2],
        [trace::Reg::general(3), trace::Reg::general(0)]
    );
    // `mov rax, [rbx]` reads no data, `call` and `ret` have no dependency on the stack pointer.
    let load = file
        .insts()
        .iter()
        .find(|inst| inst.pc == 0x40_1000)
        .unwrap();
    assert_eq!(
        (load.reads[0], load.writes[0]),
        (trace::Reg::NONE, trace::Reg::general(0))
    );
    let call = file
        .insts()
        .iter()
        .find(|inst| inst.pc == 0x40_2000)
        .unwrap();
    assert_eq!(
        (call.reads[0], call.address_reads[0]),
        (trace::Reg::NONE, trace::Reg::NONE)
    );
}

/// 55 ns are three instructions, so the store is the fourth and the fork the fifth; thread 7's
/// first load comes 37 ns, two instructions, after the fork.
#[test]
fn pinatrace() {
    let file = check("tiny.pinatrace", Format::Pinatrace);
    let instructions: Vec<_> = file.threads().iter().map(|t| t.instructions).collect();
    assert_eq!(instructions, [6, 3]);
}

#[test]
fn champsim() {
    check("tiny.champsim", Format::Champsim);
}

#[test]
fn mqsim_cxl() {
    check("tiny.mqsim", Format::MqsimCxl);
}

#[test]
fn csv_by_instructions_and_tsv_by_time() {
    check("tiny.csv", Format::Csv);
    check("tiny.tsv", Format::Csv);
}

#[test]
fn drmemtrace() {
    check("tiny.drmemtrace", Format::Drmemtrace);
}

#[test]
fn a_chain_makes_every_load_depend_on_the_one_before() {
    let options = ImportOptions {
        dependencies: Dependencies::Chain,
        ..ImportOptions::default()
    };
    let imported = import(&place("tiny.lackey"), Format::Lackey, &options).unwrap();
    assert!(imported.notes[0].contains("dependencies = chain"));
    let file = TraceFile::from_bytes(imported.bytes, "tiny").unwrap();
    for inst in file.insts() {
        let depends = !inst.address_reads[0].is_none();
        assert_eq!(depends, inst.loads() || inst.stores(), "{inst:?}");
        assert_eq!(!inst.writes[0].is_none(), inst.loads(), "{inst:?}");
    }
    assert!(file.provenance().notes[0].contains("dependencies = chain"));
}
