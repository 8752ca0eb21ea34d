//! Looks on while a program uses a mount, and writes down what it sees.

use super::op::{Entry, Kind, Op, digits};
use super::text::Recording;
use bytefs::fuse::{Asked, WallClock, Witness, asker};
use bytefs::{DAX_ATTRIBUTE, FileKind, FileSystem, FsError, Ino};
use port::{Clock, Device};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Names of a directory that are asked for at a time.
const NAMES: usize = 256;
/// Bytes of a file that are asked for at a time.
const READ: usize = 1 << 20;

/// Writes down what a mounted file system is asked for.
pub struct Recorder {
    clock: WallClock,
    book: Mutex<Book>,
}

#[derive(Default)]
struct Book {
    before: Vec<Entry>,
    entries: Vec<Entry>,
    /// By the number that the kernel has for a thread.
    threads: BTreeMap<u32, u32>,
}

impl Recorder {
    /// From what is there now on, of which everything is read.
    ///
    /// # Errors
    /// Something cannot be read.
    pub async fn new<D: Device, C: Clock>(fs: &FileSystem<D, C>) -> Result<Self, FsError> {
        let before = tree(fs).await?;
        let book = Book {
            before,
            ..Book::default()
        };
        Ok(Self {
            clock: WallClock::start(),
            book: Mutex::new(book),
        })
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn nanos(&self) -> u64 {
        self.clock.now().as_picos() / 1_000
    }

    /// What was seen so far. Operations under way are not among it.
    pub fn recording(&self) -> Recording {
        let book = self.book();
        let over = book
            .entries
            .iter()
            .filter(|entry| entry.end_ns != UNDER_WAY);
        Recording {
            before: book.before.clone(),
            entries: over.cloned().collect(),
        }
    }
}

/// The end of what has not ended.
const UNDER_WAY: u64 = u64::MAX;

impl Witness for Recorder {
    fn began(&self, asked: &Asked<'_>) -> u64 {
        // Contents are summed up before the clock is looked at: that is no time of the program's.
        let op = Op::of(asked);
        let mut book = self.book();
        let next = book.threads.len() as u32;
        let thread = *book.threads.entry(asker()).or_insert(next);
        let begin_ns = self.nanos();
        book.entries.push(Entry {
            thread,
            begin_ns,
            end_ns: UNDER_WAY,
            op,
            found: None,
            error: None,
        });
        book.entries.len() as u64 - 1
    }

    fn ended(&self, number: u64, _: &Asked<'_>, done: Result<Option<Ino>, i32>) {
        let end_ns = self.nanos();
        let mut book = self.book();
        if let Some(entry) = book.entries.get_mut(number as usize) {
            entry.end_ns = end_ns;
            match done {
                Ok(found) => entry.found = found.map(|ino| ino.0),
                Err(number) => entry.error = Some(number),
            }
        }
    }
}

/// What is there, as operations that make it.
async fn tree<D: Device, C: Clock>(fs: &FileSystem<D, C>) -> Result<Vec<Entry>, FsError> {
    let mut made = Vec::new();
    let mut known: BTreeMap<Ino, ()> = BTreeMap::new();
    let mut directories = vec![Ino::ROOT];
    while let Some(directory) = directories.pop() {
        let mut from = 0;
        loop {
            let names = fs.readdir(directory, from, NAMES).await?;
            let Some(last) = names.last() else { break };
            from = last.next;
            for name in names {
                if name.name == b"." || name.name == b".." {
                    continue;
                }
                let text = String::from_utf8_lossy(&name.name).into_owned();
                if known.insert(name.ino, ()).is_some() {
                    made.push(entry(
                        Op::Link {
                            ino: name.ino.0,
                            parent: directory.0,
                            name: text,
                        },
                        name.ino,
                    ));
                    continue;
                }
                made.push(entry(
                    made_again(fs, directory, text, name.ino).await?,
                    name.ino,
                ));
                match name.kind {
                    FileKind::Directory => directories.push(name.ino),
                    FileKind::Regular => contents(fs, name.ino, &mut made).await?,
                    _ => {}
                }
            }
        }
    }
    Ok(made)
}

fn entry(op: Op, ino: Ino) -> Entry {
    Entry {
        thread: 0,
        begin_ns: 0,
        end_ns: 0,
        op,
        found: Some(ino.0),
        error: None,
    }
}

async fn made_again<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    parent: Ino,
    name: String,
    ino: Ino,
) -> Result<Op, FsError> {
    let attr = fs.getattr(ino).await?;
    let parent = parent.0;
    if attr.kind == FileKind::Symlink {
        let target = fs.readlink(ino).await?;
        let target = String::from_utf8_lossy(&target).into_owned();
        return Ok(Op::Symlink {
            parent,
            name,
            target,
        });
    }
    Ok(Op::Make {
        parent,
        name,
        kind: Kind::of(attr.kind),
        permissions: attr.permissions,
        is_opened: false,
    })
}

async fn contents<D: Device, C: Clock>(
    fs: &FileSystem<D, C>,
    ino: Ino,
    made: &mut Vec<Entry>,
) -> Result<(), FsError> {
    let size = fs.getattr(ino).await?.size;
    let truncate = Op::Setattr {
        ino: ino.0,
        size: Some(size),
    };
    made.push(entry(truncate, ino));
    let mut at = 0;
    while at < size {
        let bytes = fs.read(ino, at, READ, false).await?;
        if bytes.is_empty() {
            break;
        }
        if bytes.iter().any(|byte| *byte != 0) {
            made.push(entry(
                Op::Write {
                    ino: ino.0,
                    at,
                    size: bytes.len(),
                    direct: false,
                    sync: false,
                    sums: digits(at, &bytes),
                },
                ino,
            ));
        }
        at += bytes.len() as u64;
    }
    match fs.get_xattr(ino, DAX_ATTRIBUTE).await {
        Ok(value) => {
            let asked = Asked::SetXattr {
                ino,
                name: DAX_ATTRIBUTE,
                value: &value,
            };
            made.push(entry(Op::of(&asked), ino));
            Ok(())
        }
        Err(FsError::NoAttribute) => Ok(()),
        Err(error) => Err(error),
    }
}
