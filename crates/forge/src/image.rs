//! Superblocks of device images (`docs/formats/image.md`).

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes at the start of each of an image's files.
pub const SUPERBLOCK_BYTES: usize = 64 * 1024;
const VERSION_AT: usize = 8;
const LENGTH_AT: usize = 12;
const SUM_AT: usize = 32;
const TEXT_AT: usize = 64;

/// The configuration in a good superblock.
///
/// # Panics
/// It is not good.
pub fn config(superblock: &[u8]) -> &str {
    let length = superblock[LENGTH_AT..LENGTH_AT + 4]
        .try_into()
        .expect("four bytes");
    let text = &superblock[TEXT_AT..][..u32::from_le_bytes(length) as usize];
    std::str::from_utf8(text).expect("the superblock is good")
}

/// Puts another configuration into a superblock, with the right length and checksum; what is too
/// long is cut off.
pub fn set_config(superblock: &mut [u8], text: &str) {
    let text = text.as_bytes();
    let text = &text[..text.len().min(SUPERBLOCK_BYTES - TEXT_AT)];
    superblock[TEXT_AT..SUPERBLOCK_BYTES].fill(0);
    superblock[TEXT_AT..][..text.len()].copy_from_slice(text);
    superblock[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&(text.len() as u32).to_le_bytes());
    seal(superblock);
}

fn seal(superblock: &mut [u8]) {
    let head = checksum::crc32c(&superblock[..SUM_AT]);
    let sum = checksum::crc32c_append(head, &superblock[SUM_AT + 4..SUPERBLOCK_BYTES]);
    superblock[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
}

/// Puts a configuration into the superblocks of an image, as if it had been made with it.
///
/// # Panics
/// The directory is no image, or cannot be written.
pub fn set_config_of(image: &Path, text: &str) {
    change(image, |superblock| set_config(superblock, text));
}

/// Has an image be of another version.
///
/// # Panics
/// As [`set_config_of`].
pub fn set_version_of(image: &Path, version: u32) {
    change(image, |superblock| {
        superblock[VERSION_AT..VERSION_AT + 4].copy_from_slice(&version.to_le_bytes());
        seal(superblock);
    });
}

fn change(image: &Path, how: impl Fn(&mut [u8])) {
    for name in ["media.bin", "dram.bin"] {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(image.join(name));
        let file = file.expect("an image has both files");
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        file.read_exact_at(&mut bytes, 0)
            .expect("an image has superblocks");
        how(&mut bytes);
        file.write_all_at(&bytes, 0).expect("it can be written");
    }
}
