//! What the kernel asks for in one request, and a file system does in several steps: access lists,
//! privileges that go, copies.

use super::acl::{ACCESS, Acl, DEFAULT};
use super::answers::SET_ID;
use super::below::Below;
use super::clock::of;
use super::convert::BLOCK;
use super::flags::DAX_ALL;
use super::teller::Places;
use crate::state::pmem::DAX_ATTRIBUTE;
use crate::{
    Allocate, Attr, Caller, DirEntry, FileKind, FsError, Ino, SetAttr, SetXattr, WriteOptions,
};
use fuser::TimeOrNow;
use port::Device;
use units::{ByteAddr, Bytes};

/// The attribute of what a program may do beyond its user.
const CAPABILITY: &[u8] = b"security.capability";
const SET_GROUP_ID: u16 = 0o2000;
/// Names that are read from a directory at a time: about what the kernel takes at once.
const NAMES: usize = 128;
/// As NAMES, with attributes.
const NAMES_WITH_ATTRIBUTES: usize = 32;
/// Bytes that a copy reads at a time.
const PIECE: u64 = 1 << 20;
/// Bytes that one copy copies: who wants more asks again, and others get their turn.
const MOST_COPIED: u64 = 64 << 20;

/// What a new file or directory gets from the one that it is made in.
struct Inherited {
    permissions: u16,
    access: Option<Vec<u8>>,
    default: Option<Vec<u8>>,
    /// To be in persistent memory, as Linux's flag of DAX is inherited.
    wish: Option<Vec<u8>>,
}

/// A file or directory to be made.
#[derive(Clone, Copy)]
pub(super) struct New<'a> {
    pub parent: Ino,
    pub name: &'a [u8],
    pub kind: FileKind,
    /// As the program asked.
    pub permissions: u16,
    pub umask: u32,
    pub rdev: u32,
    pub is_opened: bool,
}

/// What a directory gives to what is made in it: its list counts instead of the umask (POSIX.1e
/// §23.1.5).
async fn inherit<D: Device>(fs: &Below<D>, new: &New<'_>) -> Result<Inherited, FsError> {
    let given = optional(fs.get_xattr(new.parent, DEFAULT).await)?;
    let has_contents = matches!(new.kind, FileKind::Regular | FileKind::Directory);
    let wish = match has_contents {
        true => optional(fs.get_xattr(new.parent, DAX_ATTRIBUTE).await)?,
        false => None,
    };
    let wish = wish.filter(|value| value == DAX_ALL);
    let Some(mut list) = given.as_deref().and_then(Acl::parse) else {
        return Ok(Inherited {
            permissions: new.permissions & !(new.umask as u16 & 0o777),
            access: None,
            default: None,
            wish,
        });
    };
    list.restrict(new.permissions);
    Ok(Inherited {
        permissions: new.permissions & !0o777 | list.permissions(),
        access: (!list.is_minimal()).then(|| list.bytes()),
        default: given.filter(|_| new.kind == FileKind::Directory),
        wish,
    })
}

