//! Files of misses: what is written is read, and nothing else is.

use proptest::prelude::*;
use trace::misses::{Miss, MissCount, MissFile, MissHead, MissWriter};

const LINES: u32 = 1 << 30;
const THREADS: u32 = 5;

fn head() -> MissHead {
    MissHead {
        key: [7; 32],
        threads: THREADS,
        lines: u64::from(LINES),
    }
}

fn written(parts: &[Vec<Miss>]) -> Vec<u8> {
    let mut writer = MissWriter::new(Vec::new(), &head()).unwrap();
    for part in parts {
        writer.turn(0);
        for miss in part {
            match miss {
                Miss::Turn(thread) => writer.turn(*thread),
                other => writer.put(*other),
            }
        }
        writer.end_part().unwrap();
    }
    writer.finish().unwrap()
}

/// As [`MissFile`] takes it: a file.
fn opened(name: &str, bytes: &[u8]) -> Result<MissFile, String> {
    let place = std::env::temp_dir().join(format!("{name}-{}.misses", std::process::id()));
    std::fs::write(&place, bytes).unwrap();
    let file = MissFile::open(place.to_str().unwrap()).map_err(|error| error.to_string());
    std::fs::remove_file(&place).unwrap();
    file
}

fn read(file: &mut MissFile, part: usize) -> Result<Vec<Miss>, String> {
    let mut found = Vec::new();
    file.each(part, |miss| found.push(miss))
        .map_err(|error| error.to_string())?;
    Ok(found)
}

/// A turn is told when something comes of it.
fn told(part: &[Miss]) -> Vec<Miss> {
    let (mut thread, mut said, mut told) = (0, None, Vec::new());
    for miss in part {
        if let Miss::Turn(next) = miss {
            thread = *next;
            continue;
        }
        if said != Some(thread) {
            said = Some(thread);
            told.push(Miss::Turn(thread));
        }
        told.push(*miss);
    }
    told
}

fn misses() -> impl Strategy<Value = Vec<Miss>> {
    let one = prop_oneof![
        (0..THREADS).prop_map(Miss::Turn),
        (0..LINES).prop_map(Miss::Load),
        (0..LINES).prop_map(Miss::Ownership),
        (0..LINES).prop_map(Miss::WriteBack),
        (0..THREADS).prop_map(Miss::Create),
        any::<u32>().prop_map(Miss::Wake),
    ];
    prop::collection::vec(one, 0..60)
}

proptest! {
    #[test]
    fn parts_are_read_back_in_any_order(parts in prop::collection::vec(misses(), 1..5)) {
        let mut file = opened("back", &written(&parts)).unwrap();
        prop_assert_eq!(*file.head(), head());
        let counts: Vec<MissCount> = file.parts().collect();
        for index in (0..parts.len()).rev() {
            prop_assert_eq!(read(&mut file, index).unwrap(), told(&parts[index]));
            let writes = parts[index].iter().filter(|m| matches!(m, Miss::WriteBack(_)));
            prop_assert_eq!(counts[index].writes, writes.count() as u64);
        }
    }

    #[test]
    fn a_changed_byte_is_an_error(parts in prop::collection::vec(misses(), 1..3), at: usize, to: u8) {
        let mut bytes = written(&parts);
        let at = at % bytes.len();
        prop_assume!(bytes[at] != to);
        bytes[at] = to;
        let Ok(mut file) = opened("changed", &bytes) else { return Ok(()) };
        let found: Result<Vec<_>, _> = (0..parts.len()).map(|part| read(&mut file, part)).collect();
        prop_assert!(found.is_err(), "byte {} was not missed", at);
    }

    #[test]
    fn a_file_that_ends_early_is_an_error(parts in prop::collection::vec(misses(), 1..3), cut: usize) {
        let bytes = written(&parts);
        let found = opened("cut", &bytes[..cut % bytes.len()]);
        prop_assert!(found.is_err());
    }
}

#[test]
fn a_file_of_something_else_is_told_so() {
    let sentence = opened("other", &[b'x'; 200]).err().unwrap();
    assert!(sentence.contains("is not a file of misses"), "{sentence}");
    let mut bytes = written(&[vec![Miss::Load(1)]]);
    bytes[8] = 9;
    let sentence = opened("later", &bytes).err().unwrap();
    assert!(sentence.contains("format version 9"), "{sentence}");
}

/// A line that the program does not have never comes out, however it got in.
#[test]
fn a_line_beyond_the_last_is_damage() {
    let mut writer = MissWriter::new(
        Vec::new(),
        &MissHead {
            lines: 10,
            ..head()
        },
    )
    .unwrap();
    writer.put(Miss::Load(10));
    writer.end_part().unwrap();
    let mut file = opened("beyond", &writer.finish().unwrap()).unwrap();
    assert!(read(&mut file, 0).unwrap_err().contains("damaged"));
}
