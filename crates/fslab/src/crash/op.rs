//! Operations of a sequence, as text and as values.
//!
//! One line each, as `rename A/foo B/bar` or `write foo 4096 8192 7 direct`; `#` ends a line. What
//! is printed is what is read: a sequence that failed can be run again from its text.

use bytefs::{Allocate, Rename, SetXattr};
use core::fmt;
use core::str::FromStr;

/// A path from the root, without a leading slash; the root itself is `.`.
pub type Path = String;

/// A regular file that an operation is about, or a directory for a sync.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum File {
    /// By its name.
    Path(Path),
    /// By the number under which it was opened, whatever names it still has.
    Open(u8),
}

/// Where a write begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// At this byte.
    Byte(u64),
    /// At the end.
    End,
}

/// An operation.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names are those of the system calls")]
pub enum Op {
    Create(Path),
    Mkdir(Path),
    Mkfifo(Path),
    Symlink {
        target: String,
        path: Path,
    },
    Link {
        from: File,
        to: Path,
    },
    Rename {
        from: Path,
        to: Path,
        how: Rename,
    },
    Unlink(Path),
    Rmdir(Path),
    /// Opens a file under a number.
    Open(Path, u8),
    /// Closes what is open under a number.
    Close(u8),
    /// Bytes that only this write makes: see [`data`].
    Write {
        file: File,
        at: At,
        size: u32,
        mark: u32,
        direct: bool,
        sync: bool,
    },
    Truncate {
        file: File,
        size: u64,
    },
    Fallocate {
        file: File,
        how: Allocate,
        at: u64,
        size: u64,
    },
    SetXattr {
        file: File,
        name: String,
        size: u32,
        mark: u32,
        how: SetXattr,
    },
    RemoveXattr {
        file: File,
        name: String,
    },
    Chmod {
        file: File,
        permissions: u16,
    },
    Fsync(File),
    Fdatasync(File),
    Sync,
    /// What the owner of the file system calls every second, when everything is old.
    FlushOld,
    /// The same when nothing is.
    Tick,
    /// The file system is unmounted, and mounted again. Of a setup only.
    Remount,
    /// The power goes behind a sync, and the file system is mounted again. Of a setup only.
    Recover,
    /// The bytes that it gives are its result.
    Read {
        file: File,
        at: u64,
        size: u32,
        direct: bool,
    },
}

/// The bytes of a write or of an attribute: none is zero, and which line of which write it is can
/// be seen in every eight of them.
pub fn data(mark: u32, at: u64, size: usize) -> Vec<u8> {
    (at..at + size as u64).map(|at| byte(mark, at)).collect()
}

/// A byte of the write `mark` at a place of its file.
pub fn byte(mark: u32, at: u64) -> u8 {
    let word = (at / 8) ^ (u64::from(mark) << 40);
    let mixed = (word ^ (word >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0x94d0_49bb_1331_11eb);
    1 + ((mixed >> (8 * (at % 8))) & 0xff) as u8 % 255
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => f.write_str(path),
            Self::Open(number) => write!(f, "%{number}"),
        }
    }
}

const RENAMES: [(Rename, &str); 5] = [
    (Rename::Replace, "rename"),
    (Rename::NoReplace, "rename-noreplace"),
    (Rename::Exchange, "rename-exchange"),
    (Rename::Whiteout, "rename-whiteout"),
    (Rename::WhiteoutNoReplace, "rename-whiteout-noreplace"),
];
const ALLOCATES: [(Allocate, &str); 5] = [
    (Allocate::Grow, "grow"),
    (Allocate::KeepSize, "keep-size"),
    (Allocate::PunchHole, "punch"),
    (Allocate::ZeroRange, "zero"),
    (Allocate::ZeroRangeKeepSize, "zero-keep-size"),
];
const SETS: [(SetXattr, &str); 3] = [
    (SetXattr::Any, "setxattr"),
    (SetXattr::Create, "setxattr-create"),
    (SetXattr::Replace, "setxattr-replace"),
];

