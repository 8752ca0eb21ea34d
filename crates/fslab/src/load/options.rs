//! What the file system of a run can be told: section `fs` of the run's parameters.

use super::error::LoadError;
use bytefs::{Batches, Contents, DataMode, HostBlocks, Metadata, MountOptions, Shortcuts};
use serde::{Deserialize, Serialize};
use settings::{Known, Layer};
use std::sync::Arc;
use units::{Bytes, Picos, Ratio};

/// Where contents of files are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ContentsAt {
    /// On the device.
    Device,
    /// In the host's memory, at no cost: the device hears nothing of them.
    Host,
}

/// What of contents is durable as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataAs {
    /// Lines and pages.
    Ordered,
    /// Each write: overwritten blocks go to a journal first.
    Journal,
}

/// Whether ranges of files that are synced often go to the device's persistent memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DaxAs {
    /// None.
    Off,
    /// Those that the policy chooses.
    Auto,
}

/// Who says which ranges these are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DaxPolicyAs {
    /// The thesis's policy.
    Ratio,
    /// Ours, which looks ahead of append streams.
    Predict,
    /// The thesis's with thresholds that follow what upgrades gain.
    Adaptive,
}

/// How batches of changes go to a device with transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BatchesAs {
    /// Each is a transaction of the firmware.
    Transactions,
    /// Lines of none, which nobody waits for.
    Lines,
}

/// Where metadata are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MetadataAt {
    /// On the device.
    Device,
    /// On the device until the run begins, which then keeps what it writes in the host's memory,
    /// at no cost.
    Unwritten,
    /// In the host's memory, at no cost: the device hears nothing of them.
    Host,
}

/// Whether the file system does something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Does {
    /// As the personality has it.
    Own,
    /// In any case.
    On,
    /// Not.
    Off,
}

impl Does {
    const fn asked(self) -> Option<bool> {
        match self {
            Self::Own => None,
            Self::On => Some(true),
            Self::Off => Some(false),
        }
    }
}

/// Whether the file system does something that all personalities do alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IsOn {
    /// It does.
    On,
    /// It does not.
    Off,
}

units::parameters! {
    /// The file system of a run in virtual time.
    pub struct FsConfig: "fs" {
        /// Share of changed lines from which a page is written by blocks, by personalities that
        /// write contents by bytes.
        blocks_from: Ratio, "above 0%, at most 100%", "ByteFS 4.6 (1/8); its artifact: more than 16 of 64 lines";
        /// Where contents of files are: on the device, or in the host's memory at no cost. Not of
        /// personalities with segments.
        contents: ContentsAt, "device or host", "ByteFS 4.6 (device); its artifact: host";
        /// How batches go to a device with transactions: as these, or as lines without COMMIT,
        /// reservation and wait, of which a power cut leaves any part.
        batches: BatchesAs, "transactions or lines", "ByteFS 4.7 (transactions); its artifact: lines";
        /// Where metadata are: on the device; there as far as they were made before the run, which
        /// writes its own to the host's memory at no cost (`unwritten`); or all in the host's
        /// memory (`host`). Of `bytefs` and `bytefs-log` alone.
        metadata: MetadataAt, "device, unwritten or host", "ours: a bound";
        /// Whether blocks of metadata are read before anybody needs them: as the personality has it
        /// (`own`: all but `f2fs-like`, whose inodes have blocks for themselves), or in any case,
        /// or not.
        read_ahead: Does, "own, on or off", "Ext4: inode_readahead_blks";
        /// Whether a new directory has a block of its own at once, which costs a line in a page by
        /// itself: as the personality has it (`own`: `ext4-like` alone), or in any case, or not,
        /// but with its first entry.
        first_blocks: Does, "own, on or off", "Ext4: on; ByteFS is based on Ext4 (4.9) and says nothing";
        /// Whether the host keeps contents of files in a page cache. `off`: reads load them from
        /// the device and writes store them there, by bytes, at once. Of `pmfs-like` and
        /// `nova-like` alone, whose originals have none.
        page_cache: IsOn, "on or off", "ours (on); PMFS and NOVA, as ByteFS 5.1 mounts them: off";
        /// Whether the device is told of blocks that hold nothing (trim), by `mkfs` and before
        /// lines of free blocks are written. `off`: zeroes are written there instead, so that the
        /// device has all of them on flash. Of personalities that write lines.
        trim: IsOn, "on or off", "ours (on); persistent memory and ByteFS's artifact: off";
        /// What of contents is durable as a whole: lines and pages, or each write, of `bytefs` and
        /// `bytefs-log`, which journal overwritten blocks then.
        data: DataAs, "ordered or journal", "ByteFS 4.6 (both; ordered unless asked)";
        /// How much a file that filled the file system was overwritten at random before the load,
        /// in pages over its pages; then it was removed, and small files came and went. Nothing is
        /// discarded, so the flash holds all of it, and has to be cleaned from the first writes on.
        /// 0%: the flash is new.
        aged: Ratio, "0% to 400%", "ByteFS says nothing of its SSD's state; SkyByte VI-A preconditions";
        /// Whether ranges that are synced often go to `device.pmem` (transparent DAX).
        dax: DaxAs, "off or auto", "Transparent DAX (both)";
        /// Who says which ranges these are: the share of writes that syncs write back (`ratio`), or
        /// what looks ahead of append streams besides and lets go what is idle (`predict`), or the
        /// share with thresholds that follow what upgrades gain (`adaptive`).
        dax_policy: DaxPolicyAs, "ratio, predict or adaptive", "Transparent DAX 4.2 (ratio); the others are ours";
        /// U: a range is upgraded above so many write-backs to 100 writes.
        dax_upgrade: u32, "at least dax_downgrade", "Transparent DAX 6 (60)";
        /// D: a range is downgraded below so many write-backs to 100 writes.
        dax_downgrade: u32, "at most dax_upgrade", "Transparent DAX 6 (30)";
        /// F: nothing is decided before so many writes.
        dax_after: u32, "at most 1000000", "Transparent DAX 6 (5)";
        /// G: a range has two to the power of so many pages.
        dax_order: u32, "at most 20", "Transparent DAX 6 (9)";
        /// How long an upgrade that was decided waits before it begins. It takes effect in the sync
        /// that decides it, or in the first one behind this time.
        dax_wait: Picos, "at most 30 days", "ours (0); Transparent DAX 5.1 upgrades in a work queue, of unknown delay";
        /// For how long a write counts.
        dax_write_delay: Picos, "1us to 30 days", "ours: the thesis gives none";
        /// For how long a write-back counts.
        dax_write_back_delay: Picos, "1us to 30 days", "ours: the thesis gives none";
    }
}

