//! What a file system has moved, by what it was and by which port.

use crate::structures::Structure;

/// What bytes on the way to or from the device are of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    /// Superblock, bitmaps, inodes, extents, directories, attributes.
    Metadata,
    /// The journal on the host's side.
    Journal,
    /// Contents of files.
    Data,
}

impl Class {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Metadata, Self::Journal, Self::Data];

    /// As results say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metadata => "metadata",
            Self::Journal => "journal",
            Self::Data => "data",
        }
    }
}

/// Bytes by port and direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Traffic {
    /// Written by the byte port.
    pub bytes_written: u64,
    /// Read by the byte port.
    pub bytes_read: u64,
    /// Read by the block port.
    pub blocks_read: u64,
    /// Written by the block port.
    pub blocks_written: u64,
}

/// Bytes by direction.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Moved {
    /// From the device.
    pub read: u64,
    /// To the device.
    pub written: u64,
}

/// What a mounted file system has done since it was mounted.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct FsStats {
    /// Metadata's traffic.
    pub metadata: Traffic,
    /// The journal's.
    pub journal: Traffic,
    /// That of contents.
    pub data: Traffic,
    /// Metadata's traffic again, by structure.
    pub(crate) structures: [Moved; Structure::COUNT],
    /// Batches made durable, and lines in them.
    pub batches: u64,
    /// Lines in batches.
    pub batch_lines: u64,
    /// Pages written back by bytes.
    pub pages_by_bytes: u64,
    /// Pages written back by blocks.
    pub pages_by_blocks: u64,
    /// Bytes that programs have read and written.
    pub read: u64,
    /// Bytes that programs have written.
    pub written: u64,
    /// Waits for everything to be durable.
    pub syncs: u64,
    /// Cached pages.
    pub cached_pages: u64,
    /// Cached pages that the device has not as they are.
    pub dirty_pages: u64,
    /// Copies of pages as the device has them (§4.6).
    pub duplicate_pages: u64,
    /// Flushes and persists asked of the device, and journal writes that a flush follows for
    /// themselves (FUA).
    pub flushes: u64,
    /// Blocks forgotten by the device (trim).
    pub trims: u64,
    /// Segments cleaned, where there are such.
    pub cleaned_segments: u64,
    /// Blocks that cleaning has moved.
    pub moved_blocks: u64,
    /// Logs of inodes that were written anew, where there are such.
    pub cleaned_logs: u64,
    /// How often all of them were emptied.
    pub emptied_logs: u64,
}

impl FsStats {
    /// The traffic of a class.
    pub fn of(&self, class: Class) -> &Traffic {
        match class {
            Class::Metadata => &self.metadata,
            Class::Journal => &self.journal,
            Class::Data => &self.data,
        }
    }

    /// What of metadata's traffic was of a structure.
    pub fn of_structure(&self, structure: Structure) -> Moved {
        self.structures[structure as usize]
    }
}

/// The same, being counted.
#[derive(Default)]
pub(crate) struct Counters(pub FsStats);

impl Counters {
    pub fn class(&mut self, class: Class) -> &mut Traffic {
        match class {
            Class::Metadata => &mut self.0.metadata,
            Class::Journal => &mut self.0.journal,
            Class::Data => &mut self.0.data,
        }
    }

    /// Metadata has come by the block port.
    pub fn metadata_read(&mut self, structure: Structure, bytes: u64) {
        self.0.metadata.blocks_read += bytes;
        self.0.structures[structure as usize].read += bytes;
    }

    /// Metadata has gone by the block port.
    pub fn metadata_written(&mut self, structure: Structure, bytes: u64) {
        self.0.metadata.blocks_written += bytes;
        self.0.structures[structure as usize].written += bytes;
    }

    /// Metadata has gone by the byte port.
    pub fn metadata_stored(&mut self, structure: Structure, bytes: u64) {
        self.0.metadata.bytes_written += bytes;
        self.0.structures[structure as usize].written += bytes;
    }
}