fn word_of<T: Copy + PartialEq>(table: &[(T, &'static str)], value: T) -> &'static str {
    let found = table.iter().find(|(of, _)| *of == value);
    found.expect("the table has every value").1
}

fn value_of<T: Copy>(table: &[(T, &'static str)], word: &str) -> Option<T> {
    let found = table.iter().find(|(_, of)| *of == word);
    found.map(|(value, _)| *value)
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create(path) => write!(f, "create {path}"),
            Self::Mkdir(path) => write!(f, "mkdir {path}"),
            Self::Mkfifo(path) => write!(f, "mkfifo {path}"),
            Self::Symlink { target, path } => write!(f, "symlink {target} {path}"),
            Self::Link { from, to } => write!(f, "link {from} {to}"),
            Self::Rename { from, to, how } => {
                write!(f, "{} {from} {to}", word_of(&RENAMES, *how))
            }
            Self::Unlink(path) => write!(f, "unlink {path}"),
            Self::Rmdir(path) => write!(f, "rmdir {path}"),
            Self::Open(path, number) => write!(f, "open {path} {number}"),
            Self::Close(number) => write!(f, "close {number}"),
            Self::Write {
                file,
                at,
                size,
                mark,
                direct,
                sync,
            } => {
                let at = match at {
                    At::Byte(at) => at.to_string(),
                    At::End => "end".to_owned(),
                };
                let direct = if *direct { " direct" } else { "" };
                let sync = if *sync { " sync" } else { "" };
                write!(f, "write {file} {at} {size} {mark}{direct}{sync}")
            }
            Self::Truncate { file, size } => write!(f, "truncate {file} {size}"),
            Self::Fallocate {
                file,
                how,
                at,
                size,
            } => {
                let how = word_of(&ALLOCATES, *how);
                write!(f, "fallocate {file} {how} {at} {size}")
            }
            Self::SetXattr {
                file,
                name,
                size,
                mark,
                how,
            } => {
                let how = word_of(&SETS, *how);
                write!(f, "{how} {file} {name} {size} {mark}")
            }
            Self::RemoveXattr { file, name } => write!(f, "removexattr {file} {name}"),
            Self::Chmod { file, permissions } => write!(f, "chmod {file} {permissions:o}"),
            Self::Fsync(file) => write!(f, "fsync {file}"),
            Self::Fdatasync(file) => write!(f, "fdatasync {file}"),
            Self::Sync => f.write_str("sync"),
            Self::FlushOld => f.write_str("flush-old"),
            Self::Tick => f.write_str("tick"),
            Self::Remount => f.write_str("remount"),
            Self::Recover => f.write_str("recover"),
            Self::Read {
                file,
                at,
                size,
                direct,
            } => {
                let direct = if *direct { " direct" } else { "" };
                write!(f, "read {file} {at} {size}{direct}")
            }
        }
    }
}

/// A line that says no operation.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "`{0}` is no operation; they look like `rename A/foo B/bar` or `write foo end 64 1 direct`"
)]
pub struct NoOperation(pub(super) String);

impl FromStr for Op {
    type Err = NoOperation;

    fn from_str(line: &str) -> Result<Self, NoOperation> {
        let words: Vec<&str> = line.split_whitespace().collect();
        parse(&words).ok_or_else(|| NoOperation(line.to_owned()))
    }
}

fn parse(words: &[&str]) -> Option<Op> {
    let (verb, rest) = words.split_first()?;
    let path = |at: usize| rest.get(at).map(|word| (*word).to_owned());
    let file = |at: usize| {
        let word = rest.get(at)?;
        match word.strip_prefix('%') {
            Some(number) => number.parse().ok().map(File::Open),
            None => Some(File::Path((*word).to_owned())),
        }
    };
    let number = |at: usize| rest.get(at)?.parse::<u64>().ok();
    let small = |at: usize| rest.get(at)?.parse::<u32>().ok();
    let count = |wanted: usize| (rest.len() == wanted).then_some(());
    if let Some(how) = value_of(&RENAMES, verb) {
        count(2)?;
        let (from, to) = (path(0)?, path(1)?);
        return Some(Op::Rename { from, to, how });
    }
    if let Some(how) = value_of(&SETS, verb) {
        count(4)?;
        return Some(Op::SetXattr {
            file: file(0)?,
            name: path(1)?,
            size: small(2)?,
            mark: small(3)?,
            how,
        });
    }
    let wanted = match *verb {
        "sync" | "flush-old" | "tick" | "remount" | "recover" => 0,
        "create" | "mkdir" | "mkfifo" | "unlink" | "rmdir" | "close" | "fsync" | "fdatasync" => 1,
        "symlink" | "link" | "open" | "truncate" | "removexattr" | "chmod" => 2,
        "fallocate" => 4,
        _ => rest.len(),
    };
    count(wanted)?;
    Some(match *verb {
        "create" => Op::Create(path(0)?),
        "mkdir" => Op::Mkdir(path(0)?),
        "mkfifo" => Op::Mkfifo(path(0)?),
        "symlink" => Op::Symlink {
            target: path(0)?,
            path: path(1)?,
        },
        "link" => Op::Link {
            from: file(0)?,
            to: path(1)?,
        },
        "unlink" => Op::Unlink(path(0)?),
        "rmdir" => Op::Rmdir(path(0)?),
        "open" => Op::Open(path(0)?, rest[1].parse().ok()?),
        "close" => Op::Close(rest[0].parse().ok()?),
        "write" => {
            let flags = rest.get(4..)?;
            let known = |flag: &&str| ["direct", "sync"].contains(flag);
            flags.iter().all(known).then_some(())?;
            Op::Write {
                file: file(0)?,
                at: match rest[1] {
                    "end" => At::End,
                    _ => At::Byte(number(1)?),
                },
                size: small(2)?,
                mark: small(3)?,
                direct: flags.contains(&"direct"),
                sync: flags.contains(&"sync"),
            }
        }
        "truncate" => Op::Truncate {
            file: file(0)?,
            size: number(1)?,
        },
        "fallocate" => Op::Fallocate {
            file: file(0)?,
            how: value_of(&ALLOCATES, rest[1])?,
            at: number(2)?,
            size: number(3)?,
        },
        "removexattr" => Op::RemoveXattr {
            file: file(0)?,
            name: path(1)?,
        },
        "chmod" => Op::Chmod {
            file: file(0)?,
            permissions: u16::from_str_radix(rest[1], 8).ok()?,
        },
        "fsync" => Op::Fsync(file(0)?),
        "fdatasync" => Op::Fdatasync(file(0)?),
        "sync" => Op::Sync,
        "flush-old" => Op::FlushOld,
        "tick" => Op::Tick,
        "remount" => Op::Remount,
        "recover" => Op::Recover,
        "read" => {
            let flags = rest.get(3..)?;
            flags.iter().all(|flag| *flag == "direct").then_some(())?;
            Op::Read {
                file: file(0)?,
                at: number(1)?,
                size: small(2)?,
                direct: !flags.is_empty(),
            }
        }
        _ => return None,
    })
}

/// Operations, one a line; empty lines and what is behind `#` say nothing.
///
/// # Errors
/// The first line that says none.
pub fn parse_all(text: &str) -> Result<Vec<Op>, NoOperation> {
    let lines = text
        .lines()
        .map(|line| line.split('#').next().unwrap_or(""));
    let lines = lines.filter(|line| !line.trim().is_empty());
    lines.map(|line| line.trim().parse()).collect()
}

/// Operations as text, one a line.
pub fn to_text(ops: &[Op]) -> String {
    ops.iter().map(|op| format!("{op}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read() {
        let text = "create foo\nmkdir A/C\nmkfifo p\nsymlink A/foo bar\nlink foo A/bar\nlink %1 bar\n\
                    rename A/foo B/bar\nrename-noreplace foo bar\nrename-exchange A B\n\
                    rename-whiteout foo bar\nrename-whiteout-noreplace A/foo bar\n\
                    unlink foo\nrmdir A/C\nopen foo 1\nclose 1\nwrite foo end 64 7\n\
                    write %1 4096 8192 7 direct sync\ntruncate foo 100\n\
                    fallocate foo punch 4096 4096\nsetxattr foo user.a 30 1\n\
                    setxattr-create %2 user.b 300 2\nremovexattr foo user.a\nchmod foo 4755\n\
                    fsync .\nfdatasync %1\nsync\nflush-old\ntick\nremount\nrecover\nread foo 0 100\nread foo 0 512 direct\n";
        let ops = parse_all(text).unwrap();
        assert_eq!(to_text(&ops), text);
        assert_eq!(parse_all("# nothing\n\n sync # all\n").unwrap(), [Op::Sync]);
    }

    #[test]
    fn what_says_no_operation_is_refused() {
        for line in [
            "crate foo",
            "create",
            "create a b",
            "write foo end 64",
            "sync now",
        ] {
            let error = line.parse::<Op>().unwrap_err().to_string();
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn bytes_are_never_zero_and_say_whose_they_are() {
        let (one, other) = (data(1, 0, 4096), data(2, 0, 4096));
        assert!(one.iter().chain(&other).all(|byte| *byte != 0));
        let same = one.iter().zip(&other).filter(|(one, other)| one == other);
        assert!(same.count() < 100);
        assert_eq!(data(1, 100, 50), one[100..150]);
    }
}