/// A configuration of this section.
#[derive(Serialize, Deserialize)]
struct Sections {
    fs: FsConfig,
}

const KNOWN: Known = settings::known! { "fs": FsConfig };
const DEFAULTS: &str = "[fs]\nblocks_from = \"1/8\"\ncontents = \"device\"\nbatches = \"transactions\"\n\
     metadata = \"device\"\nread_ahead = \"own\"\nfirst_blocks = \"own\"\npage_cache = \"on\"\n\
     trim = \"on\"\ndata = \"ordered\"\naged = \"0%\"\n\
     dax = \"off\"\ndax_policy = \"ratio\"\ndax_upgrade = 60\ndax_downgrade = 30\ndax_after = 5\ndax_order = 9\n\
     dax_wait = \"0ns\"\ndax_write_delay = \"20s\"\ndax_write_back_delay = \"10s\"\n";

/// The journal of contents of file systems that have one: three records of the most blocks.
const DATA_JOURNAL: Bytes = Bytes::from_mib(16);

/// What the host has of all mounts of a run instead of the device.
#[derive(Clone, Default, Debug)]
pub(crate) struct Kept {
    contents: Arc<HostBlocks>,
    pub metadata: Arc<HostBlocks>,
}

/// What a file system of a run is told.
#[derive(Clone, PartialEq, Debug)]
pub struct FsOptions(FsConfig);

impl Default for FsOptions {
    fn default() -> Self {
        Self::of(&[]).expect("defaults are parameters")
    }
}

impl FsOptions {
    /// The defaults with assignments over them, `fs.key=value` each.
    ///
    /// # Errors
    /// A key is unknown; a value cannot be.
    pub fn of(assignments: &[&str]) -> Result<Self, LoadError> {
        let refused = |error: settings::Problems| LoadError::Setting(error.to_string());
        let mut layers = vec![Layer::new("defaults", DEFAULTS)];
        for assignment in assignments {
            layers.push(Layer::assignment(assignment).map_err(refused)?);
        }
        let sections: Sections = KNOWN.configuration(&layers).map_err(refused)?;
        let options = Self(sections.fs);
        match options.problem() {
            Some(problem) => Err(LoadError::Setting(problem)),
            None => Ok(options),
        }
    }

    /// What cannot be.
    fn problem(&self) -> Option<String> {
        let aged = self.0.aged;
        if u128::from(aged.numerator()) > u128::from(aged.denominator()) * 4 {
            return Some(format!("fs.aged is {aged}; it must be 0% to 400%"));
        }
        (self.aged().is_some() && self.keeps_contents_on_the_host()).then(|| {
            format!("fs.aged is {aged}, but with fs.contents=host no contents reach the flash")
        })
    }