fn optional<T>(found: Result<T, FsError>) -> Result<Option<T>, FsError> {
    match found {
        Ok(value) => Ok(Some(value)),
        Err(FsError::NoAttribute) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Makes a file or a directory, with the access lists that it inherits, and with the flag of DAX.
pub(super) async fn make<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    new: New<'_>,
) -> Result<Attr, FsError> {
    let inherited = inherit(fs, &new).await?;
    let (parent, name, permissions) = (new.parent, new.name, inherited.permissions);
    let attr = match new.kind {
        FileKind::Directory => fs.mkdir(caller, parent, name, permissions).await,
        _ if new.is_opened => fs.create(caller, parent, name, permissions).await,
        kind => {
            let rdev = new.rdev;
            fs.mknod(caller, parent, name, kind, permissions, rdev)
                .await
        }
    }?;
    let attributes = [
        (ACCESS, &inherited.access),
        (DEFAULT, &inherited.default),
        (DAX_ATTRIBUTE, &inherited.wish),
    ];
    for (attribute, value) in attributes {
        let Some(value) = value else {
            continue;
        };
        let set = fs.set_xattr(caller, attr.ino, attribute, value, SetXattr::Any);
        if let Err(error) = set.await {
            // Nobody is told of it, and without its list it would allow what that forbids.
            let gone = match new.kind {
                FileKind::Directory => fs.rmdir(caller, parent, name).await,
                _ => fs.unlink(caller, parent, name).await,
            };
            if new.is_opened {
                fs.release(attr.ino).await?;
            }
            gone?;
            return Err(error);
        }
    }
    Ok(attr)
}

/// What `setattr` is to set, in the kernel's words.
#[derive(Clone, Copy)]
pub(super) struct Wanted {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<TimeOrNow>,
    pub mtime: Option<TimeOrNow>,
    /// A time of change comes with a write-back cache only.
    pub has_ctime: bool,
}

impl Wanted {
    /// A change of owner: `chown(-1, -1)` is the one that comes with nothing to set.
    fn is_chown(&self) -> bool {
        let is_nothing = self.mode.is_none()
            && self.size.is_none()
            && self.atime.is_none()
            && self.mtime.is_none()
            && !self.has_ctime;
        self.uid.is_some() || self.gid.is_some() || is_nothing
    }
}

/// Changes attributes. The kernel has checked who may; that set-ID bits go is left to us
/// (`FUSE_HANDLE_KILLPRIV_V2`): with each change of owner, and when somebody else than root
/// truncates, which stands for the capability `CAP_FSETID`.
pub(super) async fn set_attributes<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    ino: Ino,
    wanted: Wanted,
) -> Result<Attr, FsError> {
    let kills = match wanted.is_chown() {
        true => fs.getattr(ino).await?.kind != FileKind::Directory,
        false => wanted.size.is_some() && caller.uid != 0,
    };
    let set = SetAttr {
        permissions: wanted.mode.map(|mode| mode as u16 & 0o7777),
        uid: wanted.uid,
        gid: wanted.gid,
        size: wanted.size,
        atime: wanted.atime.map(of),
        mtime: wanted.mtime.map(of),
        kill_privileges: kills,
    };
    let attr = fs.setattr(caller, ino, set).await?;
    if kills {
        drop_capability(fs, caller, ino).await?;
    }
    if let Some(permissions) = set.permissions
        && let Some(list) = optional(fs.get_xattr(ino, ACCESS).await)?
        && let Some(mut list) = Acl::parse(&list)
    {
        list.set_permissions(permissions);
        fs.set_xattr(caller, ino, ACCESS, &list.bytes(), SetXattr::Any)
            .await?;
    }
    Ok(attr)
}

async fn drop_capability<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    ino: Ino,
) -> Result<(), FsError> {
    // Reading first: nearly no file has one, and what is read changes nothing.
    if optional(fs.get_xattr(ino, CAPABILITY).await)?.is_some() {
        optional(fs.remove_xattr(caller, ino, CAPABILITY).await)?;
    }
    Ok(())
}

/// Writes, and takes the privileges away that the kernel says have to go.
pub(super) async fn write<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    ino: Ino,
    at: u64,
    data: &[u8],
    options: WriteOptions,
) -> Result<usize, FsError> {
    if options.kill_privileges {
        drop_capability(fs, caller, ino).await?;
    }
    fs.write(caller, ino, at, data, options).await
}

/// The same, answered when the file is durable with its times, if that is wanted.
pub(super) async fn write_synced<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    ino: Ino,
    at: u64,
    data: &[u8],
    (options, syncs): (WriteOptions, bool),
) -> Result<usize, FsError> {
    let count = write(fs, caller, ino, at, data, options).await?;
    if syncs {
        fs.fsync(ino, false).await?;
    }
    Ok(count)
}

/// Gives or takes blocks. The kernel leaves it to us that set-ID bits go, and does not say of this
/// call who asks: again whoever is not root.
pub(super) async fn allocate<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    is_of: impl Fn(u32) -> bool,
    ino: Ino,
    (how, at, size): (Allocate, u64, u64),
) -> Result<(), FsError> {
    fs.fallocate(caller, ino, how, at, size).await?;
    if caller.uid == 0 {
        return Ok(());
    }
    let attr = fs.getattr(ino).await?;
    if attr.permissions & SET_ID != 0 {
        // The group's bit of a file that it cannot execute stays for those who are of the group.
        let is_of_group = is_of(attr.gid);
        let set = SetAttr {
            kill_privileges: is_of_group,
            permissions: (!is_of_group).then_some(attr.permissions & !SET_ID),
            ..SetAttr::default()
        };
        fs.setattr(caller, ino, set).await?;
    }
    Ok(())
}

/// Sets an attribute; of a list of access, the permissions that it stands for with it. `is_of` says
/// whether the caller is of a group.
pub(super) async fn set_xattr<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    is_of: impl Fn(u32) -> bool,
    ino: Ino,
    name: &[u8],
    (value, how): (&[u8], SetXattr),
) -> Result<(), FsError> {
    if name != ACCESS {
        return fs.set_xattr(caller, ino, name, value, how).await;
    }
    let no_list = FsError::Invalid("it is no list of access");
    let list = Acl::parse(value).ok_or(no_list)?;
    let attr = fs.getattr(ino).await?;
    if list.is_minimal() {
        optional(fs.remove_xattr(caller, ino, name).await)?;
    } else {
        fs.set_xattr(caller, ino, name, value, how).await?;
    }
    let mut permissions = attr.permissions & !0o777 | list.permissions();
    if caller.uid != 0 && !is_of(attr.gid) {
        permissions &= !SET_GROUP_ID;
    }
    let set = SetAttr {
        permissions: Some(permissions),
        ..SetAttr::default()
    };
    fs.setattr(caller, ino, set).await.map(drop)
}

