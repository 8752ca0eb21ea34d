//! Operations by chance, most of which can be done.

use crate::crash::op::{At, File, Op, Path};
use bytefs::{Allocate, Rename, SetXattr};
use units::Stream;

const NAMES: [&str; 5] = ["foo", "bar", "A", "B", "C"];
const XATTRS: [&str; 3] = ["user.a", "user.b", "user.with-a-longer-name"];
/// Files are shorter than this, but for what a write at the end adds.
const SIZE: u64 = 60_000;

/// An operation; `mark` is of no other one. What it draws depends on the word alone, so that a
/// sequence of words can be made shorter.
pub fn op(word: u64, mark: u32) -> Op {
    let stream = &mut Stream::new(word, "fslab/random");
    match stream.below(40) {
        0..=3 => Op::Create(path(stream)),
        4..=5 => Op::Mkdir(path(stream)),
        6 => Op::Mkfifo(path(stream)),
        7 => Op::Symlink {
            target: "t".repeat(1 + stream.below(400) as usize),
            path: path(stream),
        },
        8..=9 => Op::Link {
            from: File::Path(path(stream)),
            to: path(stream),
        },
        10..=13 => Op::Rename {
            from: path(stream),
            to: path(stream),
            how: [
                Rename::Replace,
                Rename::NoReplace,
                Rename::Exchange,
                Rename::Whiteout,
                Rename::WhiteoutNoReplace,
            ][(stream.below(7) as usize).saturating_sub(2)],
        },
        14..=15 => Op::Unlink(path(stream)),
        16 => Op::Rmdir(path(stream)),
        17 => Op::Open(path(stream), stream.below(3) as u8),
        18 => Op::Close(stream.below(3) as u8),
        19..=25 => write(stream, mark),
        26..=27 => Op::Truncate {
            file: file(stream),
            size: place(stream),
        },
        28..=29 => Op::Fallocate {
            file: file(stream),
            how: [
                Allocate::Grow,
                Allocate::KeepSize,
                Allocate::PunchHole,
                Allocate::ZeroRange,
                Allocate::ZeroRangeKeepSize,
            ][stream.below(5) as usize],
            at: place(stream),
            size: stream.below(20_000),
        },
        30..=31 => Op::SetXattr {
            file: file(stream),
            name: XATTRS[stream.below(3) as usize].to_owned(),
            size: stream.below(900) as u32,
            mark,
            how: [SetXattr::Any, SetXattr::Create, SetXattr::Replace][stream.below(3) as usize],
        },
        32 => Op::RemoveXattr {
            file: file(stream),
            name: XATTRS[stream.below(3) as usize].to_owned(),
        },
        33 => Op::Chmod {
            file: file(stream),
            permissions: stream.below(0o10000) as u16,
        },
        34 => Op::Fsync(file(stream)),
        35 => Op::Fdatasync(file(stream)),
        36 => [Op::Sync, Op::FlushOld, Op::Tick][stream.below(3) as usize].clone(),
        _ => Op::Read {
            file: file(stream),
            at: place(stream),
            size: stream.below(20_000) as u32,
            direct: stream.below(2) == 0,
        },
    }
}

fn write(stream: &mut Stream, mark: u32) -> Op {
    let at = match stream.below(3) {
        0 => At::End,
        _ => At::Byte(place(stream)),
    };
    let size = match stream.below(4) {
        0 => 1 + stream.below(64),
        1 => 64 * (1 + stream.below(8)),
        2 => 4096 * (1 + stream.below(3)),
        _ => 1 + stream.below(20_000),
    };
    Op::Write {
        file: file(stream),
        at,
        size: size as u32,
        mark,
        direct: stream.below(3) == 0,
        sync: stream.below(8) == 0,
    }
}

/// A place in a file: often where lines and pages begin.
fn place(stream: &mut Stream) -> u64 {
    let at = stream.below(SIZE);
    match stream.below(4) {
        0 => at / 4096 * 4096,
        1 => at / 64 * 64,
        2 => at / 20,
        _ => at,
    }
}

fn file(stream: &mut Stream) -> File {
    match stream.below(5) {
        0 => File::Open(stream.below(3) as u8),
        _ => File::Path(path(stream)),
    }
}

/// Short paths more often than long ones.
fn path(stream: &mut Stream) -> Path {
    let depth = [1, 1, 1, 2, 2, 3][stream.below(6) as usize];
    let mut names: Vec<String> = (0..depth)
        .map(|level| {
            let directories = if level + 1 < depth { 2 } else { 0 };
            NAMES[directories + stream.below(5 - directories as u64) as usize].to_owned()
        })
        .collect();
    if stream.below(60) == 0 {
        let length = 253 + stream.below(4) as usize;
        names.push("n".repeat(length));
    }
    names.join("/")
}