    /// How much a file was overwritten before the load; None: the flash is new.
    pub(crate) fn aged(&self) -> Option<Ratio> {
        (self.0.aged.numerator() > 0).then_some(self.0.aged)
    }

    /// Whether the device is told of blocks that hold nothing.
    pub(crate) fn trims(&self) -> bool {
        self.0.trim == IsOn::On
    }

    /// Its parameters as text, by key.
    pub fn texts(&self) -> Vec<(String, String)> {
        let texts = KNOWN.texts(&Sections { fs: self.0.clone() });
        let keys = texts.into_iter().flat_map(|(section, keys)| {
            let whole = move |(key, text): (_, String)| (format!("{section}.{key}"), text);
            keys.into_iter().map(whole)
        });
        keys.collect()
    }

    /// Whether the host keeps all contents.
    pub(crate) fn keeps_contents_on_the_host(&self) -> bool {
        self.0.contents == ContentsAt::Host
    }

    /// The journal of contents that the file system is to have.
    pub(crate) fn journal(&self) -> Option<Bytes> {
        match self.0.data {
            DataAs::Ordered => None,
            DataAs::Journal => Some(DATA_JOURNAL),
        }
    }

    /// How ranges are judged.
    fn ranges(&self) -> dax::Settings {
        let kind = match self.0.dax_policy {
            DaxPolicyAs::Ratio => dax::PolicyKind::Ratio,
            DaxPolicyAs::Predict => dax::PolicyKind::Predict,
            DaxPolicyAs::Adaptive => dax::PolicyKind::Adaptive,
        };
        let policy = dax::Ratio {
            upgrade_above: self.0.dax_upgrade,
            downgrade_below: self.0.dax_downgrade,
            after_writes: self.0.dax_after,
        };
        dax::Settings {
            kind,
            policy,
            order: self.0.dax_order,
            wait: self.0.dax_wait,
            write_delay: self.0.dax_write_delay,
            write_back_delay: self.0.dax_write_back_delay,
            ..dax::Settings::default()
        }
    }

    /// The same for a mount.
    pub(crate) fn put_into(&self, options: &mut MountOptions, kept: &Kept) {
        options.blocks_from = self.0.blocks_from;
        options.data = match self.0.data {
            DataAs::Ordered => DataMode::Ordered,
            DataAs::Journal => DataMode::Journal,
        };
        options.dax = match self.0.dax {
            DaxAs::Off => None,
            DaxAs::Auto => Some(self.ranges()),
        };
        options.reads_ahead = self.0.read_ahead.asked();
        options.first_blocks = self.0.first_blocks.asked();
        options.page_cache = self.0.page_cache == IsOn::On;
        options.trims = self.trims();
        options.shortcuts = Shortcuts {
            contents: match self.0.contents {
                ContentsAt::Device => Contents::Device,
                ContentsAt::Host => Contents::Host(Arc::clone(&kept.contents)),
            },
            batches: match self.0.batches {
                BatchesAs::Transactions => Batches::Transactions,
                BatchesAs::Lines => Batches::Lines,
            },
            metadata: match self.0.metadata {
                MetadataAt::Device => Metadata::Device,
                MetadataAt::Unwritten => Metadata::Unwritten(Arc::clone(&kept.metadata)),
                MetadataAt::Host => Metadata::Host(Arc::clone(&kept.metadata)),
            },
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_judged_as_on_a_mount_unless_told() {
        assert_eq!(FsOptions::default().ranges(), dax::Settings::default());
        let told = FsOptions::of(&["fs.dax_order=4", "fs.dax_write_delay=30s"]).unwrap();
        assert_eq!(told.ranges().order, 4);
        assert_eq!(told.ranges().write_delay, Picos::from_micros(30_000_000));
    }

    #[test]
    fn parameters_are_known_and_what_cannot_be_is_one_sentence() {
        assert!(FsOptions::default().0.contents == ContentsAt::Device);
        let host = FsOptions::of(&["fs.contents=host"]).unwrap();
        assert_eq!(host.0.contents, ContentsAt::Host);
        for (assignment, part) in [
            ("fs.contents=disk", "fs.contents"),
            ("fs.data=none", "fs.data"),
            ("fs.metadata=disk", "fs.metadata"),
            ("fs.colour=red", "unknown key fs.colour"),
            ("fs.blocks_from=many", "fs.blocks_from"),
            ("fs.aged=500%", "fs.aged is 500%; it must be 0% to 400%"),
        ] {
            let error = FsOptions::of(&[assignment]).unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
        let both = FsOptions::of(&["fs.aged=50%", "fs.contents=host"]).unwrap_err();
        assert!(both.to_string().contains("no contents reach the flash"));
        assert_eq!(FsOptions::default().aged(), None);
    }
}
