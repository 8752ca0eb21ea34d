//! An image: a directory with the media file and the DRAM file of one device.
//!
//! Made under another name and renamed, so that there is a whole image or none. One process has it
//! open at a time, which holds a lock of the media file.

use crate::config::DeviceConfig;
use crate::counters::Counters;
use crate::error::DeviceFileError;
use crate::failing;
use crate::latency::Latencies;
use crate::layout::Layout;
use crate::mapped::Mapped;
use crate::media::Media;
use crate::room;
use crate::superblock::{
    ImageId, OLDEST, Role, SUPERBLOCK_BYTES, Superblock, SuperblockError, VERSION,
};
use crate::tables::Tables;
use crate::unbegun::{self, Unbegun};
use nix::fcntl::OFlag;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Bytes;

/// An open image.
#[derive(Debug)]
pub struct Image {
    /// Its directory.
    pub path: PathBuf,
    /// Its name.
    pub id: ImageId,
    /// The version that it was made with.
    pub version: u32,
    /// What its device is made of.
    pub config: DeviceConfig,
    /// Where things are.
    pub layout: Layout,
    /// Battery-backed DRAM.
    pub tables: Tables,
    /// A second look at the tables, for whoever reads them while they change.
    pub view: Tables,
    /// Flash.
    pub media: Media,
    /// Whether the process that had it before was killed.
    pub was_cut_off: bool,
}

/// What an image is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A device is to work with it.
    Use,
    /// It is looked at and stays as it is; leave to write it is not needed.
    Check,
}

impl Purpose {
    fn map(self, file: &File) -> std::io::Result<Mapped> {
        match self {
            Self::Use => Mapped::new(file),
            Self::Check => Mapped::private(file),
        }
    }
}

/// What can be said of an image without opening it, while another process has it too.
#[derive(Clone, Debug)]
pub struct Description {
    /// Its name.
    pub id: ImageId,
    /// What its device is made of.
    pub config: DeviceConfig,
    /// Bytes that its files take on the disk.
    pub disk_bytes: Bytes,
    /// Whether a process has it open.
    pub is_open: bool,
    /// What the device has done.
    pub counters: Counters,
    /// How long its requests took.
    pub latencies: Latencies,
}

impl Image {
    /// Makes an image of an empty device at `path`, where nothing is.
    ///
    /// # Errors
    /// Something is there; the operating system refuses, which leaves nothing behind.
    pub fn create(path: &Path, config: &DeviceConfig) -> Result<ImageId, DeviceFileError> {
        if path.symlink_metadata().is_ok() {
            return Err(DeviceFileError::Exists(path.to_owned()));
        }
        failing::check_room(config)?;
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(format!(".new-{}", std::process::id()));
        let unfinished = PathBuf::from(unfinished);
        fs::create_dir(&unfinished).map_err(DeviceFileError::io(path, "make the directory"))?;
        let made = write_files(&unfinished, config).and_then(|id| {
            fs::rename(&unfinished, path)
                .map_err(DeviceFileError::io(path, "give the image its name"))?;
            Ok(id)
        });
        if made.is_err() {
            // The first error is the one that says something.
            let _ = fs::remove_dir_all(&unfinished);
        }
        made
    }

    /// An empty device in memory alone, with the name of no image.
    ///
    /// # Errors
    /// Its flash has no room for it; the system has not so much memory.
    pub fn in_memory(config: &DeviceConfig) -> Result<Self, DeviceFileError> {
        Self::without_files(config, Layout::new(config).media_bytes, Media::in_memory)
    }

    /// The same, with pages that take as little memory as what they hold can.
    ///
    /// # Errors
    /// As [`Image::in_memory`].
    pub fn packed(config: &DeviceConfig) -> Result<Self, DeviceFileError> {
        Self::without_files(config, Layout::new(config).spares_end(), Media::packed)
    }

    fn without_files(
        config: &DeviceConfig,
        media_bytes: usize,
        media: impl FnOnce(Mapped, Layout) -> Media,
    ) -> Result<Self, DeviceFileError> {
        failing::check_room(config)?;
        let layout = Layout::new(config);
        let no_memory = |error| DeviceFileError::NoMemory {
            path: PathBuf::new(),
            wanted: Bytes::new((layout.dram_bytes + media_bytes) as u64),
            error,
        };
        let dram = Mapped::anonymous(layout.dram_bytes).map_err(no_memory)?;
        let pages = Mapped::anonymous(media_bytes).map_err(no_memory)?;
        let mut tables = Tables::new(dram, layout);
        failing::note_factory(config, &mut tables);
        Ok(Self {
            path: PathBuf::new(),
            id: ImageId([0; 16]),
            version: VERSION,
            config: config.clone(),
            layout,
            view: tables.snapshot().map_err(no_memory)?,
            tables,
            media: media(pages, layout),
            was_cut_off: false,
        })
    }

