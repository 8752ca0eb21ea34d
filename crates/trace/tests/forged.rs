//! Captures with right checksums and wrong contents: refused in a sentence, or read to their end.

use forge::Choices;
use forge::etr::{Capture, varint};
use proptest::prelude::*;
use trace::{DurationClass, Fault, Inst, OpClass, Reg, SyncEvent, TraceFile, TraceWriter};
use units::ThreadId;

/// A small capture with loads, stores, a repeated instruction, system calls and two threads.
fn good() -> Vec<u8> {
    let mut writer = TraceWriter::new();
    let (main, child) = (writer.thread(), writer.thread());
    let call = writer.syscall();
    let load = writer.load(Reg::general(0), Reg::general(6));
    let store = writer.store(Reg::general(1), Reg::general(7));
    let string = writer.define(Inst::new(OpClass::Move, 0, 2).repeated());
    let nop = writer.alu(Reg::general(1), &[]);
    writer.execute_sync(main, call, SyncEvent::ThreadCreate { child });
    for n in 0..50_u64 {
        let thread = if n % 3 == 0 { child } else { main };
        writer.execute(thread, load, Some((0x5000 + n * 900, 8)), None);
        writer.execute(thread, string, None, None);
        writer.execute(thread, store, None, Some((0x9_0000 + n * 8, 8)));
        writer.execute(thread, nop, None, None);
    }
    let duration = DurationClass::from_log2(9);
    let other = SyncEvent::Syscall {
        number: 3,
        duration,
    };
    writer.execute_sync(main, call, other);
    writer.execute_sync(child, call, SyncEvent::ThreadExit);
    writer.into_bytes()
}

/// The least capture: an instruction without accesses that is executed twice, always as predicted.
fn least() -> Vec<u8> {
    let mut writer = TraceWriter::new();
    let thread = writer.thread();
    let nop = writer.alu(Reg::general(0), &[]);
    writer.execute(thread, nop, None, None);
    writer.execute(thread, nop, None, None);
    writer.into_bytes()
}

