//! Files in memory whose operations take a little time each: what loads and store are tested on
//! apart from any file system.

use super::vfs::Vfs;
use bytefs::{Caller, FsError, Ino, Timestamp};
use port::Clock;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use units::Picos;

enum Node {
    File(Vec<u8>),
    Directory(BTreeMap<Vec<u8>, Ino>),
}

/// See the module.
pub(crate) struct Plain<C> {
    clock: C,
    nodes: RefCell<BTreeMap<Ino, Node>>,
    next: Cell<u32>,
    /// Operations so far.
    pub operations: Cell<u64>,
}

impl<C: Clock> Plain<C> {
    pub fn new(clock: C) -> Self {
        let root = BTreeMap::from([(Ino::ROOT, Node::Directory(BTreeMap::new()))]);
        Self {
            clock,
            nodes: RefCell::new(root),
            next: Cell::new(2),
            operations: Cell::new(0),
        }
    }

    /// A microsecond, and one for each 4 KiB.
    async fn work(&self, size: usize) {
        self.operations.set(self.operations.get() + 1);
        let span = Picos::from_micros(1 + size as u64 / 4096);
        self.clock.spend(span).await;
    }

    fn add(&self, parent: Ino, name: &[u8], node: Node) -> Result<Ino, FsError> {
        let mut nodes = self.nodes.borrow_mut();
        let ino = Ino(self.next.get());
        match nodes.get_mut(&parent) {
            Some(Node::Directory(names)) if names.contains_key(name) => Err(FsError::Exists),
            Some(Node::Directory(names)) => {
                names.insert(name.to_vec(), ino);
                nodes.insert(ino, node);
                self.next.set(ino.0 + 1);
                Ok(ino)
            }
            _ => Err(FsError::NotDirectory),
        }
    }

    fn remove(&self, parent: Ino, name: &[u8], is_directory: bool) -> Result<(), FsError> {
        let mut nodes = self.nodes.borrow_mut();
        let Some(Node::Directory(names)) = nodes.get(&parent) else {
            return Err(FsError::NotDirectory);
        };
        let ino = *names.get(name).ok_or(FsError::NotFound)?;
        match nodes.get(&ino) {
            Some(Node::Directory(names)) if is_directory && names.is_empty() => {
                nodes.remove(&ino);
            }
            Some(Node::Directory(_)) if is_directory => return Err(FsError::NotEmpty),
            Some(Node::Directory(_)) => return Err(FsError::IsDirectory),
            _ if is_directory => return Err(FsError::NotDirectory),
            // An open file stays; nobody counts them here.
            _ => {}
        }
        if let Some(Node::Directory(names)) = nodes.get_mut(&parent) {
            names.remove(name);
        }
        Ok(())
    }

    fn file<T>(&self, ino: Ino, with: impl FnOnce(&mut Vec<u8>) -> T) -> Result<T, FsError> {
        match self.nodes.borrow_mut().get_mut(&ino) {
            Some(Node::File(bytes)) => Ok(with(bytes)),
            Some(Node::Directory(_)) => Err(FsError::IsDirectory),
            None => Err(FsError::Stale),
        }
    }
}

impl<C: Clock> Vfs for Plain<C> {
    async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<(Ino, u64), FsError> {
        self.work(0).await;
        let nodes = self.nodes.borrow();
        let Some(Node::Directory(names)) = nodes.get(&parent) else {
            return Err(FsError::NotDirectory);
        };
        let ino = *names.get(name).ok_or(FsError::NotFound)?;
        match nodes.get(&ino) {
            Some(Node::File(bytes)) => Ok((ino, bytes.len() as u64)),
            _ => Ok((ino, 0)),
        }
    }
    async fn size(&self, ino: Ino) -> Result<u64, FsError> {
        self.work(0).await;
        self.file(ino, |bytes| bytes.len() as u64)
    }
    async fn create(&self, _: &Caller, parent: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.work(0).await;
        self.add(parent, name, Node::File(Vec::new()))
    }
    async fn mkdir(&self, _: &Caller, parent: Ino, name: &[u8]) -> Result<Ino, FsError> {
        self.work(0).await;
        self.add(parent, name, Node::Directory(BTreeMap::new()))
    }
    async fn unlink(&self, _: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        self.work(0).await;
        self.remove(parent, name, false)
    }
    async fn rmdir(&self, _: &Caller, parent: Ino, name: &[u8]) -> Result<(), FsError> {
        self.work(0).await;
        self.remove(parent, name, true)
    }
    async fn open(&self, _: Ino) -> Result<(), FsError> {
        self.work(0).await;
        Ok(())
    }
    async fn release(&self, _: Ino) -> Result<(), FsError> {
        self.work(0).await;
        Ok(())
    }
    async fn read(&self, ino: Ino, at: u64, size: usize) -> Result<Vec<u8>, FsError> {
        self.work(size).await;
        self.file(ino, |bytes| {
            let from = (at as usize).min(bytes.len());
            let to = from.saturating_add(size).min(bytes.len());
            bytes[from..to].to_vec()
        })
    }
    async fn write(
        &self,
        _: &Caller,
        ino: Ino,
        at: u64,
        data: &[u8],
        _: bool,
    ) -> Result<(), FsError> {
        self.work(data.len()).await;
        self.file(ino, |bytes| {
            let at = at as usize;
            if bytes.len() < at + data.len() {
                bytes.resize(at + data.len(), 0);
            }
            bytes[at..at + data.len()].copy_from_slice(data);
        })
    }
    async fn fsync(&self, _: Ino) -> Result<(), FsError> {
        self.work(0).await;
        Ok(())
    }
    async fn flush_old(&self, _: Timestamp) -> Result<(), FsError> {
        Ok(())
    }
}
