//! The captures that come with the project are what traces/README.md says of them, and the edges
//! of each can be replayed to the end of every thread.

use std::path::PathBuf;
use trace::{SyncEvent, TraceFile};

fn captures() -> Vec<(PathBuf, TraceFile)> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces");
    let paths = std::fs::read_dir(directory).expect("the captures are there");
    let mut paths: Vec<_> = paths
        .map(|entry| entry.expect("it can be read").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "etr"));
    paths.sort();
    let open = |path: PathBuf| {
        let file = TraceFile::open(&path).unwrap();
        (path, file)
    };
    paths.into_iter().map(open).collect()
}

#[test]
fn three_small_captures_have_six_busy_threads_and_a_large_footprint() {
    let captures = captures();
    assert_eq!(captures.len(), 3);
    for (path, file) in captures {
        let name = path.display();
        assert!(
            std::fs::metadata(&path).unwrap().len() <= 4_000_000,
            "{name} is small"
        );
        let total: u64 = file
            .threads()
            .iter()
            .map(|thread| thread.instructions)
            .sum();
        assert!(
            (10_000_000..=20_000_000).contains(&total),
            "{name}: {total} instructions"
        );
        let busy = file
            .threads()
            .iter()
            .filter(|thread| thread.instructions > total / 20);
        assert!(
            busy.count() >= 6,
            "{name}: three threads for each of two cores"
        );
        assert!(
            file.pages().len() >= 12 << 8,
            "{name}: {} pages",
            file.pages().len()
        );
        let stores: u64 = file.threads().iter().map(|thread| thread.stores).sum();
        assert!(stores > 1_000_000, "{name}: {stores} stores");
    }
}

/// Runs the threads in turn, each until it waits for another; true when all end.
fn replay(file: &TraceFile) -> bool {
    let count = file.threads().len();
    let mut cursors: Vec<_> = file.threads().iter().map(|t| file.cursor(t.id)).collect();
    let mut started: Vec<_> = file.threads().iter().map(|t| t.parent.is_none()).collect();
    let (mut ended, mut wakes) = (vec![false; count], vec![0; count]);
    loop {
        let mut moved = false;
        for n in (0..count).filter(|n| started[*n]).collect::<Vec<_>>() {
            while let Some(piece) = cursors[n].peek() {
                match piece.sync() {
                    Some(SyncEvent::Join { child }) if !ended[child.index()] => break,
                    Some(SyncEvent::FutexWait {
                        woken_by: Some(wake),
                        ..
                    }) if wakes[wake.thread.index()] < wake.count => {
                        break;
                    }
                    Some(SyncEvent::ThreadCreate { child }) => started[child.index()] = true,
                    Some(SyncEvent::FutexWake { count, .. }) => wakes[n] = count,
                    _ => {}
                }
                cursors[n].advance();
                moved = true;
            }
            ended[n] = cursors[n].peek().is_none();
            assert_eq!(cursors[n].error(), None);
        }
        if !moved {
            return ended.iter().all(|ended| *ended);
        }
    }
}

#[test]
fn their_edges_can_be_replayed() {
    for (path, file) in captures() {
        assert!(replay(&file), "{} comes to its end", path.display());
    }
}

#[test]
fn their_counts_are_those_of_their_pieces() {
    for (path, file) in captures() {
        for thread in file.threads() {
            let mut cursor = file.cursor(thread.id);
            let (mut instructions, mut loads, mut stores) = (0, 0, 0);
            while let Some(piece) = cursor.take() {
                instructions += u64::from(piece.counts());
                loads += u64::from(piece.load().is_some());
                stores += u64::from(piece.store().is_some());
            }
            let counted = (instructions, loads, stores);
            let listed = (thread.instructions, thread.loads, thread.stores);
            assert_eq!(counted, listed, "{} {}", path.display(), thread.id);
        }
    }
}
