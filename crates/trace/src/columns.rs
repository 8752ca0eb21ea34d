//! The columns of a chunk, decompressed, and how far each is read.

use crate::chunk::COLUMNS;
use crate::file::ChunkEntry;
use crate::wire::take_varint;

/// Reads one chunk after the other into the same memory.
#[derive(Clone, Default)]
pub(crate) struct Columns {
    pub(crate) bytes: [Vec<u8>; COLUMNS],
    pub(crate) at: [usize; COLUMNS],
    inflater: Inflater,
}

impl Columns {
    /// Decompresses the columns of a chunk of the file; false if one is not what its head says.
    pub(crate) fn load(&mut self, file: &[u8], entry: &ChunkEntry) -> bool {
        let chunk = &file[entry.place.offset as usize..][..entry.place.len as usize];
        self.at = [0; COLUMNS];
        for (bytes, column) in self.bytes.iter_mut().zip(&entry.columns) {
            let packed = &chunk[column.start as usize..][..column.packed as usize];
            bytes.clear();
            bytes.reserve(column.raw as usize);
            let done = self.inflater.0.decompress_to_buffer(packed, bytes);
            if done.ok() != Some(column.raw as usize) {
                return false;
            }
        }
        true
    }

    /// The next number of a column; `None` at its end, or if it is none.
    #[inline]
    pub(crate) fn varint(&mut self, column: usize) -> Option<u64> {
        take_varint(&self.bytes[column], &mut self.at[column])
    }

    /// Whether all of a column was read.
    pub(crate) fn is_at_end(&self, column: usize) -> bool {
        self.at[column] == self.bytes[column].len()
    }
}

/// A context of the decompressor. It keeps nothing between chunks, so a clone is a new one.
struct Inflater(zstd::bulk::Decompressor<'static>);

impl Default for Inflater {
    fn default() -> Self {
        Self(zstd::bulk::Decompressor::new().expect("a context can be made"))
    }
}

impl Clone for Inflater {
    fn clone(&self) -> Self {
        Self::default()
    }
}
