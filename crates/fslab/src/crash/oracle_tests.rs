//! Tests of the oracle.

use super::*;
use crate::crash::op::{data, parse_all};

/// A history behind `setup`, and bounds with everything begun and so much committed.
fn history(setup: &str, ops: &str) -> History {
    let mut begin = Model::new(0o755, (0, 0));
    for op in parse_all(setup).unwrap() {
        begin.apply(&op).unwrap();
    }
    History::new(begin, parse_all(ops).unwrap())
}

fn all_begun(history: &History) -> Progress {
    let all = OpSet::first(history.ops().len());
    Progress {
        begun: all,
        answered: all,
    }
}

/// A tree of the history with other bytes in `foo`.
fn with(history: &History, behind: usize, bytes: &[u8]) -> Tree {
    let mut tree = history.states[behind].tree();
    let foo = tree.0.get_mut("foo").unwrap();
    foo.contents = Contents::default();
    foo.contents.write(0, bytes);
    tree
}

#[test]
fn every_prefix_from_the_last_sync_on_is_allowed() {
    let history = history(
        "",
        "create foo\nmkdir A\nfsync foo\nrename foo A/foo\nunlink A/foo",
    );
    let bounds = all_begun(&history);
    let places = history.bounds(bounds);
    assert_eq!((places.committed, places.begun), (3, 5));
    for behind in 0..=5 {
        let verdict = history.check(&history.states[behind].tree(), bounds);
        assert_eq!(verdict.is_ok(), behind >= 2, "{behind}: {verdict:?}");
    }
    let mut none = history.states[5].tree();
    none.0.remove("A");
    assert!(history.check(&none, bounds).is_err());
}

#[test]
fn where_every_operation_is_safe_no_shorter_prefix_is_allowed() {
    let setup = "create foo\nwrite foo 0 8192 1";
    let mut history = history(setup, "write foo 0 8192 2\nmkdir A");
    let bounds = all_begun(&history);
    let old = history.states[0].tree();
    let (first, second) = (history.states[1].tree(), history.states[2].tree());
    assert_eq!(history.check(&old, bounds), Ok(()));
    history.sync_everything();
    assert!(history.check(&old, bounds).is_err() && history.check(&first, bounds).is_err());
    assert_eq!(history.check(&second, bounds), Ok(()));
    let mut stale = second;
    stale.0.insert("foo".to_owned(), old.0["foo"].clone());
    assert!(history.check(&stale, bounds).is_err());
    let early = Progress {
        answered: OpSet::first(1),
        ..bounds
    };
    assert_eq!(history.check(&first, early), Ok(()));
    assert!(history.check(&old, early).is_err());
}

#[test]
fn lines_are_old_or_new_until_they_are_synced() {
    let (old, new) = (data(1, 0, 8192), data(2, 0, 8192));
    let setup = "create foo\nwrite foo 0 8192 1";
    let mixed = [&old[..64], &new[64..4096], &old[4096..]].concat();
    let unsynced = history(setup, "write foo 0 8192 2");
    let bounds = all_begun(&unsynced);
    assert_eq!(unsynced.check(&with(&unsynced, 0, &mixed), bounds), Ok(()));
    let torn = [&old[..32], &new[32..]].concat();
    let verdict = unsynced.check(&with(&unsynced, 0, &torn), bounds);
    assert!(verdict.unwrap_err().contains("foo has bytes at 0"));
    let zero = [&[0; 64], &new[64..]].concat();
    assert!(unsynced.check(&with(&unsynced, 0, &zero), bounds).is_err());
    let synced = history(setup, "write foo 0 8192 2\nfdatasync foo\nwrite foo 0 64 3");
    let bounds = all_begun(&synced);
    assert!(synced.check(&with(&synced, 0, &mixed), bounds).is_err());
    assert_eq!(synced.check(&with(&synced, 0, &new), bounds), Ok(()));
}

