//! Room that files of an image have on the disk.

use nix::errno::Errno;
use nix::fcntl::{FallocateFlags, fallocate};
use nix::sys::statvfs::fstatvfs;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};

/// Takes room for bytes of a file; what is in them stays.
///
/// # Errors
/// What the operating system says: above all, that the disk is full. That is said before anything
/// is taken: file systems take all that there is before they find out, and everybody else finds the
/// disk full until they have given it back.
pub fn take(file: &File, at: usize, size: usize) -> io::Result<()> {
    let disk = fstatvfs(file)?;
    let free = u128::from(disk.blocks_available()) * u128::from(disk.fragment_size());
    // Some of the bytes may have theirs.
    let has = u128::from(file.metadata()?.blocks()) * 512;
    if size as u128 > free + has {
        return Err(Errno::ENOSPC.into());
    }
    let as_offset = |bytes: usize| i64::try_from(bytes).map_err(io::Error::other);
    fallocate(
        file,
        FallocateFlags::empty(),
        as_offset(at)?,
        as_offset(size)?,
    )?;
    Ok(())
}

/// Whether the file has room for all of its bytes.
pub fn is_full(file: &File) -> bool {
    let about = file.metadata();
    about.is_ok_and(|about| about.blocks() * 512 >= about.len())
}

/// Writes zeroes in large pieces. Stores into a mapped file that it has never seen cost the kernel
/// ten times what they do after this: 9 us a page against 0.9 us.
///
/// # Errors
/// What the operating system says.
pub fn fill(file: &File, at: usize, size: usize) -> io::Result<()> {
    let zeroes = vec![0; size.min(1 << 20)];
    let mut done = 0;
    while done < size {
        let piece = &zeroes[..zeroes.len().min(size - done)];
        file.write_all_at(piece, (at + done) as u64)?;
        done += piece.len();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system would answer that no file may be so large.
    #[test]
    fn more_than_the_disk_has_is_refused_before_anything_is_taken() {
        let place = std::env::temp_dir().join(format!("room-{}", std::process::id()));
        let file = File::create(&place).unwrap();
        let error = take(&file, 0, 1 << 60).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        assert_eq!(file.metadata().unwrap().blocks(), 0);
        take(&file, 0, 8192).unwrap();
        take(&file, 4096, 4096).unwrap();
        assert!(is_full(&file));
        std::fs::remove_file(place).unwrap();
    }
}
