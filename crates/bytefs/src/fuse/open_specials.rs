//! Contents of the server's own files, each as it was when it was opened.

use fuser::FileHandle;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What is open of them.
#[derive(Default)]
pub(super) struct OpenSpecials(Mutex<Table>);

#[derive(Default)]
struct Table {
    next: u64,
    contents: BTreeMap<u64, String>,
}

impl OpenSpecials {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file was opened.
    pub fn add(&self, content: String) -> FileHandle {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        table.contents.insert(number, content);
        FileHandle(number)
    }

    /// It says something else now.
    pub fn replace(&self, handle: FileHandle, content: String) {
        if let Some(place) = self.table().contents.get_mut(&handle.0) {
            *place = content;
        }
    }

    /// A part of it; nothing behind its end.
    pub fn read(&self, handle: FileHandle, at: u64, size: usize) -> Vec<u8> {
        let table = self.table();
        let content = table.contents.get(&handle.0).map_or("", String::as_str);
        let bytes = content.as_bytes();
        let from = usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let to = from.saturating_add(size).min(bytes.len());
        bytes[from..to].to_vec()
    }

    /// It was closed.
    pub fn remove(&self, handle: FileHandle) {
        self.table().contents.remove(&handle.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_opened_stays_as_it_was_until_it_is_closed() {
        let open = OpenSpecials::default();
        let (first, second) = (open.add("first".into()), open.add("second".into()));
        assert_eq!(open.read(first, 0, 100), b"first");
        assert_eq!(open.read(second, 3, 2), b"on");
        assert_eq!(open.read(second, u64::MAX, usize::MAX), b"");
        open.remove(first);
        assert_eq!(open.read(first, 0, 100), b"");
        assert_eq!(open.read(second, 0, 1), b"s");
    }
}
