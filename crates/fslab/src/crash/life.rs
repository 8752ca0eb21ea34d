//! The life behind a recovery: a power cut under it must leave what the recovery gave and what was
//! synced since.

use crate::crash::journal::{Event, SharedJournal};
use crate::crash::tree::Tree;
use bytefs::FileKind;

/// The file that is made in it, and its bytes.
pub const FILE: (&str, [u8; 20_000]) = ("new", [0x5a; 20_000]);
/// The directory that is made in it.
pub const DIRECTORY: &str = "new directory";

/// How far a life has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stage {
    /// The recovery has ended.
    Begun,
    /// [`FILE`] is synced.
    FileSynced,
    /// Everything is, [`DIRECTORY`] too.
    AllSynced,
    /// Both are being taken away.
    Ending,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Begun, Self::FileSynced, Self::AllSynced, Self::Ending];

    /// Notes that it has come so far.
    pub fn note(self, journal: Option<&SharedJournal>) {
        if let Some(journal) = journal {
            journal.lock().events.push(Event::Ended(self as usize));
        }
    }

    /// Of an event of a journal, if it says one.
    pub fn of(event: &Event) -> Option<Self> {
        match event {
            Event::Ended(stage) => Self::ALL.get(*stage).copied(),
            _ => None,
        }
    }

    /// Whether a tree may be what is left: `before` is what the recovery gave, whose files have
    /// only grown.
    ///
    /// # Errors
    /// What is wrong, one sentence.
    pub fn check(self, before: &Tree, after: &Tree) -> Result<(), String> {
        for (path, entry) in &before.0 {
            let found = after.0.get(path);
            let found = found.ok_or_else(|| format!("{path} was recovered and is gone"))?;
            let size = entry.contents.size() as usize;
            if found.meta.kind != entry.meta.kind || found.contents.size() < size as u64 {
                return Err(format!("{path} was recovered and is another or shorter"));
            }
            if found.contents.read(0, size) != entry.contents.read(0, size) {
                return Err(format!("{path} was recovered and has other bytes"));
            }
        }
        let synced = [Self::FileSynced, Self::AllSynced].contains(&self);
        let (path, bytes) = FILE;
        let whole = |tree: &Tree| {
            let found = tree.0.get(path)?;
            Some(found.contents.read(0, bytes.len()) == bytes)
        };
        if synced && whole(after) != Some(true) {
            return Err(format!(
                "{path} was synced behind a recovery and is not there"
            ));
        }
        let kind = after.0.get(DIRECTORY).map(|found| found.meta.kind);
        if self == Self::AllSynced && kind != Some(FileKind::Directory) {
            return Err(format!(
                "{DIRECTORY} was synced behind a recovery and is not there"
            ));
        }
        Ok(())
    }
}
