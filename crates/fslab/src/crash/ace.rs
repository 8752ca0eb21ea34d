//! Sequences of operations, all of a length: the bounded black-box testing of ACE.
//!
//! As in ACE (Mohan et al., "Finding Crash-Consistency Bugs with Bounded Black-Box Crash Testing",
//! OSDI 2018): a small set of files and directories, every operation on them, every sequence of a
//! length; what an operation needs is made before it, or taken away. Other than there, syncs are
//! operations of a sequence and not only behind each, and the power is cut everywhere, not only
//! behind syncs; a sync of everything ends each sequence.

use crate::crash::contents::Contents;
use crate::crash::model::Model;
use crate::crash::op::{At, File, NoOperation, Op, Path, parse_all, to_text};
use bytefs::FileKind;
use std::fmt;
use units::{Picos, Stream};

/// What an operation needs.
#[derive(Clone, Debug)]
enum Need {
    /// A file with bytes.
    File(&'static str),
    /// Nothing of the name.
    Absent(&'static str),
    /// An empty directory.
    Directory(&'static str),
    /// An attribute.
    Xattr(&'static str, &'static str),
    /// A number under which nothing is open.
    Closed(u8),
}
use Need::{Absent, Closed, Directory, Xattr};

/// One of the operations, and what it needs.
#[derive(Clone, Debug)]
struct Core {
    ops: String,
    needs: Vec<Need>,
}

/// Bytes of a file that is made because an operation needs it: a page, and a bit of the next.
const MADE: u32 = 4096 + 100;

/// Where what operations need is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Prepare {
    /// Before the sequence and synced, where that gives the same.
    Before,
    /// Just before the operation, and not synced.
    Within,
}

/// A sequence.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sequence {
    /// Done and synced before anything is cut.
    pub setup: Vec<Op>,
    /// What is cut.
    pub ops: Vec<Op>,
    /// What another task does meanwhile.
    pub beside: Option<Beside>,
}

/// What a second task does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Beside {
    /// So long behind the first.
    pub behind: Picos,
    /// In this order.
    pub ops: Vec<Op>,
}

/// What begins the second task's operations in a text.
const BESIDE: &str = "--- beside, behind ";

impl Sequence {
    /// Of operations as text, with a line `---` behind those that are done and synced before, and
    /// one `--- beside, behind 3000 ns` before those of a second task.
    ///
    /// # Errors
    /// The first line that says no operation.
    pub fn parse(text: &str) -> Result<Self, NoOperation> {
        let (text, beside) = match text.split_once(BESIDE) {
            Some((text, beside)) => (text, Some(parse_beside(beside)?)),
            None => (text, None),
        };
        let (setup, ops) = text.split_once("---").unwrap_or(("", text));
        Ok(Self {
            setup: parse_all(setup)?,
            ops: parse_all(ops)?,
            beside,
        })
    }

    /// Has each write be followed by a sync of its file.
    pub fn sync_writes(&mut self) {
        let beside = self.beside.iter_mut().map(|beside| &mut beside.ops);
        for ops in core::iter::once(&mut self.ops).chain(beside) {
            let all = core::mem::take(ops).into_iter();
            ops.extend(all.flat_map(|op| {
                let sync = match &op {
                    Op::Write { file, .. } => Some(Op::Fdatasync(file.clone())),
                    _ => None,
                };
                core::iter::once(op).chain(sync)
            }));
        }
    }

    /// Whether every operation of it is done; of two tasks that of the first alone.
    pub fn is_sound(&self) -> bool {
        state_behind(&self.setup, &self.ops).is_some()
    }
}

fn parse_beside(text: &str) -> Result<Beside, NoOperation> {
    let (when, ops) = text.split_once('\n').unwrap_or((text, ""));
    let nanos = when.trim().strip_suffix(" ns");
    let nanos = nanos.and_then(|nanos| nanos.parse().ok());
    let behind = nanos.ok_or_else(|| NoOperation(format!("{BESIDE}{when}")))?;
    Ok(Beside {
        behind: Picos::from_nanos(behind),
        ops: parse_all(ops)?,
    })
}