/// A range of a file.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub ino: Ino,
    pub at: u64,
}

/// Copies bytes from file to file; how many.
pub(super) async fn copy<D: Device>(
    fs: &Below<D>,
    caller: &Caller,
    from: Place,
    to: Place,
    size: u64,
) -> Result<u64, FsError> {
    let size = size.min(MOST_COPIED);
    let options = WriteOptions {
        kill_privileges: caller.uid != 0,
        ..WriteOptions::default()
    };
    let mut done = 0;
    while done < size {
        let piece = (size - done).min(PIECE) as usize;
        let copied = async {
            let bytes = fs.read(from.ino, from.at + done, piece, false).await?;
            match bytes.is_empty() {
                true => Ok(0),
                false => write(fs, caller, to.ino, to.at + done, &bytes, options).await,
            }
        };
        match copied.await {
            Ok(0) => break,
            Ok(count) => done += count as u64,
            // What was copied counts; the next request meets the error again.
            Err(_) if done > 0 => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Hands out names from a place in a directory on, until `add` says that there is no more room.
pub(super) async fn list<D: Device>(
    fs: &Below<D>,
    directory: Ino,
    from: u64,
    mut add: impl FnMut(&DirEntry) -> bool,
) -> Result<(), FsError> {
    let (mut at, mut is_empty) = (from, true);
    loop {
        let entries = match fs.readdir(directory, at, NAMES).await {
            // What was read is answered; the next request meets the error again.
            Err(_) if !is_empty => return Ok(()),
            entries => entries?,
        };
        if entries.is_empty() || entries.iter().any(&mut add) {
            return Ok(());
        }
        at = entries.last().map_or(at, |entry| entry.next);
        is_empty = false;
    }
}

/// As [`list`], with the attributes of each.
pub(super) async fn list_with_attributes<D: Device>(
    fs: &Below<D>,
    directory: Ino,
    from: u64,
    mut add: impl FnMut(&DirEntry, &Attr) -> bool,
) -> Result<(), FsError> {
    let (mut at, mut is_empty) = (from, true);
    loop {
        let entries = match fs.readdir(directory, at, NAMES_WITH_ATTRIBUTES).await {
            Err(_) if !is_empty => return Ok(()),
            entries => entries?,
        };
        if entries.is_empty() {
            return Ok(());
        }
        for entry in entries {
            at = entry.next;
            let attr = match fs.getattr(entry.ino).await {
                // It has gone meanwhile.
                Err(FsError::NotFound | FsError::Stale) => continue,
                Err(_) if !is_empty => return Ok(()),
                attr => attr?,
            };
            if add(&entry, &attr) {
                return Ok(());
            }
            is_empty = false;
        }
    }
}

/// Where a file is, as one JSON object; `places` knows in which memories of the device.
pub(super) async fn map<D: Device>(
    fs: &Below<D>,
    ino: Ino,
    places: impl Fn(ByteAddr, Bytes) -> Option<Places>,
) -> Result<String, FsError> {
    let attr = fs.getattr(ino).await?;
    let extents = fs.map(ino).await?;
    let host = fs.cached_pages(ino);
    let block = u64::from(BLOCK);
    let extents: Vec<String> = extents
        .iter()
        .map(|extent| {
            let at = ByteAddr::new(u64::from(extent.block.0) * block);
            let size = Bytes::new(u64::from(extent.count) * block);
            let device = places(at, size).map_or(String::new(), |of| {
                format!(
                    ",\"log_lines\":{},\"cached_pages\":{},\"flash_pages\":{}",
                    of.log_lines, of.cached_pages, of.flash_pages
                )
            });
            format!(
                "{{\"page\":{},\"block\":{},\"count\":{},\"is_written\":{}{device}}}",
                extent.page, extent.block.0, extent.count, extent.is_written
            )
        })
        .collect();
    Ok(format!(
        "{{\"ino\":{},\"generation\":{},\"size_bytes\":{},\"blocks\":{},\"links\":{},\
         \"host_pages\":{},\"host_dirty_pages\":{},\"extents\":[{}]}}\n",
        attr.ino.0,
        attr.generation,
        attr.size,
        attr.blocks,
        attr.links,
        host.pages,
        host.dirty,
        extents.join(",")
    ))
}
