//! The file being written: under a temporary name until it is complete.

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::{Path, PathBuf};
use trace::chunk::StreamId;
use trace::container::{CaptureWriter, StreamInfo, VirtualPage};
use trace::dictionary::Dictionary;
use trace::{Fault, Provenance};

use crate::stream::Chunk;

/// The capture's file.
pub struct Output {
    writer: CaptureWriter<File>,
    path: PathBuf,
    temporary: Option<PathBuf>,
    /// A footer follows the chunks.
    complete: bool,
    /// Nothing more is accepted.
    sealed: bool,
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
        let writer = CaptureWriter::new(File::create(&temporary)?)?;
        let path = path.to_path_buf();
        Ok(Self {
            writer,
            path,
            temporary: Some(temporary),
            complete: false,
            sealed: false,
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