impl fmt::Display for Sequence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}---\n{}", to_text(&self.setup), to_text(&self.ops))?;
        let Some(beside) = &self.beside else {
            return Ok(());
        };
        let nanos = beside.behind.get() / 1000;
        write!(f, "{BESIDE}{nanos} ns\n{}", to_text(&beside.ops))
    }
}

/// The state behind operations, all of which must be done.
fn state_behind(setup: &[Op], ops: &[Op]) -> Option<Model> {
    let mut state = Model::new(0o755, (0, 0));
    for op in setup.iter().chain(ops) {
        state.apply(op).ok()?;
    }
    Some(state)
}

/// All sequences of a length.
#[derive(Clone, Debug)]
pub struct Ace {
    cores: Vec<Core>,
    length: u32,
}

/// How long behind the first task a second one begins at most: some operations and a sync.
pub const LATEST: Picos = Picos::from_nanos(20_000);

/// Directories that are always there.
pub const DIRECTORIES: [&str; 2] = ["A", "B"];

impl Ace {
    /// Those of so many operations.
    pub fn new(length: u32) -> Self {
        Self {
            cores: cores(),
            length,
        }
    }

    /// How many operations there are to choose from.
    pub fn choices(&self) -> u64 {
        self.cores.len() as u64
    }

    /// How many sequences there are, those included that cannot be prepared.
    pub fn count(&self) -> u64 {
        self.choices().pow(self.length)
    }

    /// The sequence of a number below [`Ace::count`]; None if one operation makes impossible what a
    /// later one needs.
    pub fn sequence(&self, mut number: u64, prepare: Prepare) -> Option<Sequence> {
        let mut cores = Vec::new();
        for _ in 0..self.length {
            cores.push(&self.cores[(number % self.choices()) as usize]);
            number /= self.choices();
        }
        cores.reverse();
        Maker::default().make(&cores, prepare)
    }

    /// The sequence of a number, with its second half done by another task that begins within
    /// [`LATEST`] behind the first.
    pub fn pair(&self, number: u64, prepare: Prepare) -> Option<Sequence> {
        let sequence = self.sequence(number, prepare)?;
        let first = Self {
            cores: self.cores.clone(),
            length: self.length / 2,
        };
        let rest = self.choices().pow(self.length - first.length);
        let begun = first.sequence(number / rest, prepare)?;
        let mut ops = on_open_files(&sequence.setup, sequence.ops);
        let beside = ops.split_off(begun.ops.len().min(ops.len()));
        let beside = beside.into_iter().flatten().map(with_own_number);
        // Half of them begin at once: what they need is cached then, and their requests meet.
        let mut stream = Stream::new(number, "fslab/beside");
        let latest = LATEST.get() / 1000;
        let behind = stream.below(2) * stream.below(latest + 1);
        Some(Sequence {
            setup: sequence.setup,
            ops: ops.into_iter().flatten().collect(),
            beside: Some(Beside {
                behind: Picos::from_nanos(behind),
                ops: beside.collect(),
            }),
        })
    }

    /// So many numbers of sequences by chance, each once, in ascending order; all of them if there
    /// are no more.
    pub fn sample(&self, count: u64, seed: u64) -> Vec<u64> {
        let all = self.count();
        if count >= all {
            return (0..all).collect();
        }
        let mut stream = Stream::new(seed, "fslab/ace");
        let mut chosen = std::collections::BTreeSet::new();
        while (chosen.len() as u64) < count {
            chosen.insert(stream.below(all));
        }
        chosen.into_iter().collect()
    }
}

