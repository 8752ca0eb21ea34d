//! What a file system makes of bytes that a power cut has left.

use crate::crash::disk::{Disk, run};
use crate::crash::driver::{lookup, walk};
use crate::crash::image::Image;
use crate::crash::journal::{Journal, SharedJournal};
use crate::crash::life::{DIRECTORY, FILE, Stage};
use crate::crash::tree::Tree;
use bytefs::WriteOptions;
use bytefs::{Caller, FileKind, FileSystem, FsError, Ino, MountOptions, SetAttr, Timestamp};
use port::{AnyClock, AnyDevice, Device, Shape};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use units::Bytes;

/// Page cache of file systems that are judged.
const CACHE: Bytes = Bytes::from_mib(1);

/// A file system in the lab, on whatever device and clock: it is compiled once.
pub type Files = FileSystem<AnyDevice, AnyClock>;

/// How file systems are mounted here.
pub fn mount_options() -> MountOptions {
    MountOptions {
        cache: CACHE,
        cores: 2,
        ..MountOptions::default()
    }
}

/// What was seen behind a recovery.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Everything.
    pub tree: Tree,
    /// What the recovery and a life behind it asked their device for; none if nobody wanted it.
    pub journal: Option<Journal>,
}

/// Mounts bytes, looks at everything, unmounts, checks every invariant, mounts anew and uses what
/// is there, where it may lack room as far as that reaches. What the file system says and what it
/// is must agree. What is asked of the device goes into a journal up to where that says.
///
/// # Errors
/// What is wrong, one sentence; a panic and a wait for nothing are wrong too.
pub fn examine(
    shape: Shape,
    image: &Image,
    may_lack_room: bool,
    noted: Option<Stage>,
) -> Result<Seen, String> {
    let examined = catch_unwind(AssertUnwindSafe(|| {
        let image = image.clone();
        run(examine_now(shape, image, may_lack_room, noted))
    }));
    match examined {
        Ok(Some(seen)) => seen,
        Ok(None) => Err("the file system waits for what will not come".to_owned()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!(
                "the file system panics: {}",
                text.unwrap_or("without a word")
            ))
        }
    }
}

async fn examine_now(
    shape: Shape,
    image: Image,
    may_lack_room: bool,
    noted: Option<Stage>,
) -> Result<Seen, String> {
    let used = async |fs: &Files, tree: &Tree, journal| match use_it(fs, tree, journal).await {
        Err(Unusable::NoRoom) if may_lack_room => Ok(()),
        Err(Unusable::NoRoom) => Err("what is left has no room".to_owned()),
        Err(Unusable::Wrong(how)) => Err(how),
        Ok(()) => Ok(()),
    };
    let disk = Arc::new(Disk::new(shape, image.clone(), None));
    let fs = mount(&disk).await?;
    let tree = walk(&fs).await?;
    check_usage(&fs, &tree).await?;
    unmounted(fs, &disk).await?;
    let disk = Arc::new(disk.again());
    let fs = mount(&disk).await?;
    let again = walk(&fs).await?;
    if let Some(how) = tree.difference(&again) {
        return Err(format!("mounted a second time, {how}"));
    }
    used(&fs, &tree, None).await?;
    unmounted(fs, &disk).await?;
    let mut journal = None;
    if let Some(last) = noted {
        let noted = SharedJournal::default();
        let fs = mount(&Arc::new(Disk::new(shape, image, Some(noted.clone())))).await?;
        if last > Stage::Begun {
            // The same once more, without an unmount between recovery and use.
            Stage::Begun.note(Some(&noted));
            used(&fs, &tree, Some(&noted)).await?;
        }
        journal = Some(noted.take());
    }
    Ok(Seen { tree, journal })
}

async fn mount(disk: &Arc<Disk>) -> Result<Files, String> {
    let device = AnyDevice::new(Arc::clone(disk));
    let mounted = Files::mount(device, AnyClock::Still, mount_options()).await;
    mounted.map_err(|error| format!("it cannot be mounted: {error}"))
}

/// Unmounts, and checks what is left.
async fn unmounted(fs: Files, disk: &Arc<Disk>) -> Result<(), String> {
    let done = fs.unmount().await;
    done.map_err(|error| format!("it cannot be unmounted: {error}"))?;
    drop(fs);
    checked(disk).await
}

