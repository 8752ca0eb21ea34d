//! fsck: looks at everything on a device that is not mounted, and repairs what can be repaired.
//!
//! It walks the tree from the root, so what is in use is what can be reached; bitmaps, counts and
//! lists are compared with that. What contradicts itself is told, and with `repair` made such that
//! everything that can be reached stays: names that lead nowhere go, files without a name come to
//! `lost+found`, counts and bitmaps are made anew. Everything is written by blocks; from the first
//! of them until the last is durable the superblock says that a repair has begun.

mod rebuild;
mod repair;
mod walk;

use crate::fs::{FileSystem, MountOptions, address};
use crate::journal::{self, contents};
use crate::layout::{BLOCK, Superblock};
use crate::logs;
use crate::{BlockNo, FsError, Ino, MountError};
use core::fmt;
use core::pin::Pin;
use port::{Acknowledge, AnyClock, AnyLent, Device, DeviceError};
use walk::Walk;

/// Something that is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// What and where, a sentence.
    pub what: String,
    /// What was done about it; none if nothing was.
    pub repaired: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)?;
        match &self.repaired {
            Some(done) => write!(f, "; {done}"),
            None => Ok(()),
        }
    }
}

/// What was found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CheckReport {
    /// What is wrong, in the order in which it was found.
    pub problems: Vec<Problem>,
    /// It was not unmounted, and what its journal holds was brought to its place first.
    pub was_recovered: bool,
    /// Directories.
    pub directories: u64,
    /// Files of every other kind.
    pub files: u64,
    /// Blocks in use, of files and their metadata.
    pub blocks: u64,
}

impl CheckReport {
    /// Nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// Notes what is wrong, about which nothing was done yet.
    fn tell(&mut self, what: impl Into<String>) {
        self.problems.push(Problem {
            what: what.into(),
            repaired: None,
        });
    }
}

/// Looks at a file system that is not mounted.
///
/// One that was not unmounted is recovered first, which mounting would do too: its journal is
/// replayed, and files that were unlinked while they were open are removed. Without `repair`
/// nothing else is changed; over an [`Overlay`](crate::Overlay) that keeps what is written the
/// device below is not changed at all. What was synced to persistent memory and is not in its files
/// yet stays there until it is: behind a repair the file system is mounted once more for it. If its
/// journal cannot be read, or the device does not take what it holds, that is the only problem told
/// and nothing is repaired: what was synced last may be there alone.
///
/// # Errors
/// There is no file system, or of a later version; the device fails.
pub async fn check<D: Device>(device: &D, repair: bool) -> Result<CheckReport, MountError> {
    look(AnyLent::new(device), repair).await
}

/// What looks at any device, and the file system that it mounts, are compiled here, not with each
/// crate and for each type of device that is looked at.
fn look(device: AnyLent<'_>, repair: bool) -> Looking<'_> {
    Box::pin(async move { look_at(&device, repair).await })
}

type Looking<'d> = Pin<Box<dyn Future<Output = Result<CheckReport, MountError>> + 'd>>;

async fn look_at(device: &AnyLent<'_>, repair: bool) -> Result<CheckReport, MountError> {
    let mut report = CheckReport::default();
    let mut superblock = superblock(device, repair, &mut report).await?;
    if superblock.is_repairing {
        report.tell("a repair was interrupted before all of it was done");
    } else if !superblock.is_clean {
        let recovered = recover(device, &mut superblock, repair, &mut report).await?;
        if recovered == Recovered::Not {
            return Ok(report);
        }
    }
    let mut walk = Walk::new(device, superblock).await?;
    walk.run().await?;
    report.problems.append(&mut walk.problems);
    report.directories = walk.directories;
    report.files = walk.files;
    report.blocks = walk.blocks;
    if repair && !report.problems.is_empty() {
        repair::repair(&mut walk, &mut report).await?;
    }
    Ok(report)
}

/// How problems begin that are not of what the walk finds.
const NOT_UNMOUNTED: &str = "it was not unmounted";

/// What came of a file system that was not unmounted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recovered {
    /// No journal holds anything of it any more: it can be looked at.
    Yes,
    /// What is in its places is not what was made durable, so that nothing may be said or made of
    /// it.
    Not,
}