/// The operations of a task beside another. Which file an operation is about is found out by its
/// name first, and then it is done on that file, whatever its name is by then: so they are two
/// operations, an open and one on what is open. Where the end of a file is, is said in bytes: a
/// kernel lets one write to a file at a time, and looks for the end then.
fn on_open_files(setup: &[Op], ops: Vec<Op>) -> Vec<Vec<Op>> {
    let mut state = state_behind(setup, &[]).expect("a setup is done");
    let mut all = Vec::new();
    for mut op in ops {
        if let Op::Write { file, at, .. } = &mut op {
            let id = state.file(file).unwrap_or_default();
            let size = state.contents(id).map_or(0, Contents::size);
            if *at == At::End {
                *at = At::Byte(size);
            }
        }
        state.apply(&op).expect("a sequence is done");
        // Numbers that no operation of the list has.
        let number = FIRST_NUMBER + all.len() as u8;
        all.push(match file_of(&mut op) {
            Some(file) => {
                let by_number = File::Open(number);
                let File::Path(path) = core::mem::replace(file, by_number) else {
                    unreachable!("operations of the list have names");
                };
                vec![Op::Open(path, number), op, Op::Close(number)]
            }
            None => vec![op],
        });
    }
    all
}

const FIRST_NUMBER: u8 = 10;

/// Which regular file an operation is about.
fn file_of(op: &mut Op) -> Option<&mut File> {
    let file = match op {
        Op::Write { file, .. }
        | Op::Truncate { file, .. }
        | Op::Chmod { file, .. }
        | Op::Fallocate { file, .. }
        | Op::SetXattr { file, .. }
        | Op::RemoveXattr { file, .. }
        | Op::Fsync(file)
        | Op::Fdatasync(file)
        | Op::Read { file, .. }
        | Op::Link { from: file, .. } => file,
        _ => return None,
    };
    let is_directory = |path: &str| path == "." || DIRECTORIES.contains(&path);
    match file {
        File::Path(path) if !is_directory(path) => Some(file),
        _ => None,
    }
}

/// The operation with a number of an open file that the first task has not.
fn with_own_number(mut op: Op) -> Op {
    match &mut op {
        Op::Open(_, number) | Op::Close(number) if *number < FIRST_NUMBER => *number += 100,
        _ => {}
    }
    op
}

#[derive(Default)]
struct Maker {
    setup: Vec<Op>,
    ops: Vec<Op>,
    /// Of the last write, so that no two have the same bytes.
    mark: u32,
}

impl Maker {
    fn make(mut self, cores: &[&Core], prepare: Prepare) -> Option<Sequence> {
        self.setup = DIRECTORIES
            .iter()
            .map(|path| Op::Mkdir((*path).into()))
            .collect();
        for core in cores {
            for need in &core.needs {
                let state = state_behind(&self.setup, &self.ops)?;
                let missing = self.missing(&state, need)?;
                if prepare == Prepare::Before && self.is_good_before(&missing, need) {
                    self.setup.extend(missing);
                } else {
                    self.ops.extend(missing);
                }
            }
            for line in core.ops.split("; ") {
                self.mark += 1;
                let line = line.replace("MARK", &self.mark.to_string());
                let op = line.parse().expect("a core is written well");
                self.ops.push(op);
            }
            // An operation that another of the sequence makes impossible is none.
            state_behind(&self.setup, &self.ops)?;
        }
        Some(Sequence {
            setup: self.setup,
            ops: self.ops,
            beside: None,
        })
    }

    /// Whether operations may stand before the sequence: it is done all the same, and what they are
    /// for is still there.
    fn is_good_before(&self, missing: &[Op], need: &Need) -> bool {
        let setup: Vec<Op> = self.setup.iter().chain(missing).cloned().collect();
        let state = state_behind(&setup, &self.ops);
        state.is_some_and(|state| is_met(&state, need))
    }

    /// What makes a need met; None if nothing does.
    fn missing(&mut self, state: &Model, need: &Need) -> Option<Vec<Op>> {
        let mut ops = Vec::new();
        if is_met(state, need) {
            return Some(ops);
        }
        match *need {
            Need::File(path) => {
                ops.extend(taken_away(state, path)?);
                ops.extend(self.new_file(path));
            }
            Absent(path) => ops.extend(taken_away(state, path)?),
            Directory(path) => {
                ops.extend(taken_away(state, path)?);
                ops.push(Op::Mkdir(path.into()));
            }
            Xattr(path, name) => {
                if state.kind(path).is_none() {
                    ops.extend(self.new_file(path));
                }
                self.mark += 1;
                let line = format!("setxattr {path} {name} 40 {}", self.mark);
                ops.push(line.parse().expect("it is written well"));
            }
            Closed(number) => ops.push(Op::Close(number)),
        }
        Some(ops)
    }

