//! What is written is read back: against a plain list of what was executed.

use proptest::prelude::*;
use trace::{
    AccessKind, DurationClass, FutexId, Inst, OpClass, Reg, SyncEvent, TraceFile, TraceWriter, Wake,
};
use units::ThreadId;

/// One executed instruction: which of the static ones, load, store.
type Step = (usize, Option<(u64, u8)>, Option<(u64, u8)>);

fn operand() -> impl Strategy<Value = Option<(u64, u8)>> {
    let near = (0_u64..64).prop_map(|n| 0x7000_0000 + n * 8);
    let far = 1_u64..(1 << 46);
    let addr = prop_oneof![4 => near, 1 => far];
    prop::option::of((addr, prop_oneof![Just(1_u8), Just(8), Just(64)]))
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec((0_usize..6, operand(), operand()), 0..400)
}

fn write(threads: &[Vec<Step>]) -> TraceWriter {
    let mut writer = TraceWriter::new();
    let insts: Vec<_> = (0..6)
        .map(|n| writer.alu(Reg::general(n), &[Reg::general(n)]))
        .collect();
    let ids: Vec<_> = threads.iter().map(|_| writer.thread()).collect();
    let longest = threads.iter().map(Vec::len).max().unwrap_or(0);
    for n in 0..longest {
        for (id, steps) in ids.iter().zip(threads) {
            if let Some((inst, load, store)) = steps.get(n) {
                writer.execute(*id, insts[*inst], *load, *store);
            }
        }
    }
    writer
}

fn canonical(file: &TraceFile, addr: u64) -> u64 {
    let at = file
        .pages()
        .iter()
        .position(|p| p.page == addr >> 12)
        .expect("the page is listed");
    (at as u64) << 12 | addr & 0xfff
}