/// Recovers what was not unmounted, and says why it could not be.
async fn recover<D: Device + Clone>(
    device: &D,
    superblock: &mut Superblock,
    repair: bool,
    report: &mut CheckReport,
) -> Result<Recovered, MountError> {
    let go_on = |repair| {
        if repair {
            Recovered::Yes
        } else {
            Recovered::Not
        }
    };
    if let Some(left) = leave_record(device, superblock, repair, None).await? {
        report.problems.push(left);
        if !repair {
            return Ok(Recovered::Not);
        }
    }
    let fs = FileSystem::mount(device.clone(), AnyClock::Still, MountOptions::default()).await;
    let error = match fs {
        Ok(fs) if fs.failed().is_some() => match fs.failed_to_bring().await {
            Ok(error) => error,
            Err(error) => {
                report.tell(not_unmounted(&error));
                return Ok(Recovered::Not);
            }
        },
        Ok(fs) => match fs.unmount().await {
            Ok(()) => {
                report.was_recovered = true;
                *superblock = crate::fs::read_superblock(device).await?;
                return Ok(Recovered::Yes);
            }
            Err(error) => {
                report.tell(not_unmounted(&error));
                return Ok(Recovered::Not);
            }
        },
        Err(error) => error,
    };
    if superblock.personality.is_synchronous() {
        let left = leave_logs(device, superblock, repair, &error).await?;
        report.was_recovered = left.repaired.is_some();
        report.problems.push(left);
        return Ok(go_on(repair));
    }
    // Nothing may bring the record to its places once these are somebody else's.
    if let Some(left) = leave_record(device, superblock, repair, Some(&error)).await? {
        report.problems.push(left);
        return Ok(go_on(repair));
    }
    let geometry = superblock.geometry().ok_or(MountError::Damaged {
        what: "the superblock".into(),
    })?;
    let error = match journal::holds(device, superblock, &geometry).await {
        // It is in its places, and what cannot be mounted is what the walk looks at.
        Ok(false) if !is_of_device(&error) => {
            report.was_recovered = true;
            *superblock = crate::fs::read_superblock(device).await?;
            report.tell(format!(
                "{NOT_UNMOUNTED}, and behind its recovery it cannot be mounted: {error}"
            ));
            return Ok(Recovered::Yes);
        }
        Ok(false) => {
            report.tell(format!(
                "{NOT_UNMOUNTED} and cannot be recovered: {error}; nothing is repaired"
            ));
            return Ok(Recovered::Not);
        }
        Ok(true) => error,
        Err(error) => error,
    };
    // What was synced last is in the journal alone, which a repair would leave behind.
    report.tell(format!(
        "{NOT_UNMOUNTED} and cannot be recovered: {error}; nothing is repaired, for that \
         would lose what was synced last"
    ));
    Ok(Recovered::Not)
}

fn not_unmounted(error: &FsError) -> String {
    format!("{NOT_UNMOUNTED}, and behind its recovery it cannot be: {error}; nothing is repaired")
}

/// Whether an error says that the device does not do its work, and nothing of what is on it.
fn is_of_device(error: &MountError) -> bool {
    matches!(error, MountError::Failed(error) if !matches!(error, DeviceError::Lost { .. }))
}