    fn new_file(&mut self, path: &str) -> [Op; 2] {
        self.mark += 1;
        let write = Op::Write {
            file: File::Path(path.into()),
            at: At::End,
            size: MADE,
            mark: self.mark,
            direct: false,
            sync: false,
        };
        [Op::Create(path.into()), write]
    }
}

fn is_met(state: &Model, need: &Need) -> bool {
    match *need {
        Need::File(path) => state.kind(path) == Some(FileKind::Regular),
        Absent(path) => state.kind(path).is_none(),
        Directory(path) => {
            let inside = format!("{path}/");
            let tree = state.tree();
            let is_empty = !tree.0.keys().any(|path| path.starts_with(&inside));
            state.kind(path) == Some(FileKind::Directory) && is_empty
        }
        Xattr(path, name) => state.has_xattr(path, name),
        Closed(number) => !state.is_open(number),
    }
}

/// What takes a name away; None if it is a directory that is not empty.
fn taken_away(state: &Model, path: &str) -> Option<Option<Op>> {
    let path: Path = path.into();
    match state.kind(&path) {
        None => Some(None),
        Some(FileKind::Directory) => {
            let op = Op::Rmdir(path);
            state.clone().apply(&op).ok()?;
            Some(Some(op))
        }
        Some(_) => Some(Some(Op::Unlink(path))),
    }
}