    /// Opens an image for a device.
    ///
    /// # Errors
    /// It is none, damaged, newer, or open elsewhere.
    pub fn open(path: &Path) -> Result<Self, DeviceFileError> {
        let image = Self::open_for(path, Purpose::Use)?;
        let unbegun = Unbegun::of(&image.tables, &image.media, image.layout);
        match unbegun.first_programmed() {
            None => Ok(image),
            Some(ppa) => {
                let what = unbegun::sentence(ppa);
                Err(DeviceFileError::damaged(&file_path(path, Role::Dram), what))
            }
        }
    }

    /// Opens an image.
    ///
    /// # Errors
    /// It is none, newer, or open elsewhere; so damaged that nobody can say what it is.
    pub fn open_for(path: &Path, purpose: Purpose) -> Result<Self, DeviceFileError> {
        let (media, superblock) = open_file(path, Role::Media, purpose)?;
        lock(path, &media)?;
        let (dram, config, layout) = checked(path, (&media, &superblock), purpose)?;
        let (media_path, dram_path) = (file_path(path, Role::Media), file_path(path, Role::Dram));
        let map_dram = || {
            let map = purpose.map(&dram);
            map.map_err(DeviceFileError::io(&dram_path, "map it"))
        };
        let tables = Tables::new(map_dram()?, layout);
        let view = Tables::new(map_dram()?, layout);
        let map = purpose.map(&media);
        let map = map.map_err(DeviceFileError::io(&media_path, "map it"))?;
        let media = Media::new(media, map, layout);
        let was_cut_off = Counters::is_marked_open(tables.map());
        Ok(Self {
            path: path.to_owned(),
            id: superblock.id,
            version: superblock.version,
            config,
            layout,
            tables,
            view,
            media,
            was_cut_off,
        })
    }

    /// What can be said of an image without opening it.
    ///
    /// # Errors
    /// It is none, damaged or newer.
    pub fn describe(path: &Path) -> Result<Description, DeviceFileError> {
        use std::os::unix::fs::MetadataExt;
        let (media, superblock) = open_file(path, Role::Media, Purpose::Check)?;
        let is_open = media.try_lock_shared().is_err();
        if !is_open {
            // Who looks is nobody whom others have to wait for.
            media
                .unlock()
                .map_err(DeviceFileError::io(path, "unlock it"))?;
        }
        let (mut dram, config, _) = checked(path, (&media, &superblock), Purpose::Check)?;
        let dram_path = file_path(path, Role::Dram);
        let counters = Counters::read_file(&mut dram)
            .map_err(DeviceFileError::io(&dram_path, "read its counters"))?;
        let latencies = Latencies::read_file(&mut dram)
            .map_err(DeviceFileError::io(&dram_path, "read its latencies"))?;
        let disk_bytes = [&media, &dram]
            .into_iter()
            .filter_map(|file| file.metadata().ok())
            .map(|metadata| metadata.blocks() * 512)
            .sum();
        Ok(Description {
            id: superblock.id,
            disk_bytes: Bytes::new(disk_bytes),
            is_open,
            counters: counters.with_page(config.page().bytes()),
            config,
            latencies,
        })
    }
}

/// Writes both files of an image into a directory.
fn write_files(directory: &Path, config: &DeviceConfig) -> Result<ImageId, DeviceFileError> {
    let layout = Layout::new(config);
    let mut id = [0; 16];
    let random = Path::new("/dev/urandom");
    File::open(random)
        .and_then(|mut file| file.read_exact(&mut id))
        .map_err(DeviceFileError::io(random, "read 16 random bytes"))?;
    let superblock = Superblock {
        version: VERSION,
        id: ImageId(id),
        pmem: config.device.pmem.get(),
        config: config.to_toml(),
    };
    for (role, size) in [
        (Role::Media, layout.media_bytes),
        (Role::Dram, layout.dram_bytes),
    ] {
        let path = file_path(directory, role);
        let bytes = superblock.encode(role).ok_or_else(|| {
            DeviceFileError::config("the configuration does not fit into a superblock".to_owned())
        })?;
        write_file(role, &path, &bytes, size)
            .map_err(DeviceFileError::io(&path, "write the file"))?;
    }
    let dram = file_path(directory, Role::Dram);
    let mapped = OpenOptions::new().read(true).write(true).open(&dram);
    let map = mapped.and_then(|file| Mapped::new(&file));
    let map = map.map_err(DeviceFileError::io(&dram, "map it"))?;
    failing::note_factory(config, &mut Tables::new(map, layout));
    Ok(superblock.id)
}