fn refusal(capture: &Capture) -> String {
    match TraceFile::from_bytes(capture.bytes(), "f") {
        Ok(_) => panic!("it is opened: {capture:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn what_is_taken_apart_and_put_together_is_the_same() {
    let file = good();
    assert_eq!(Capture::of(&file).bytes(), file);
}

#[test]
fn a_chunk_of_more_blocks_than_any_writer_makes_is_refused() {
    let mut forged = Capture::of(&least());
    forged.chunks[0].counts = [u32::MAX, u32::MAX, 0, 0];
    assert!(forged.bytes().len() < 700);
    assert!(refusal(&forged).contains("damaged in its instruction stream at byte 16"));
    // As many as may be, all as predicted.
    let most = 2 * trace::chunk::MOST_BLOCKS;
    forged.chunks[0].counts = [most, most, 0, 0];
    let file = TraceFile::from_bytes(forged.bytes(), "f").unwrap();
    assert_eq!(file.threads()[0].instructions, u64::from(most));
    forged.chunks[0].counts = [most + 1, most + 1, 0, 0];
    refusal(&forged);
}

#[test]
fn counts_that_contradict_their_columns_are_refused() {
    let capture = Capture::of(&good());
    for (chunk, count) in
        (0..capture.chunks.len()).flat_map(|chunk| (0..4).map(move |n| (chunk, n)))
    {
        let right = capture.chunks[chunk].counts[count];
        for wrong in [0, 1, right - 1, right + 1, u32::MAX] {
            let mut forged = capture.clone();
            forged.chunks[chunk].counts[count] = wrong;
            let said = refusal(&forged);
            assert!(said.contains("record it again"), "{said}");
        }
    }
    let mut forged = capture.clone();
    forged.chunks[0].counts[2] += 5;
    let (said, found) = (forged.chunks[0].counts[2], capture.chunks[0].counts[2]);
    let sentence = format!(
        "f: says at byte 16 that there are {said} loads where its columns have {found}; record it \
         again"
    );
    assert_eq!(refusal(&forged), sentence);
}

#[test]
fn columns_that_are_longer_or_shorter_than_their_counts_are_refused() {
    let capture = Capture::of(&good());
    for column in 0..4 {
        let mut longer = capture.clone();
        longer.chunks[0].columns[column].extend(varint(1));
        refusal(&longer);
        let mut shorter = capture.clone();
        shorter.chunks[0].columns[column].pop();
        refusal(&shorter);
        let mut told = capture.clone();
        told.chunks[0].excess[column] = 1;
        refusal(&told);
    }
}

#[test]
fn an_access_on_a_page_that_is_not_listed_is_refused() {
    let mut forged = Capture::of(&good());
    let (_, pages) = &mut forged.sections[1];
    assert_eq!(
        pages[..4],
        [12, 0, 5, 11],
        "twelve pages, eleven of them from page 5 on"
    );
    (pages[0], pages[3]) = (11, 10);
    assert!(refusal(&forged).contains("damaged in its instruction stream"));
}

#[test]
fn an_event_outside_its_chunk_or_on_an_access_is_refused() {
    let capture = Capture::of(&good());
    let events = &capture.chunks[0].columns[3];
    assert_eq!(events[..2], [0, 1], "the first block creates a thread");
    for block in [1, capture.chunks[0].counts[0] as u8] {
        let mut forged = capture.clone();
        forged.chunks[0].columns[3][0] = block;
        refusal(&forged);
    }
}

#[test]
fn a_chunk_that_does_not_follow_the_one_before_is_refused() {
    let mut forged = Capture::of(&good());
    forged.chunks[0].before = 7;
    assert!(refusal(&forged).contains("7 instructions before it where its columns have 0"));
    forged.chunks[0].before = 0;
    let again = forged.chunks[0].clone();
    forged.chunks.push(again);
    refusal(&forged);
}

#[test]
fn few_bytes_that_ask_for_much_memory_are_refused() {
    let capture = Capture::of(&good());
    // 2^30 pages in one run.
    let mut pages = capture.clone();
    pages.sections[1].1 = [varint(1 << 30), varint(0), varint(0), varint(1 << 30)].concat();
    assert!(refusal(&pages).contains("page list"));
    // Variants of one block of 65,536 instructions.
    let mut variants = Capture::of(&least());
    variants.sections[0].1 = big_dictionary(300);
    variants.chunks[0].counts[1] = 2 << 16;
    assert!(refusal(&variants).contains("record a part of the program"));
    variants.sections[0].1 = big_dictionary(2);
    let file = TraceFile::from_bytes(variants.bytes(), "f").unwrap();
    assert_eq!(file.threads()[0].instructions, 2 << 16);
    // More chunks than the file has bytes for, and streams without end.
    let mut lengths = capture.clone();
    lengths.more_lengths = vec![0; 100_000];
    assert!(refusal(&lengths).contains("thread list"));
    let mut streams = capture;
    streams.sections[2].1 = varint(70_000);
    let stream = |n: u64| [varint(n), varint(0), varint(0)].concat();
    streams.sections[2].1.extend((0..70_000).flat_map(stream));
    assert!(refusal(&streams).contains("thread list"));
}

/// One block of 65,536 instructions that do nothing, in so many variants without accesses.
fn big_dictionary(variants: u64) -> Vec<u8> {
    const INSTRUCTIONS: usize = 1 << 16;
    let good = Capture::of(&least()).sections[0].1.clone();
    // Behind the mnemonics: one instruction of 15 bytes and more, one block, one variant.
    let mut bytes = [varint(1), varint(1), b"n".to_vec()].concat();
    let one = instruction(&good);
    bytes.extend(varint(INSTRUCTIONS as u64));
    bytes.extend([0].repeat(INSTRUCTIONS));
    for field in one {
        bytes.extend([field].repeat(INSTRUCTIONS));
    }
    bytes.extend(varint(1));
    bytes.extend(varint(INSTRUCTIONS as u64));
    bytes.extend(varint(variants));
    bytes.extend([0, 0].repeat(variants as usize));
    bytes
}

/// The fields of the only instruction of a dictionary, without its address.
fn instruction(dictionary: &[u8]) -> Vec<u8> {
    // Behind it: one block of one instruction; one variant of block 0 without accesses.
    let end = dictionary.len() - 5;
    assert_eq!(dictionary[end..], [1, 1, 1, 0, 0]);
    dictionary[end - 14..end].to_vec()
}

#[test]
fn a_stream_that_is_there_twice_is_refused() {
    let mut forged = Capture::of(&good());
    let stream = |n: u64| [varint(n), varint(0), varint(0)].concat();
    forged.sections[2].1 = [varint(3), stream(0), stream(1), stream(1)].concat();
    assert!(refusal(&forged).contains("thread list"));
}

#[test]
fn reading_asks_at_each_chunk_whether_to_give_up() {
    let mut writer = TraceWriter::new();
    let thread = writer.thread();
    let nop = writer.alu(Reg::general(0), &[]);
    for _ in 0..3 * trace::chunk::MOST_BLOCKS {
        writer.execute(thread, nop, None, None);
    }
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("interrupted.etr");
    writer.save(&path).unwrap();
    let (mut asked, mut last) = (0, 0);
    while let Err(error) = trace::info_unless(&path, &mut || {
        asked += 1;
        asked > last
    }) {
        assert_eq!(error.fault, Fault::Interrupted);
        (asked, last) = (0, last + 1);
    }
    assert_eq!(asked, 6, "at the three chunks, checked and followed");
}

/// Reads all of a capture that was opened: threads have what the index says.
fn read(file: &TraceFile) -> Result<(), TestCaseError> {
    for thread in file.threads() {
        let mut cursor = file.cursor(thread.id);
        let (mut loads, mut stores, mut most) = (0, 0, 0);
        while let Some(piece) = cursor.take() {
            loads += u64::from(piece.load().is_some());
            stores += u64::from(piece.store().is_some());
            most += 1;
        }
        prop_assert_eq!(cursor.error(), None);
        prop_assert_eq!((loads, stores), (thread.loads, thread.stores));
        prop_assert!(thread.instructions <= most);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn forged_captures_are_refused_in_a_sentence_or_read(
        bytes in prop::collection::vec(any::<u8>(), 0..80)
    ) {
        let mut choices = Choices::new(&bytes);
        let mut capture = Capture::of(&good());
        while !choices.is_over() {
            capture.change(&mut choices);
        }
        match TraceFile::from_bytes(capture.bytes(), "x.etr") {
            Ok(file) => read(&file)?,
            Err(error) => {
                let sentence = error.to_string();
                prop_assert!(sentence.starts_with("x.etr: ") && !sentence.contains('\n'));
            }
        }
    }
}

#[test]
fn the_first_thread_of_a_good_capture_is_read() {
    let file = TraceFile::from_bytes(good(), "f").unwrap();
    assert_eq!(file.threads()[0].id, ThreadId::new(0));
    read(&file).unwrap();
}