fn check_thread(file: &TraceFile, n: usize, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut cursor = file.cursor(ThreadId::from_index(n));
    for (inst, load, store) in steps {
        let piece = *cursor.peek().expect("every step is there");
        let operand = |access: Option<trace::MemAccess>| access.map(|a| (a.addr.get(), a.bytes));
        let expected =
            |op: &Option<(u64, u8)>| op.map(|(addr, bytes)| (canonical(file, addr), bytes));
        prop_assert_eq!(piece.inst().index(), *inst);
        prop_assert_eq!(operand(piece.load()), expected(load));
        prop_assert_eq!(operand(piece.store()), expected(store));
        prop_assert!(piece.counts() && !piece.taken() && piece.sync().is_none());
        cursor.advance();
    }
    prop_assert!(cursor.peek().is_none() && cursor.error().is_none());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn executed_instructions_are_read_back(threads in prop::collection::vec(steps(), 1..4)) {
        let file = write(&threads).finish();
        for (n, steps) in threads.iter().enumerate() {
            check_thread(&file, n, steps)?;
            prop_assert_eq!(file.threads()[n].instructions, steps.len() as u64);
            let loads = steps.iter().filter(|step| step.1.is_some()).count();
            prop_assert_eq!(file.threads()[n].loads, loads as u64);
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic(
        steps in steps(), at in any::<prop::sample::Index>(), flip in 1_u8..=255, cut in any::<bool>()
    ) {
        let mut bytes = write(&[steps]).into_bytes();
        let at = at.index(bytes.len());
        if cut {
            bytes.truncate(at);
        } else {
            bytes[at] ^= flip;
        }
        let error = TraceFile::from_bytes(bytes, "x.etr").err();
        prop_assert!(error.is_some(), "byte {} is not covered by a checksum", at);
        let sentence = error.expect("there is one").to_string();
        prop_assert!(sentence.starts_with("x.etr: is ") || sentence.contains("version"));
        prop_assert!(!sentence.contains('\n'));
    }

    #[test]
    fn going_back_gives_the_same_pieces_again(
        steps in steps(), moves in prop::collection::vec((1_u64..300, 0_u64..900), 1..20)
    ) {
        let file = write(&[steps]).finish();
        let mut reference = Vec::new();
        let mut straight = file.cursor(ThreadId::new(0));
        while let Some(piece) = straight.take() {
            reference.push(piece);
        }
        let mut cursor = file.cursor(ThreadId::new(0));
        let mut furthest = 0;
        for (ahead, back) in moves {
            for _ in 0..ahead {
                let expected = reference.get(cursor.position() as usize).copied();
                prop_assert_eq!(cursor.take(), expected);
            }
            furthest = cursor.position().max(furthest);
            let oldest = furthest.saturating_sub(1024);
            cursor.rewind_to(cursor.position().saturating_sub(back).max(oldest));
        }
    }
}

#[test]
fn a_thread_of_many_chunks_is_read_in_order_and_can_be_entered_anywhere() {
    let mut writer = TraceWriter::new();
    let thread = writer.thread();
    let loads: Vec<_> = (0..7)
        .map(|n| writer.load(Reg::general(n), Reg::general(n)))
        .collect();
    let total = 200_000_u64;
    let of = |n: u64| loads[(n * n % 7) as usize];
    for n in 0..total {
        writer.execute(thread, of(n), Some((0x10_0000 + n * 8, 8)), None);
    }
    let file = writer.finish();
    for start in [0, 1, 65_535, 65_536, 131_072, total - 1, total, total + 5] {
        let mut cursor = file.cursor(thread);
        cursor.seek(start);
        for n in start..total.min(start + 70_000) {
            let piece = cursor.take().expect("there is more");
            assert_eq!(
                piece.load().expect("all are loads").addr.get(),
                n * 8,
                "from {start}"
            );
            assert_eq!(piece.inst().index() as u64, n * n % 7, "from {start}");
        }
        assert!(start + 70_000 < total || cursor.peek().is_none());
    }
}

#[test]
fn every_flipped_bit_of_a_file_is_found() {
    let steps = (0..20)
        .map(|n| (n % 6, Some((0x7000 + n as u64 * 99, 8)), None))
        .collect();
    let good = write(&[steps]).into_bytes();
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(TraceFile::from_bytes(bad, "f").is_err(), "byte {}", bit / 8);
    }
}

#[test]
fn a_branch_is_taken_when_something_else_follows() {
    let mut writer = TraceWriter::new();
    let thread = writer.thread();
    let top = writer.alu(Reg::general(0), &[]);
    let branch = writer.branch();
    let after = writer.alu(Reg::general(1), &[]);
    for inst in [top, branch, top, branch, after] {
        writer.execute(thread, inst, None, None);
    }
    let mut cursor = writer.finish().cursor(thread);
    let taken: Vec<_> = std::iter::from_fn(|| cursor.take())
        .map(|p| p.taken())
        .collect();
    assert_eq!(taken, [false, true, false, false, false]);
}

#[test]
fn a_repeated_string_operation_counts_once() {
    let mut writer = TraceWriter::new();
    let thread = writer.thread();
    let inst = Inst::new(OpClass::Move, 0, 2)
        .with_memory(true, true)
        .repeated();
    let string = writer.define(inst);
    let after = writer.alu(Reg::general(0), &[]);
    for n in 0..5 {
        writer.execute(thread, string, Some((0x1000 + n, 1)), Some((0x9000 + n, 1)));
    }
    writer.execute(thread, after, None, None);
    let mut cursor = writer.finish().cursor(thread);
    let counts: Vec<_> = std::iter::from_fn(|| cursor.take())
        .map(|p| p.counts())
        .collect();
    assert_eq!(counts, [false, false, false, false, true, true]);
}

#[test]
fn an_instruction_of_many_loads_is_many_pieces_and_counts_once() {
    let mut writer = TraceWriter::new();
    let thread = writer.thread();
    let gather = writer.define(Inst::new(OpClass::Simd, 0, 6).with_memory(true, false));
    let loads: Vec<_> = (0..3000)
        .map(|n| (AccessKind::Load, (0x5000 + n * 100, 4)))
        .collect();
    for _ in 0..3 {
        writer.execute_pieces(thread, gather, &loads);
    }
    let file = writer.finish();
    let mut cursor = file.cursor(thread);
    let pieces: Vec<_> = std::iter::from_fn(|| cursor.take()).collect();
    assert_eq!(pieces.len(), 9000);
    assert_eq!(pieces.iter().filter(|piece| piece.counts()).count(), 3);
    assert!(pieces[2999].counts() && !pieces[2998].counts());
    // Even a block longer than the ring leaves the last 1,024 pieces in it.
    let mut cursor = file.cursor(thread);
    while let Some(piece) = cursor.peek().copied() {
        let at = cursor.position();
        assert_eq!(piece, pieces[at as usize]);
        cursor.rewind_to(at.saturating_sub(1024));
        assert_eq!(
            cursor.take(),
            Some(pieces[at.saturating_sub(1024) as usize])
        );
        while cursor.position() <= at {
            cursor.advance();
        }
    }
}

#[test]
fn edges_between_threads_are_read_back() {
    let mut writer = TraceWriter::new();
    let (main, child) = (writer.thread(), writer.thread());
    let call = writer.syscall();
    let futex = FutexId::new(3);
    let wake = SyncEvent::FutexWake { futex, count: 0 };
    let duration = DurationClass::from_log2(12);
    let wait = |count| SyncEvent::FutexWait {
        futex,
        woken_by: Some(Wake {
            thread: main,
            count,
        }),
    };
    writer.execute_sync(main, call, SyncEvent::ThreadCreate { child });
    writer.execute_sync(main, call, wake);
    writer.execute_sync(
        main,
        call,
        SyncEvent::Syscall {
            number: 1,
            duration,
        },
    );
    writer.execute_sync(main, call, wake);
    writer.execute_sync(child, call, wait(2));
    writer.execute_sync(child, call, wait(9));
    writer.execute_sync(child, call, SyncEvent::ThreadExit);
    writer.execute_sync(main, call, SyncEvent::Join { child });
    let file = writer.finish();
    let events = |thread| {
        let mut cursor = file.cursor(thread);
        std::iter::from_fn(|| cursor.take())
            .map(|p| p.sync().unwrap())
            .collect::<Vec<_>>()
    };
    let woke = |count| SyncEvent::FutexWake { futex, count };
    let call = SyncEvent::Syscall {
        number: 1,
        duration,
    };
    let join = SyncEvent::Join { child };
    assert_eq!(
        events(main),
        [
            SyncEvent::ThreadCreate { child },
            woke(1),
            call,
            woke(2),
            join
        ]
    );
    let never = SyncEvent::FutexWait {
        futex,
        woken_by: None,
    };
    assert_eq!(events(child), [wait(2), never, SyncEvent::ThreadExit]);
    assert_eq!(file.threads()[child.index()].parent, Some(main));
}

#[test]
fn other_files_and_other_versions_are_named_as_such() {
    let sentence = |bytes: &[u8]| {
        let opened = TraceFile::from_bytes(bytes.to_vec(), "f");
        opened.err().expect("it is not a capture").to_string()
    };
    assert!(sentence(b"\x7fELF and so on").contains("is not a capture"));
    assert!(sentence(b"").contains("is not a capture"));
    let good = write(&[vec![(0, None, None)]]).into_bytes();
    assert!(sentence(&good[..12]).contains("incomplete"));
    assert!(sentence(&good[..good.len() - 1]).contains("incomplete"));
    let mut newer = good;
    newer[8] = 2;
    let crc = checksum::crc32c(&newer[..12]).to_le_bytes();
    newer[12..16].copy_from_slice(&crc);
    assert!(sentence(&newer).contains("format version 2"));
}

#[test]
fn top_blocks_add_up_to_all_instructions() {
    let mut writer = TraceWriter::new();
    let (one, two) = (writer.thread(), writer.thread());
    let string = writer.define(Inst::new(OpClass::Move, 0, 2).repeated());
    let others: Vec<_> = (0..4).map(|n| writer.alu(Reg::general(n), &[])).collect();
    for n in 0..300 {
        writer.execute(
            if n % 3 == 0 { one } else { two },
            others[n % 4],
            None,
            None,
        );
        writer.execute(one, string, None, None);
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("top.etr");
    writer.save(&path).unwrap();
    let info = trace::info(&path).unwrap();
    let mut cursor = TraceFile::open(&path).unwrap().cursor(one);
    let counted = std::iter::from_fn(|| cursor.take())
        .filter(|p| p.counts())
        .count();
    // Of three neighbouring iterations two continue.
    assert_eq!(counted, 100 + 100);
    let sum: u64 = info.top_blocks.iter().map(|block| block.instructions).sum();
    assert_eq!(sum, 300 + 100);
}
