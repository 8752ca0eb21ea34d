//! The file being written: under a temporary name until it is complete.
//!
//! The program shares our table of open files. The capture's descriptor has a high number, out of
//! the way of programs that choose theirs, and is looked at before each write: a program that
//! closes everything must not get our bytes into a file of its own.

#![allow(unsafe_code)]

use crate::api;
use crate::stream::Chunk;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use trace::chunk::StreamId;
use trace::container::{CaptureWriter, StreamInfo, VirtualPage};
use trace::dictionary::Dictionary;
use trace::{Fault, Provenance};

/// The capture's file.
pub struct Output {
    writer: CaptureWriter<File>,
    path: PathBuf,
    temporary: Option<PathBuf>,
    /// A footer follows the chunks.
    complete: bool,
    /// Nothing more is accepted.
    sealed: bool,
    /// Device and number of the file.
    identity: (u64, u64),
}

impl Output {
    /// Creates the file beside `path`.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Fault> {
        let mut name = path.as_os_str().to_owned();
        name.push(".part");
        let temporary = PathBuf::from(name);
        let file = out_of_the_way(File::create(&temporary)?);
        let identity = identity(&file)?;
        Ok(Self {
            writer: CaptureWriter::new(file)?,
            path: path.to_path_buf(),
            temporary: Some(temporary),
            complete: false,
            sealed: false,
            identity,
        })
    }
    /// Appends a chunk, in place of the footer if there is one already.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append(&mut self, chunk: &Chunk) -> Result<(), Fault> {
        if self.sealed {
            return Ok(());
        }
        self.cut_footer()?;
        self.writer.append(&chunk.0, chunk.1)
    }
    /// Writes the footer and gives the file its name. With `seal` nothing follows.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn complete(
        &mut self,
        dictionary: &Dictionary,
        pages: &[VirtualPage],
        streams: &[StreamInfo],
        provenance: &Provenance,
        seal: bool,
    ) -> Result<(), Fault> {
        if self.sealed {
            return Ok(());
        }
        self.cut_footer()?;
        self.writer.finish(dictionary, pages, streams, provenance)?;
        self.complete = true;
        self.sealed = seal;
        if let Some(temporary) = self.temporary.take() {
            std::fs::rename(temporary, &self.path)?;
        }
        Ok(())
    }

    fn cut_footer(&mut self) -> Result<(), Fault> {
        if identity(self.writer.sink()).ok() != Some(self.identity) {
            self.sealed = true;
            return Err(Fault::Io("the program closed the recorder's file".into()));
        }
        if self.complete {
            let end = self.writer.end_of_chunks();
            let file = self.writer.sink();
            file.set_len(end)?;
            file.seek(SeekFrom::Start(end))?;
            self.complete = false;
        }
        Ok(())
    }
}

/// A stream for the footer.
pub fn describe(stream: StreamId, parent: Option<StreamId>, wakes: &[u32]) -> StreamInfo {
    StreamInfo {
        stream,
        parent,
        wakes: wakes.to_vec(),
    }
}

fn identity(file: &File) -> io::Result<(u64, u64)> {
    file.metadata()
        .map(|metadata| (metadata.dev(), metadata.ino()))
}

/// The same open file under a number that programs seldom use; as it is if there is none free.
fn out_of_the_way(file: File) -> File {
    const F_DUPFD_CLOEXEC: i32 = 1030;
    const LOWEST: i32 = 900;
    // SAFETY: gives a new descriptor, owned by nobody else, or a negative number.
    unsafe {
        match api::fcntl(file.as_raw_fd(), F_DUPFD_CLOEXEC, LOWEST) {
            moved if moved >= 0 => File::from_raw_fd(moved),
            _ => file,
        }
    }
}