fn write_file(role: Role, path: &Path, superblock: &[u8], size: usize) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    file.write_all(superblock)?;
    file.set_len(size as u64)?;
    if role == Role::Dram {
        room::take(&file, 0, size)?;
        room::fill(&file, superblock.len(), size - superblock.len())?;
    }
    Ok(())
}

fn file_path(image: &Path, role: Role) -> PathBuf {
    image.join(role.file_name())
}

/// Opens one of the files and reads its superblock.
fn open_file(
    image: &Path,
    role: Role,
    purpose: Purpose,
) -> Result<(File, Superblock), DeviceFileError> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = file_path(image, role);
    // Of what is no file, as a pipe, opening and reading may wait for ever.
    let irregular = || DeviceFileError::Irregular {
        path: path.clone(),
        what: role.word(),
    };
    if fs::metadata(&path).is_ok_and(|found| !found.is_file()) {
        return Err(irregular());
    }
    let opened = OpenOptions::new()
        .read(true)
        .write(purpose == Purpose::Use)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(&path);
    let file = opened.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
            DeviceFileError::Missing {
                path: image.to_owned(),
                file: role.file_name(),
            }
        }
        _ => DeviceFileError::io(&path, "open it")(error),
    })?;
    // Something else may have come in its place meanwhile.
    if file.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(irregular());
    }
    let mut bytes = Vec::with_capacity(SUPERBLOCK_BYTES);
    (&file)
        .take(SUPERBLOCK_BYTES as u64)
        .read_to_end(&mut bytes)
        .map_err(DeviceFileError::io(&path, "read it"))?;
    let superblock = Superblock::decode(&bytes, role).map_err(|error| match error {
        SuperblockError::Foreign => DeviceFileError::Foreign {
            path: path.clone(),
            what: role.word(),
        },
        SuperblockError::Newer(found) => DeviceFileError::Newer {
            path: path.clone(),
            found,
            known: VERSION,
        },
        SuperblockError::Older(found) => DeviceFileError::Older {
            path: path.clone(),
            found,
            known: OLDEST,
        },
        SuperblockError::Damaged(what) => {
            DeviceFileError::damaged(&path, format!("the superblock is damaged: {what}"))
        }
    })?;
    Ok((file, superblock))
}

/// The DRAM file that belongs to a media file with this superblock, their configuration, and where
/// things are in them; both have the length that this takes.
fn checked(
    path: &Path,
    (media, superblock): (&File, &Superblock),
    purpose: Purpose,
) -> Result<(File, DeviceConfig, Layout), DeviceFileError> {
    let (dram, other) = open_file(path, Role::Dram, purpose)?;
    if other != *superblock {
        return Err(DeviceFileError::Mixed(path.to_owned()));
    }
    let config = DeviceConfig::from_toml(&superblock.config).map_err(|error| {
        let media_path = file_path(path, Role::Media);
        DeviceFileError::damaged(
            &media_path,
            format!("its device is none that this Entresol makes ({error})"),
        )
    })?;
    if superblock.pmem != config.device.pmem.get() {
        let what = format!(
            "the superblock says that its window has {} B, and the configuration {}",
            superblock.pmem, config.device.pmem
        );
        return Err(DeviceFileError::damaged(
            &file_path(path, Role::Media),
            what,
        ));
    }
    let layout = Layout::new(&config);
    check_length(path, Role::Media, media, layout.media_bytes)?;
    check_length(path, Role::Dram, &dram, layout.dram_bytes)?;
    Ok((dram, config, layout))
}

fn check_length(
    path: &Path,
    role: Role,
    file: &File,
    expected: usize,
) -> Result<(), DeviceFileError> {
    let path = file_path(path, role);
    let metadata = file
        .metadata()
        .map_err(DeviceFileError::io(&path, "see how long it is"))?;
    if metadata.len() == expected as u64 {
        return Ok(());
    }
    let what = format!("it has {} B and should have {expected} B", metadata.len());
    Err(DeviceFileError::damaged(&path, what))
}

/// How often an image that somebody has is asked for, and how long after each time.
const LOOKS: u32 = 10;
const LOOK: Duration = Duration::from_millis(2);

/// Takes an image for oneself. Who looks whether somebody has it has a lock for an instant, too:
/// that is waited for.
#[allow(
    clippy::disallowed_methods,
    reason = "another process has the lock, in real time; the device has not begun"
)]
fn lock(path: &Path, file: &File) -> Result<(), DeviceFileError> {
    for _ in 0..LOOKS {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOOK),
            Err(TryLockError::Error(error)) => {
                return Err(DeviceFileError::io(path, "lock it")(error));
            }
        }
    }
    Err(DeviceFileError::Locked(path.to_owned()))
}
