//! Which operations wait for which others when a recording is played.
//!
//! A thread does its operations in their order. Those of different threads keep the order that they
//! were recorded in where one of them changes what the other one uses: an inode, a directory's
//! names among it. A sync waits for changes before it, and none waits for a sync.

use super::op::{Entry, Op};
use std::collections::BTreeMap;

/// Users of an inode so far.
#[derive(Default)]
struct Users {
    changed: Option<usize>,
    /// Behind that change, one for each thread.
    looked: BTreeMap<u32, usize>,
}

/// By operation: those of other threads that end before it begins, in ascending order.
pub fn dependencies(entries: &[Entry]) -> Vec<Vec<usize>> {
    let mut users: BTreeMap<u32, Users> = BTreeMap::new();
    let mut all = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let mut wanted = Vec::new();
        for (inode, changes) in touched(entry) {
            let of = users.entry(inode).or_default();
            wanted.extend(of.changed);
            if changes {
                wanted.extend(of.looked.values());
            }
        }
        for (inode, changes) in touched(entry) {
            let of = users.entry(inode).or_default();
            if changes {
                of.changed = Some(number);
                of.looked.clear();
            } else if !matches!(entry.op, Op::Fsync { .. }) {
                of.looked.insert(entry.thread, number);
            }
        }
        wanted.retain(|other| *other != number && entries[*other].thread != entry.thread);
        wanted.sort_unstable();
        wanted.dedup();
        all.push(wanted);
    }
    all
}

/// The inodes that an operation uses, and whether it changes them.
fn touched(entry: &Entry) -> Vec<(u32, bool)> {
    let mut all = match &entry.op {
        Op::Lookup { parent, .. } => vec![(*parent, false)],
        Op::Getattr { ino }
        | Op::Readlink { ino }
        | Op::Read { ino, .. }
        | Op::Seek { ino, .. }
        | Op::Readdir { ino, .. }
        | Op::GetXattr { ino, .. }
        | Op::ListXattr { ino }
        | Op::Fsync { ino, .. } => vec![(*ino, false)],
        Op::Setattr { ino, .. }
        | Op::Open { ino }
        | Op::Release { ino }
        | Op::Write { ino, .. }
        | Op::Allocate { ino, .. }
        | Op::SetXattr { ino, .. }
        | Op::RemoveXattr { ino, .. } => vec![(*ino, true)],
        Op::Make { parent, .. }
        | Op::Symlink { parent, .. }
        | Op::Unlink { parent, .. }
        | Op::Rmdir { parent, .. } => vec![(*parent, true)],
        Op::Link { ino, parent, .. } => vec![(*ino, true), (*parent, true)],
        Op::Rename { from, to, .. } => vec![(*from, true), (*to, true)],
        Op::Sync {} => Vec::new(),
    };
    // A number that was free has a new meaning from here on; one that is found has it already.
    let makes = matches!(entry.op, Op::Make { .. } | Op::Symlink { .. });
    all.extend(entry.found.map(|ino| (ino, makes)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(thread: u32, op: Op) -> Entry {
        Entry {
            thread,
            begin_ns: 0,
            end_ns: 0,
            op,
            found: None,
            error: None,
        }
    }

    fn write(ino: u32) -> Op {
        Op::Write {
            ino,
            at: 0,
            size: 0,
            direct: false,
            sync: false,
            sums: String::new(),
        }
    }

    #[test]
    fn what_changes_waits_for_those_who_look_and_they_for_the_change() {
        let fsync = Op::Fsync {
            ino: 5,
            data_only: false,
        };
        let read = Op::Read {
            ino: 5,
            at: 0,
            size: 1,
            direct: false,
        };
        let entries = [
            entry(0, write(5)),
            entry(1, read.clone()),
            entry(2, read),
            entry(0, fsync),
            entry(3, write(5)),
            entry(4, write(6)),
        ];
        let wanted: [&[usize]; 6] = [&[], &[0], &[0], &[], &[0, 1, 2], &[]];
        assert_eq!(dependencies(&entries), wanted);
    }

    #[test]
    fn who_finds_a_name_waits_for_who_made_it() {
        let make = Op::Make {
            parent: 1,
            name: "a".to_owned(),
            kind: super::super::op::Kind::File,
            permissions: 0,
            is_opened: true,
        };
        let lookup = Op::Lookup {
            parent: 1,
            name: "a".to_owned(),
        };
        let found = |entry: Entry| Entry {
            found: Some(9),
            ..entry
        };
        let entries = [
            found(entry(0, make)),
            found(entry(1, lookup)),
            entry(2, write(9)),
        ];
        assert_eq!(dependencies(&entries), [vec![], vec![0], vec![0, 1]]);
    }
}
