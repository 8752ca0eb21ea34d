//! What a mount is told.

use crate::costs::CpuCosts;
use crate::shortcuts::Shortcuts;
use crate::state::pmem::DaxAt;
use core::str::FromStr;
use units::{Bytes, Ratio};

/// How a file system is mounted.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// Pages of files that are cached (§4.6: 8 GB at most in the paper).
    pub cache: Bytes,
    /// Metadata that is cached beside the bitmaps.
    pub metadata_cache: Bytes,
    /// Nothing is changed, not even by recovery: what needs recovery is refused, unless the device
    /// forgets it.
    pub read_only: bool,
    /// The device forgets what is written to it ([`Overlay::keeping`](crate::Overlay::keeping)): a
    /// mount that is read-only recovers what a power cut has left, and nothing of that stays.
    pub is_forgotten: bool,
    /// Cores that take blocks and inodes from groups of their own.
    pub cores: u32,
    /// What the file system's code costs, in virtual time.
    pub costs: CpuCosts,
    /// A page of which this share of lines has changed, or more, goes by blocks (§4.6: 1/8).
    pub blocks_from: Ratio,
    /// What is durable as a whole.
    pub data: DataMode,
    /// Ranges of files that are synced often go to the device's persistent memory.
    pub dax: Option<dax::Settings>,
    /// What of the device that persistent memory is; None: its window, or the log of a device
    /// without a window whose log alone survives a power cut.
    pub dax_at: Option<DaxAt>,
    /// Whether blocks of metadata are read before anybody needs them; None: as the personality has
    /// it.
    pub reads_ahead: Option<bool>,
    /// Whether a new directory has a block of its own at once; None: as the personality has it.
    pub first_blocks: Option<bool>,
    /// The host keeps contents of files in a page cache. Without one a read loads from the device
    /// what it asks for, and a write stores there what it brings (DAX), as on persistent memory: of
    /// `pmfs-like` and `nova-like`, whose originals do so.
    pub page_cache: bool,
    /// The device is told of free blocks, so that they read as zeroes before lines of them are
    /// written. If not, zeroes are written to them: stored, where metadata is stored in place.
    pub trims: bool,
    /// What a simulated run saves.
    pub shortcuts: Shortcuts,
}

/// What of contents is durable as a whole (§4.6).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum DataMode {
    /// Lines and pages: metadata never shows contents that are not there.
    #[default]
    Ordered,
    /// Each write, and what a sync of a file makes durable of its contents: overwritten blocks go
    /// to a journal first.
    Journal,
}

impl DataMode {
    /// As users say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ordered => "ordered",
            Self::Journal => "journal",
        }
    }
}

impl FromStr for DataMode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut all = [Self::Ordered, Self::Journal].into_iter();
        let found = all.find(|mode| mode.name() == text);
        found.ok_or_else(|| format!("data={text} is none; choose data=ordered or data=journal"))
    }
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            cache: Bytes::from_mib(256),
            metadata_cache: Bytes::from_mib(64),
            read_only: false,
            is_forgotten: false,
            cores: 4,
            costs: CpuCosts::default(),
            blocks_from: Ratio::new(1, 8),
            dax: None,
            dax_at: None,
            data: DataMode::Ordered,
            reads_ahead: None,
            first_blocks: None,
            page_cache: true,
            trims: true,
            shortcuts: Shortcuts::default(),
        }
    }
}
