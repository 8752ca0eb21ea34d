//! Directories to mount at, and those that a killed server left behind.

use nix::errno::Errno;
use nix::mount::{MntFlags, umount2};
use nix::sys::statvfs::statvfs;
use std::ffi::{OsStr, OsString};
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use thiserror::Error;

/// What the mount table calls what we serve: this, or this, a colon and what is served.
const SOURCE: &str = "entresol";
const KERNEL: &str = "/dev/fuse";

/// Why nothing is mounted. One sentence: what, where, what to do.
#[derive(Debug, Error)]
pub enum MountError {
    /// The system has no FUSE, or does not let this user have it.
    #[error("{KERNEL}: {error}; load the kernel's module fuse, or ask who runs this machine")]
    NoFuse {
        /// What it says.
        error: io::Error,
    },
    /// There is no such directory.
    #[error("{}: {what}; name an empty directory", path.display())]
    NoDirectory {
        /// The path that was to be the mount point.
        path: PathBuf,
        /// What is there.
        what: String,
    },
    /// A device, or a file system on one, is mounted there by a server that lives.
    #[error(
        "{}: another server of Entresol is mounted there; stop it, or name another directory",
        .0.display()
    )]
    Shown(PathBuf),
    /// Something else is mounted there.
    #[error(
        "{}: is where {what} is mounted; name an empty directory", path.display()
    )]
    Taken {
        /// The mount point.
        path: PathBuf,
        /// What is mounted.
        what: String,
    },
    /// What a killed server left behind cannot be taken away.
    #[error(
        "{}: a killed server left its mount behind, and it cannot be taken away ({error}); run \
         `umount -l` or `fusermount3 -uz` on it as the user who served", path.display()
    )]
    LeftBehind {
        /// The mount point whose server has gone.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The system refuses.
    #[error(
        "{}: cannot be mounted at: {error}; name a directory that you may write to", path.display()
    )]
    System {
        /// The mount point that was refused.
        path: PathBuf,
        /// What it says.
        error: io::Error,
    },
}

/// A directory at which a server can mount.
#[derive(Debug)]
pub struct MountPoint {
    path: PathBuf,
    source: String,
    was_mended: bool,
}

impl MountPoint {
    /// Looks whether a server can mount here: at an empty directory, or at one where a killed
    /// server left its mount, which is taken away.
    ///
    /// # Errors
    /// No FUSE; no empty directory; something else is mounted there.
    pub fn find(named: &Path) -> Result<Self, MountError> {
        let fuse = OpenOptions::new().read(true).write(true).open(KERNEL);
        fuse.map_err(|error| MountError::NoFuse { error })?;
        let path = absolute(named)?;
        let mut was_mended = false;
        while let Some(mount) = mounted_at(&path)? {
            if !is_ours(&mount) {
                let what = format!("{} ({})", mount.source, mount.kind);
                return Err(MountError::Taken { path, what });
            }
            // Not its attributes: the kernel keeps them longer than a server lives.
            match statvfs(&path) {
                Err(Errno::ENOTCONN) => take_away(&path)?,
                _ => return Err(MountError::Shown(path)),
            }
            was_mended = true;
        }
        check_empty(&path)?;
        Ok(Self {
            path,
            source: SOURCE.to_string(),
            was_mended,
        })
    }

    /// Has the mount table say what is served here, as `entresol:/path/of/image`.
    #[must_use]
    pub fn showing(self, what: &Path) -> Self {
        let source = source_of(what);
        Self { source, ..self }
    }

    /// What the mount table will say.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    /// The directory, without links in its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether a killed server's mount was there and was taken away.
    pub fn was_mended(&self) -> bool {
        self.was_mended
    }
}

/// The path without links. The last part may be a mount that answers nothing.
fn absolute(named: &Path) -> Result<PathBuf, MountError> {
    let wrong = |error: io::Error| MountError::NoDirectory {
        path: named.to_path_buf(),
        what: error.to_string(),
    };
    match named.canonicalize() {
        Err(error) if is_dead(&error) => {}
        found => return found.map_err(wrong),
    }
    let whole = std::path::absolute(named).map_err(wrong)?;
    match (whole.parent(), whole.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize().map_err(wrong)?.join(name)),
        _ => Ok(whole),
    }
}

fn is_dead(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::ENOTCONN as i32)
}

fn take_away(path: &Path) -> Result<(), MountError> {
    detach(path).map_err(|error| MountError::LeftBehind {
        path: path.to_path_buf(),
        error,
    })
}

/// The program by which others than root unmount what they have mounted.
const HELPER: &str = "fusermount3";

/// Takes a mount out of sight; it goes when nobody has a file of it open any more.
pub(crate) fn detach(path: &Path) -> io::Result<()> {
    match umount2(path, MntFlags::MNT_DETACH) {
        Err(Errno::EPERM) => detach_with(OsStr::new(HELPER), path),
        done => done.map_err(io::Error::from),
    }
}

fn detach_with(helper: &OsStr, path: &Path) -> io::Result<()> {
    let mut command = Command::new(helper);
    let done = command.args(["-u", "-z", "--"]).arg(path).output();
    let done = done.map_err(|_| io::Error::from(Errno::EPERM))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(io::Error::other(said.trim().to_string()))
}