/// Contents that were about to overwrite others are given up, if that is to be repaired, where they
/// are damaged or could not be brought to their places: what they were to overwrite may be half of
/// each.
async fn leave_record<D: Device>(
    device: &D,
    superblock: &Superblock,
    repair: bool,
    not_mounted: Option<&MountError>,
) -> Result<Option<Problem>, MountError> {
    let geometry = superblock.geometry().ok_or(MountError::Damaged {
        what: "the superblock".into(),
    })?;
    let damaged;
    let error = match contents::read_record(device, superblock, &geometry).await {
        Ok(record) => match not_mounted.filter(|_| !record.is_empty()) {
            Some(error) => error,
            None => return Ok(None),
        },
        Err(error @ MountError::Damaged { .. }) => {
            damaged = error;
            &damaged
        }
        Err(error) => return Err(error),
    };
    let mut repaired = None;
    if repair {
        contents::give_up_record(device, &geometry).await?;
        repaired = Some(
            "it was given up: of what was synced last, contents that overwrote others may be half \
             the old ones"
                .into(),
        );
    }
    let what = format!("{NOT_UNMOUNTED} and cannot be recovered: {error}");
    Ok(Some(Problem { what, repaired }))
}

/// What logs of inodes say that are not all whole is brought to its place as far as they are, if
/// that is to be repaired: what was said last may be lost, and the rest is mended.
async fn leave_logs<D: Device>(
    device: &D,
    superblock: &Superblock,
    repair: bool,
    error: &MountError,
) -> Result<Problem, MountError> {
    let what = format!("{NOT_UNMOUNTED} and cannot be recovered: {error}");
    let geometry = superblock.geometry().ok_or(MountError::Damaged {
        what: "the superblock".into(),
    })?;
    let mut repaired = None;
    if repair {
        let done = match logs::recover(device, &geometry, true).await {
            Ok(recovered) if recovered.damaged.is_empty() => {
                "its logs were brought to their places".into()
            }
            Ok(recovered) => format!(
                "what its logs say was brought to its place as far as they are whole, without {}",
                recovered.damaged.join(", ")
            ),
            Err(MountError::Damaged { what }) => {
                format!("its logs were given up without {what}: the last changes may be lost")
            }
            Err(error) => return Err(error),
        };
        repaired = Some(done);
    }
    Ok(Problem { what, repaired })
}

/// The bitmaps as they must be, block by block, of a file system whose inodes are whole.
///
/// # Errors
/// They are not, or the device fails.
pub(crate) async fn bitmaps_in_use<D: Device>(
    device: &D,
    superblock: Superblock,
) -> Result<Vec<(BlockNo, Vec<u8>)>, MountError> {
    let mut walk = Walk::new(device, superblock).await?;
    walk.read_owners().await?;
    match walk.problems.first() {
        None => Ok(repair::bitmaps(&walk)),
        Some(problem) => Err(MountError::Damaged {
            what: format!("what the logs lead to ({problem})"),
        }),
    }
}

/// The superblock, or its copy if that is whole.
async fn superblock<D: Device>(
    device: &D,
    repair: bool,
    report: &mut CheckReport,
) -> Result<Superblock, MountError> {
    let first = crate::fs::read_superblock(device).await;
    let error = match first {
        Ok(found) => return Ok(found),
        Err(error @ (MountError::NoFileSystem | MountError::Damaged { .. })) => error,
        Err(error @ MountError::Failed(DeviceError::Lost { .. })) => error,
        Err(error) => return Err(error),
    };
    let lost = match error {
        MountError::Failed(_) => "lost by the flash",
        _ => "damaged",
    };
    let blocks = u32::try_from(device.shape().capacity.get() / BLOCK as u64).unwrap_or(u32::MAX);
    let mut bytes = vec![0; BLOCK];
    let copy = address(BlockNo(blocks - 1));
    device.read_blocks(copy, &mut bytes).await?;
    let found = Superblock::decode(&bytes).map_err(|_| error)?;
    let repaired = if repair {
        let place = address(BlockNo(0));
        let durable = Acknowledge::Durable;
        device.write_blocks(place, &bytes, durable).await?;
        Some("it was restored from its copy".into())
    } else {
        None
    };
    report.problems.push(Problem {
        what: format!("the superblock is {lost} and its copy is whole"),
        repaired,
    });
    Ok(found)
}

/// The directory to which files without a name come.
const LOST: &[u8] = b"lost+found";

/// How a file without a name is called there.
fn lost_name(ino: Ino) -> String {
    format!("inode {}", ino.0)
}