/// Every operation, on every file that it can be told apart on.
fn cores() -> Vec<Core> {
    let mut cores = Vec::new();
    let mut add = |ops: &str, needs: &[Need]| {
        cores.push(Core {
            ops: ops.to_owned(),
            needs: needs.to_vec(),
        });
    };
    for path in ["foo", "A/foo", "A/bar"] {
        add(&format!("create {path}"), &[Absent(path)]);
    }
    for (from, to) in [
        ("foo", "bar"),
        ("foo", "A/bar"),
        ("A/foo", "A/bar"),
        ("A/foo", "B/bar"),
        ("A/foo", "bar"),
    ] {
        add(
            &format!("link {from} {to}"),
            &[Need::File(from), Absent(to)],
        );
    }
    let long = "t".repeat(300);
    for (target, path) in [("foo", "bar"), ("A/foo", "A/bar"), (long.as_str(), "B/bar")] {
        add(&format!("symlink {target} {path}"), &[Absent(path)]);
    }
    for (from, to) in [
        ("foo", "bar"),
        ("foo", "A/foo"),
        ("A/foo", "foo"),
        ("A/foo", "A/bar"),
        ("A/foo", "B/bar"),
    ] {
        let op = format!("rename {from} {to}");
        add(&op, &[Need::File(from), Absent(to)]);
        add(&op, &[Need::File(from), Need::File(to)]);
    }
    for to in ["A/bar", "B/bar"] {
        let op = format!("rename-exchange A/foo {to}");
        add(&op, &[Need::File("A/foo"), Need::File(to)]);
    }
    add("rename C A/C", &[Directory("C"), Absent("A/C")]);
    add("rename A/C B/C", &[Directory("A/C"), Absent("B/C")]);
    add("rename A/C B/C", &[Directory("A/C"), Directory("B/C")]);
    for path in ["foo", "A/foo", "A/bar"] {
        add(&format!("unlink {path}"), &[Need::File(path)]);
    }
    add(
        "open A/foo 1; unlink A/foo",
        &[Closed(1), Need::File("A/foo")],
    );
    for path in ["C", "A/C"] {
        add(&format!("mkdir {path}"), &[Absent(path)]);
        add(&format!("rmdir {path}"), &[Directory(path)]);
    }
    for path in ["foo", "A/foo"] {
        for what in [
            "write PATH end 64 MARK",
            "write PATH end 8192 MARK",
            "write PATH 1000 64 MARK",
            "write PATH 96 3000 MARK",
            "write PATH 16384 64 MARK",
            "write PATH 64 64 MARK direct",
            "write PATH 0 4096 MARK direct",
            "write PATH 4096 8192 MARK direct",
            "truncate PATH 1000",
            "truncate PATH 0",
            "truncate PATH 9000",
            "fallocate PATH keep-size 4096 8192",
            "fallocate PATH grow 0 12288",
            "fallocate PATH punch 0 4096",
            "fallocate PATH zero 100 8000",
            "setxattr PATH user.a 30 MARK",
            "fsync PATH",
            "fdatasync PATH",
        ] {
            add(&what.replace("PATH", path), &[Need::File(path)]);
        }
    }
    add("setxattr A/foo user.b 600 MARK", &[Need::File("A/foo")]);
    add("setxattr A user.a 30 MARK", &[]);
    for path in ["foo", "A"] {
        let op = format!("removexattr {path} user.a");
        add(&op, &[Xattr(path, "user.a")]);
    }
    for op in ["fsync .", "fsync A", "sync"] {
        add(op, &[]);
    }
    cores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_length_one_can_be_prepared_in_both_ways() {
        let ace = Ace::new(1);
        for number in 0..ace.count() {
            let before = ace.sequence(number, Prepare::Before).unwrap();
            let within = ace.sequence(number, Prepare::Within).unwrap();
            assert_eq!(within.setup.len(), DIRECTORIES.len());
            assert!(before.ops.len() <= 2, "{}", to_text(&before.ops));
            assert_eq!(before.ops.last(), within.ops.last());
        }
    }

    #[test]
    fn nearly_every_sequence_of_length_two_can_be_prepared_and_all_differ() {
        let ace = Ace::new(2);
        let all = (0..ace.count()).filter_map(|number| ace.sequence(number, Prepare::Before));
        let mut texts: Vec<(String, String)> = all
            .map(|sequence| (to_text(&sequence.setup), to_text(&sequence.ops)))
            .collect();
        let made = texts.len() as u64;
        texts.sort();
        texts.dedup();
        println!("{} of {}, {} differ", made, ace.count(), texts.len());
        assert!(made * 100 > ace.count() * 98, "{made} of {}", ace.count());
        assert!(texts.len() as u64 * 100 > made * 97);
    }

    #[test]
    fn what_an_operation_needs_is_made_or_taken_away() {
        let ace = Ace::new(2);
        let core = |text: &str| {
            let at = ace.cores.iter().position(|core| core.ops == text);
            at.unwrap() as u64
        };
        let number = core("rename A/foo B/bar") * ace.choices() + core("create A/foo");
        let sequence = ace.sequence(number, Prepare::Within).unwrap();
        let wanted = "create A/foo\nwrite A/foo end 4196 1\nrename A/foo B/bar\ncreate A/foo\n";
        assert_eq!(to_text(&sequence.ops), wanted);
        let sequence = ace.sequence(number, Prepare::Before).unwrap();
        assert_eq!(to_text(&sequence.ops), "rename A/foo B/bar\ncreate A/foo\n");
        let number = core("create foo") * ace.choices() + core("create foo");
        let sequence = ace.sequence(number, Prepare::Before).unwrap();
        assert_eq!(
            to_text(&sequence.ops),
            "create foo\nunlink foo\ncreate foo\n"
        );
    }

    #[test]
    fn a_sample_repeats_and_has_no_number_twice() {
        let ace = Ace::new(3);
        let sample = ace.sample(1000, 7);
        assert_eq!(sample.len(), 1000);
        assert!(sample.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(sample, ace.sample(1000, 7));
        assert_ne!(sample, ace.sample(1000, 8));
        assert_eq!(
            Ace::new(1).sample(u64::MAX, 1).len() as u64,
            Ace::new(1).count()
        );
    }
}