fn check_empty(path: &Path) -> Result<(), MountError> {
    let wrong = |what: String| MountError::NoDirectory {
        path: path.to_path_buf(),
        what,
    };
    let mut entries = fs::read_dir(path).map_err(|error| match error.kind() {
        ErrorKind::NotADirectory => wrong("is no directory".to_string()),
        _ => wrong(error.to_string()),
    })?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(wrong("holds files, which would be hidden".to_string())),
    }
}

/// Paths that cannot be told to `fusermount3` in a list with commas stay out of the mount table, as
/// do those that are longer than the kernel takes.
fn source_of(what: &Path) -> String {
    const LONGEST: usize = 2048;
    match what.to_str() {
        Some(path) if path.len() <= LONGEST && !path.contains([',', '\\', '\n']) => {
            format!("{SOURCE}:{path}")
        }
        _ => SOURCE.to_string(),
    }
}

fn is_ours(mount: &Mount) -> bool {
    let rest = mount.source.strip_prefix(SOURCE);
    let is_named = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
    is_named && mount.kind.starts_with("fuse")
}

/// An entry of the mount table.
struct Mount {
    kind: String,
    source: String,
}

/// What is mounted at a path, the uppermost.
fn mounted_at(path: &Path) -> Result<Option<Mount>, MountError> {
    let table = fs::read("/proc/self/mountinfo").map_err(|error| MountError::System {
        path: path.to_path_buf(),
        error,
    })?;
    Ok(table
        .split(|byte| *byte == b'\n')
        .filter_map(entry)
        .rfind(|(at, _)| at == path)
        .map(|(_, mount)| mount))
}

/// A line of the kernel's `mountinfo`: the fifth field is the path; kind and source stand behind
/// the field that is a dash.
fn entry(line: &[u8]) -> Option<(PathBuf, Mount)> {
    let mut fields = line.split(|byte| *byte == b' ');
    let path = PathBuf::from(OsString::from_vec(unescaped(fields.nth(4)?)));
    let mut text = fields
        .skip_while(|field| *field != b"-")
        .skip(1)
        .map(|field| String::from_utf8_lossy(&unescaped(field)).into_owned());
    let (kind, source) = (text.next()?, text.next()?);
    Some((path, Mount { kind, source }))
}

/// Spaces and the like are written as a backslash and three octal digits.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|digits| core::str::from_utf8(digits).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &behind[3..];
            }
            None => {
                out.push(*first);
                rest = behind;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_mount_table_is_read_with_its_escapes() {
        let line = b"36 35 98:0 / /mnt/a\\040b\\134c rw,noatime shared:1 - fuse entresol rw,fd=3";
        let (path, mount) = entry(line).expect("an entry");
        assert_eq!(path, Path::new("/mnt/a b\\c"));
        assert_eq!((&*mount.kind, &*mount.source), ("fuse", "entresol"));
        assert!(entry(b"36 35 98:0 / /mnt").is_none());
        assert!(entry(b"").is_none());
    }

    #[test]
    fn the_mount_table_says_what_is_served_where_it_can() {
        let ours = |source: &str| {
            is_ours(&Mount {
                kind: "fuse".into(),
                source: source.into(),
            })
        };
        assert_eq!(source_of(Path::new("/a b/ssd")), "entresol:/a b/ssd");
        let long = format!("/{}", "n".repeat(4000));
        for path in ["/a,b", "/a\\b", "/a\nb", &long] {
            assert_eq!(source_of(Path::new(path)), "entresol", "{path}");
        }
        for path in ["/ssd", "/a,b"] {
            assert!(ours(&source_of(Path::new(path))), "{path}");
        }
        assert!(!ours("entresolar") && !ours("/dev/fuse"));
    }

    #[test]
    fn who_may_not_unmount_is_told_why() {
        let missing = detach_with(OsStr::new("no-such-helper"), Path::new("/"));
        assert_eq!(
            missing.expect_err("it is not there").raw_os_error(),
            Some(Errno::EPERM as i32)
        );
        assert!(detach_with(OsStr::new("true"), Path::new("/")).is_ok());
        // It fails, and names what it did not understand.
        let failed = detach_with(OsStr::new("sleep"), Path::new("/"));
        let told = failed.expect_err("it wants a number").to_string();
        assert!(told.contains("sleep"), "{told}");
    }

    #[test]
    fn a_directory_that_cannot_be_used_is_refused_with_its_reason() {
        let folder = std::env::temp_dir().join(format!("entresol-place-{}", std::process::id()));
        fs::create_dir(&folder).expect("made");
        let refusal = |path: &Path| absolute(path).and_then(|path| check_empty(&path));
        assert!(refusal(&folder).is_ok());
        let file = folder.join("file");
        fs::write(&file, "").expect("written");
        for (path, told) in [
            (file.as_path(), "is no directory"),
            (folder.as_path(), "holds files, which would be hidden"),
            (&folder.join("nothing"), "No such file or directory"),
        ] {
            let said = refusal(path).expect_err("refused").to_string();
            assert!(said.contains(told), "{said}");
            assert!(said.ends_with("; name an empty directory"), "{said}");
        }
        fs::remove_dir_all(&folder).expect("removed");
    }
}
