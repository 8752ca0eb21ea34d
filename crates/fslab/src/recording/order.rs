//! Which operations wait for which others when a recording is played.
//!
//! A thread does its operations in their order. Those of different threads keep the order that they
//! were recorded in where one of them changes what the other one uses: an inode, a directory's
//! names among it. A sync waits for changes before it, and none waits for a sync.

use super::op::{Entry, How, Op};
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
    let mut names = Names::default();
    let mut all = Vec::with_capacity(entries.len());
    for (number, entry) in entries.iter().enumerate() {
        let mut wanted = Vec::new();
        let mut touched = touched(entry);
        // What loses a name, or is replaced under it, is changed too.
        touched.extend(names.lost(entry).map(|inode| (inode, true)));
        names.note(entry);
        for (inode, changes) in touched.iter().copied() {
            let of = users.entry(inode).or_default();
            wanted.extend(of.changed);
            if changes {
                wanted.extend(of.looked.values());
            }
        }
        for (inode, changes) in touched {
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

/// Which inode a name stands for, as far as the recording says.
#[derive(Default)]
struct Names<'a>(BTreeMap<(u32, &'a str), u32>);

impl<'a> Names<'a> {
    /// The inodes that an operation takes a name from.
    fn lost(&self, entry: &Entry) -> impl Iterator<Item = u32> + use<> {
        let of = |parent: u32, name: &str| self.0.get(&(parent, name)).copied();
        let lost = match &entry.op {
            _ if entry.error.is_some() => [None, None],
            Op::Unlink { parent, name } | Op::Rmdir { parent, name } => [of(*parent, name), None],
            Op::Rename {
                from,
                name,
                to,
                new_name,
                ..
            } => [of(*from, name), of(*to, new_name)],
            _ => [None, None],
        };
        lost.into_iter().flatten()
    }

    /// Notes what an operation says of names.
    fn note(&mut self, entry: &'a Entry) {
        if entry.error.is_some() {
            return;
        }
        match &entry.op {
            Op::Lookup { parent, name }
            | Op::Make { parent, name, .. }
            | Op::Symlink { parent, name, .. } => {
                if let Some(inode) = entry.found {
                    self.0.insert((*parent, name), inode);
                }
            }
            Op::Link { ino, parent, name } => {
                self.0.insert((*parent, name), *ino);
            }
            Op::Unlink { parent, name } | Op::Rmdir { parent, name } => {
                self.0.remove(&(*parent, name.as_str()));
            }
            Op::Rename {
                from,
                name,
                to,
                new_name,
                how,
            } => {
                let moved = self.0.remove(&(*from, name.as_str()));
                let replaced = self.0.remove(&(*to, new_name.as_str()));
                if let Some(inode) = moved {
                    self.0.insert((*to, new_name), inode);
                }
                if let (How::Exchange, Some(inode)) = (how, replaced) {
                    self.0.insert((*from, name), inode);
                }
            }
            _ => {}
        }
    }
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

    #[test]
    fn what_a_name_stood_for_is_changed_by_who_takes_the_name() {
        let name = || "a".to_owned();
        let find = Entry {
            found: Some(9),
            ..entry(
                0,
                Op::Lookup {
                    parent: 1,
                    name: name(),
                },
            )
        };
        let unlink = Op::Unlink {
            parent: 1,
            name: name(),
        };
        // Who writes to the file does so before its name goes, and who removes it as a directory
        // that it was in does so behind.
        let entries = [
            find,
            entry(1, write(9)),
            entry(2, unlink),
            entry(3, write(9)),
        ];
        assert_eq!(
            dependencies(&entries),
            [vec![], vec![0], vec![0, 1], vec![2]]
        );
    }
}