#[test]
fn a_write_that_is_journaled_is_there_as_a_whole_or_not_at_all() {
    let (old, new) = (data(1, 0, 8192), data(2, 0, 8192));
    let mut journaled = history(
        "create foo\nwrite foo 0 8192 1",
        "write foo 0 8192 2\ntruncate foo 6000",
    );
    let bounds = all_begun(&journaled);
    let mixed = [&old[..4096], &new[4096..]].concat();
    assert_eq!(
        journaled.check(&with(&journaled, 0, &mixed), bounds),
        Ok(())
    );
    journaled.keep_writes_whole();
    let verdict = journaled.check(&with(&journaled, 0, &mixed), bounds);
    assert!(verdict.unwrap_err().contains("a write is torn"));
    for bytes in [&old[..], &old[..6000], &new[..], &new[..6000]] {
        assert_eq!(journaled.check(&with(&journaled, 0, bytes), bounds), Ok(()));
    }
    let mut grown = history("create foo\nwrite foo 0 8192 1", "write foo 4096 8192 2");
    grown.keep_writes_whole();
    let bounds = all_begun(&grown);
    let longer = data(2, 4096, 8192);
    let short = [&old[..4096], &longer[..4096]].concat();
    let whole = [&old[..4096], &longer[..]].concat();
    assert!(
        grown.check(&with(&grown, 0, &short), bounds).is_err(),
        "its end is missing"
    );
    assert_eq!(grown.check(&with(&grown, 0, &whole), bounds), Ok(()));
    assert_eq!(grown.check(&with(&grown, 0, &old), bounds), Ok(()));
}

#[test]
fn what_grows_has_its_bytes() {
    let grown = history("create foo\nwrite foo 0 100 1", "write foo end 8000 2");
    let bounds = all_begun(&grown);
    let (old, new) = (data(1, 0, 100), data(2, 100, 8000));
    let whole = [old.clone(), new.clone()].concat();
    assert_eq!(grown.check(&with(&grown, 0, &whole), bounds), Ok(()));
    assert_eq!(grown.check(&with(&grown, 0, &old), bounds), Ok(()));
    let zeroes = [&old[..], &new[..4000], &[0; 4000]].concat();
    assert!(grown.check(&with(&grown, 0, &zeroes), bounds).is_err());
    let short = &whole[..4196];
    let verdict = grown.check(&with(&grown, 0, short), bounds).unwrap_err();
    assert!(verdict.contains("has 4196 B"), "{verdict}");
    // Behind an allocation that nobody synced the write for, zeroes are what was there.
    let grown = history(
        "create foo\nwrite foo 0 100 1",
        "write foo end 8000 2\ntruncate foo 9000\nfsync .",
    );
    let mut zeroes = old.clone();
    zeroes.resize(9000, 0);
    let bounds = all_begun(&grown);
    assert_eq!(grown.check(&with(&grown, 0, &zeroes), bounds), Ok(()));
    assert!(grown.check(&with(&grown, 0, &old), bounds).is_err());
}

#[test]
fn what_a_truncation_took_does_not_come_back() {
    let cut = history(
        "create foo\nwrite foo 0 8192 1",
        "truncate foo 100\ntruncate foo 8192\nfsync .",
    );
    let bounds = all_begun(&cut);
    let old = data(1, 0, 8192);
    assert!(cut.check(&with(&cut, 0, &old), bounds).is_err());
    let mut zeroes = old[..100].to_vec();
    zeroes.resize(8192, 0);
    assert_eq!(cut.check(&with(&cut, 0, &zeroes), bounds), Ok(()));
    // Without the sync it may.
    let early = Progress {
        answered: OpSet::default(),
        ..bounds
    };
    assert_eq!(cut.check(&with(&cut, 0, &old), early), Ok(()));
    assert_eq!(cut.check(&with(&cut, 0, &old[..100]), early), Ok(()));
    assert!(cut.check(&with(&cut, 0, &old[..4096]), early).is_err());
}

#[test]
fn a_hole_takes_whole_pages_for_good_and_its_ends_like_a_write() {
    let holed = history(
        "create foo\nwrite foo 0 12288 1",
        "fallocate foo punch 1000 8000\nfsync .",
    );
    let bounds = all_begun(&holed);
    let mut bytes = data(1, 0, 12288);
    assert!(holed.check(&with(&holed, 0, &bytes), bounds).is_err());
    bytes[4096..8192].fill(0);
    assert_eq!(holed.check(&with(&holed, 0, &bytes), bounds), Ok(()));
    bytes[8192..9000].fill(0);
    assert_eq!(holed.check(&with(&holed, 0, &bytes), bounds), Ok(()));
    bytes[9000..9100].fill(0);
    assert!(holed.check(&with(&holed, 0, &bytes), bounds).is_err());
}