/// Checks the invariants of a file system that is not mounted.
///
/// # Errors
/// The first that is broken.
pub async fn checked<D: Device>(device: &D) -> Result<(), String> {
    let report = bytefs::check(device, false).await;
    let report = report.map_err(|error| format!("it cannot be checked: {error}"))?;
    match report.problems.first() {
        None if report.was_recovered => Err("it was unmounted and is not whole".to_owned()),
        None => Ok(()),
        Some(problem) => Err(format!("a check finds: {problem}")),
    }
}

/// Every inode that is taken has a name, and every block that is taken is a file's.
async fn check_usage(fs: &Files, tree: &Tree) -> Result<(), String> {
    let usage = fs.usage();
    let mut files = BTreeSet::new();
    let mut wanted = 0;
    for (path, entry) in &tree.0 {
        if files.insert(entry.id) {
            let attr = lookup(fs, path).await;
            wanted += attr.map_err(|error| format!("{path}: {error}"))?.blocks;
        }
    }
    let used = usage.inodes - usage.free_inodes;
    if used != files.len() as u64 {
        return Err(format!(
            "{used} inodes are taken and {} files have names",
            files.len()
        ));
    }
    let used = usage.blocks - usage.free_blocks;
    match used == wanted {
        true => Ok(()),
        false => Err(format!("{used} blocks are taken and files have {wanted}")),
    }
}

/// Why what is left cannot be used.
enum Unusable {
    NoRoom,
    Wrong(String),
}

impl From<String> for Unusable {
    fn from(how: String) -> Self {
        Self::Wrong(how)
    }
}

/// Uses what is there: what lies behind the end of a file must not be seen when it grows, and new
/// files must find room that nobody else has.
async fn use_it(fs: &Files, tree: &Tree, journal: Option<&SharedJournal>) -> Result<(), Unusable> {
    let failed = |error: FsError| match error {
        FsError::NoSpace | FsError::NoInodes => Unusable::NoRoom,
        _ => Unusable::Wrong(format!("what is left cannot be used: {error}")),
    };
    let caller = Caller {
        uid: 0,
        gid: 0,
        core: 0,
        now: Timestamp(1),
    };
    for (path, entry) in &tree.0 {
        let size = entry.contents.size();
        if entry.meta.kind != FileKind::Regular || entry.meta.links > 1 {
            continue;
        }
        let ino = lookup(fs, path).await.map_err(failed)?.ino;
        let grown = size.next_multiple_of(4096) + 4096;
        let set = SetAttr {
            size: Some(grown),
            ..SetAttr::default()
        };
        fs.setattr(&caller, ino, set).await.map_err(failed)?;
        let tail = fs.read(ino, size, (grown - size) as usize, false).await;
        let tail = tail.map_err(failed)?;
        if let Some(at) = tail.iter().position(|byte| *byte != 0) {
            let at = size + at as u64;
            return Err(Unusable::Wrong(format!(
                "{path} of {size} B has grown and is not zero at {at}"
            )));
        }
    }
    // A second life finds the first one's.
    let name = |name: &'static str| match tree.0.contains_key(name) {
        false => name.as_bytes(),
        true => &name.as_bytes()[1..],
    };
    let new = fs
        .create(&caller, Ino::ROOT, name(FILE.0), 0o600)
        .await
        .map_err(failed)?;
    let options = WriteOptions::default();
    fs.write(&caller, new.ino, 0, &FILE.1, options)
        .await
        .map_err(failed)?;
    fs.fsync(new.ino, false).await.map_err(failed)?;
    Stage::FileSynced.note(journal);
    fs.mkdir(&caller, Ino::ROOT, name(DIRECTORY), 0o700)
        .await
        .map_err(failed)?;
    fs.sync().await.map_err(failed)?;
    Stage::AllSynced.note(journal);
    fs.release(new.ino).await.map_err(failed)?;
    let after = walk(fs).await?;
    for (path, entry) in &tree.0 {
        let found = after.0.get(path);
        let found = found.ok_or_else(|| format!("{path} is gone when another file is made"))?;
        let size = entry.contents.size() as usize;
        if found.contents.read(0, size) != entry.contents.read(0, size) {
            let how = format!("{path} changes when another file is made");
            return Err(Unusable::Wrong(how));
        }
    }
    Stage::Ending.note(journal);
    fs.rmdir(&caller, Ino::ROOT, name(DIRECTORY))
        .await
        .map_err(failed)?;
    let unlinked = fs.unlink(&caller, Ino::ROOT, name(FILE.0)).await;
    unlinked.map_err(failed)
}
