//! What is noted while a program runs: device operations, syncs, and how far its output has come.

use crate::crash::{Event, Image, Journal};
use bytefs::Ino;
use bytefs::fuse::{Asked, Witness};
use port::{Command, Shape};
use std::collections::BTreeMap;
use std::fs::File;
use std::sync::{Mutex, MutexGuard, PoisonError};
use units::{ByteAddr, Bytes};

/// Takes notes. One lock orders everything, so what is noted first has happened first.
pub struct Notes {
    /// What the program writes its output to; its size says how far that has come.
    output: Option<File>,
    book: Mutex<Book>,
}

#[derive(Default)]
pub(super) struct Book {
    journal: Journal,
    /// By event: bytes of output before it and behind it.
    output: Vec<(u64, u64)>,
    /// By number: what was synced.
    syncs: Vec<String>,
    names: BTreeMap<Ino, (Ino, Vec<u8>)>,
    ended: usize,
    /// Operations that change something.
    changes: u64,
}

/// What a program has made a device do.
#[derive(Debug)]
pub struct Trial {
    /// The device.
    pub shape: Shape,
    /// What survives for certain before the first event.
    pub base: Image,
    /// Device operations, and syncs of files by their numbers.
    pub events: Vec<Event>,
    /// By event: bytes of output that the program had written before it and behind it.
    pub output: Vec<(u64, u64)>,
    /// By number: what was synced.
    pub syncs: Vec<String>,
    /// Events before the program ended.
    pub ended: usize,
    /// Operations by which programs changed something.
    pub changes: u64,
    /// All its output, in bytes.
    pub output_end: u64,
}

impl Notes {
    /// On a program that writes to this file.
    pub fn new(output: Option<File>) -> Self {
        Self {
            output,
            book: Mutex::default(),
        }
    }

    pub(super) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many bytes the program has written to its output. A program that has taken the file
    /// away has written none.
    fn written(&self) -> u64 {
        let size = self.output.as_ref().map(File::metadata);
        size.and_then(Result::ok).map_or(0, |known| known.len())
    }

    /// Notes something. The output is looked at on both sides of it: before, all that is counted
    /// was written before this event; behind, before the next one.
    pub(super) fn note<T>(&self, book: &mut Book, with: impl FnOnce(&mut Book) -> T) -> T {
        let before = self.written();
        let first = book.journal.events.len();
        let done = with(book);
        let behind = self.written();
        for _ in first..book.journal.events.len() {
            book.output.push((before, behind));
        }
        done
    }

    /// The program has ended.
    pub fn end_program(&self) {
        let mut book = self.book();
        book.ended = book.journal.events.len();
    }

    /// What was noted, over what survived before.
    ///
    /// # Errors
    /// The device has committed a transaction in parts: what a power cut leaves is not known then.
    pub(super) fn trial(&self, shape: Shape, base: Image) -> Result<Trial, String> {
        let mut book = self.book();
        if book.journal.splits > 0 {
            return Err(
                "a transaction was larger than the device's log takes at once; give a larger device"
                    .to_owned(),
            );
        }
        Ok(Trial {
            shape,
            base,
            events: std::mem::take(&mut book.journal.events),
            output: std::mem::take(&mut book.output),
            syncs: std::mem::take(&mut book.syncs),
            ended: book.ended,
            changes: book.changes,
            output_end: self.written(),
        })
    }
}

impl Book {
    pub(super) fn journal(&mut self) -> &mut Journal {
        &mut self.journal
    }

    pub(super) fn abort(&mut self, tx: units::TxId) {
        let nowhere = (ByteAddr::new(0), Bytes::ZERO);
        if let Some(request) = self.journal.submit(Command::Abort(tx), nowhere, &[]) {
            self.journal.finish(request, true);
        }
    }

    fn path(&self, ino: Ino) -> String {
        let mut parts = Vec::new();
        let mut at = ino;
        while at != Ino::ROOT && parts.len() < 64 {
            let Some((parent, name)) = self.names.get(&at) else {
                return format!("inode {}", ino.0);
            };
            parts.push(String::from_utf8_lossy(name).into_owned());
            at = *parent;
        }
        parts.reverse();
        match parts.is_empty() {
            true => ".".to_owned(),
            false => parts.join("/"),
        }
    }

    fn renamed(&mut self, old: (Ino, &[u8]), new: (Ino, &[u8])) {
        let is_it = |of: &(Ino, Vec<u8>)| of.0 == old.0 && of.1 == old.1;
        let found = self.names.iter().find(|(_, of)| is_it(of));
        if let Some(ino) = found.map(|(ino, _)| *ino) {
            self.names.insert(ino, (new.0, new.1.to_vec()));
        }
    }
}

/// Of an operation that is no sync.
const NONE: u64 = u64::MAX;

impl Witness for Notes {
    fn began(&self, asked: &Asked<'_>) -> u64 {
        let what = |book: &Book| match asked {
            Asked::Fsync { ino, data_only } => {
                let call = if *data_only { "fdatasync" } else { "fsync" };
                Some(format!("{call} of {}", book.path(*ino)))
            }
            Asked::Write { ino, options, .. } if options.sync => {
                Some(format!("synchronous write of {}", book.path(*ino)))
            }
            Asked::Sync => Some("sync of everything".to_owned()),
            _ => None,
        };
        let mut book = self.book();
        let Some(what) = what(&book) else {
            return NONE;
        };
        let number = book.syncs.len();
        book.syncs.push(what);
        self.note(&mut book, |book| {
            book.journal.events.push(Event::Began(number));
        });
        number as u64
    }

    fn ended(&self, number: u64, asked: &Asked<'_>, done: Result<Option<Ino>, i32>) {
        let Ok(found) = done else { return };
        if asked.is_change() {
            self.book().changes += 1;
        }
        if number != NONE {
            let mut book = self.book();
            return self.note(&mut book, |book| {
                book.journal.events.push(Event::Ended(number as usize));
            });
        }
        let named = match asked {
            Asked::Lookup { parent, name }
            | Asked::Make { parent, name, .. }
            | Asked::Symlink { parent, name, .. } => found.map(|ino| (ino, *parent, *name)),
            Asked::Link { ino, parent, name } => Some((*ino, *parent, *name)),
            Asked::Rename {
                from,
                name,
                to,
                new_name,
                ..
            } => return self.book().renamed((*from, name), (*to, new_name)),
            _ => None,
        };
        if let Some((ino, parent, name)) = named {
            self.book().names.insert(ino, (parent, name.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_have_the_names_that_their_files_have_then() {
        let notes = Notes::new(None);
        let (directory, file) = (Ino(5), Ino(6));
        let lookup = |parent, name| Asked::Lookup { parent, name };
        notes.ended(NONE, &lookup(Ino::ROOT, b"d"), Ok(Some(directory)));
        notes.ended(NONE, &lookup(directory, b"f"), Ok(Some(file)));
        notes.ended(NONE, &lookup(directory, b"none"), Err(2));
        let fsync = Asked::Fsync {
            ino: file,
            data_only: false,
        };
        assert_eq!(notes.began(&fsync), 0);
        notes.ended(0, &fsync, Ok(None));
        let rename = Asked::Rename {
            from: directory,
            name: b"f",
            to: Ino::ROOT,
            new_name: b"g",
            how: bytefs::Rename::Replace,
        };
        notes.ended(notes.began(&rename), &rename, Ok(None));
        notes.began(&fsync);
        let unknown = Asked::Fsync {
            ino: Ino(9),
            data_only: true,
        };
        notes.began(&unknown);
        let shape = Shape::plain(Bytes::new(4096), Bytes::new(4096));
        let trial = notes.trial(shape, Image::new(shape.capacity)).unwrap();
        let wanted = ["fsync of d/f", "fsync of g", "fdatasync of inode 9"];
        assert_eq!(trial.syncs, wanted);
        assert_eq!(trial.events.len(), 4);
        assert_eq!(trial.output.len(), 4);
        assert_eq!(trial.changes, 1, "the rename");
    }
}
