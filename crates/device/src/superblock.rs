//! The first bytes of the media file and of the DRAM file: what they are, of which image, and of
//! which device.
//!
//! Written once, when the image is made, and never again, so that no power cut can tear it. Pure
//! functions on bytes; every byte that counts is covered by a checksum. Layout:
//! `docs/formats/image.md`.

use thiserror::Error;

/// The version that images are made with.
pub const VERSION: u32 = 3;
/// The oldest one that is read. An image keeps the version that it was made with, and holds nothing
/// that programs of that version do not know.
pub const OLDEST: u32 = 2;
/// The first one whose page buffers may say where on flash their pages are.
pub const PAST_BUFFERS: u32 = 3;
/// Bytes at the start of each file that belong to it.
pub const SUPERBLOCK_BYTES: usize = 64 * 1024;
/// Bytes of the window of battery-backed memory, which is the last region of the DRAM file.
const PMEM_AT: usize = 40;
/// Where the configuration begins.
const TEXT_AT: usize = 64;

/// Which of the two files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// NAND pages with their spare areas.
    Media,
    /// Battery-backed DRAM.
    Dram,
}

impl Role {
    const fn magic(self) -> [u8; 8] {
        match self {
            Self::Media => *b"ENTRmedi",
            Self::Dram => *b"ENTRdram",
        }
    }
    /// The name of its file in the image's directory.
    pub const fn file_name(self) -> &'static str {
        match self {
            Self::Media => "media.bin",
            Self::Dram => "dram.bin",
        }
    }
    /// What it is called in sentences.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Media => "media file",
            Self::Dram => "DRAM file",
        }
    }
}

/// What names an image: its two files have it in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImageId(pub [u8; 16]);

impl std::fmt::Display for ImageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// What a superblock says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// The version that the image was made with.
    pub version: u32,
    /// Of which image.
    pub id: ImageId,
    /// Bytes of the window.
    pub pmem: u64,
    /// The effective configuration, as TOML.
    pub config: String,
}

/// What is wrong with one.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SuperblockError {
    /// It is none of ours.
    #[error("the first bytes are not those of an image")]
    Foreign,
    /// It is of a version that is not known.
    #[error("version {0} is not known")]
    Newer(u32),
    /// It is of a version that is read no more.
    #[error("version {0} is read no more")]
    Older(u32),
    /// It is damaged.
    #[error("the superblock is damaged: {0}")]
    Damaged(&'static str),
}

impl Superblock {
    /// Its bytes, or None if the configuration is too long for it.
    pub fn encode(&self, role: Role) -> Option<Vec<u8>> {
        let text = self.config.as_bytes();
        if TEXT_AT + text.len() > SUPERBLOCK_BYTES {
            return None;
        }
        let mut bytes = vec![0; SUPERBLOCK_BYTES];
        bytes[..8].copy_from_slice(&role.magic());
        bytes[8..12].copy_from_slice(&self.version.to_le_bytes());
        let length = u32::try_from(text.len()).expect("it fits, as was just seen");
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.id.0);
        bytes[PMEM_AT..PMEM_AT + 8].copy_from_slice(&self.pmem.to_le_bytes());
        bytes[TEXT_AT..TEXT_AT + text.len()].copy_from_slice(text);
        let sum = checksum(&bytes);
        bytes[32..36].copy_from_slice(&sum.to_le_bytes());
        Some(bytes)
    }

    /// Reads it from the first bytes of a file.
    ///
    /// # Errors
    /// Anything but what [`Superblock::encode`] makes.
    pub fn decode(bytes: &[u8], role: Role) -> Result<Self, SuperblockError> {
        let word = |at: usize| {
            let word = bytes.get(at..at + 4)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        if bytes.get(..8) != Some(&role.magic()[..]) {
            return Err(SuperblockError::Foreign);
        }
        // Before the checksum: a newer version may keep it elsewhere.
        match word(8) {
            Some(version) if version > VERSION => return Err(SuperblockError::Newer(version)),
            Some(0) => return Err(SuperblockError::Damaged("there is no version 0")),
            Some(version) if version < OLDEST => return Err(SuperblockError::Older(version)),
            // Or too short for a version.
            _ => {}
        }
        if bytes.len() < SUPERBLOCK_BYTES {
            return Err(SuperblockError::Damaged("the file ends within it"));
        }
        let bytes = &bytes[..SUPERBLOCK_BYTES];
        if word(32) != Some(checksum(bytes)) {
            return Err(SuperblockError::Damaged("its checksum is wrong"));
        }
        let length = word(12).and_then(|length| usize::try_from(length).ok());
        let text = length.and_then(|length| bytes.get(TEXT_AT..TEXT_AT.checked_add(length)?));
        let text = text.ok_or(SuperblockError::Damaged("its text is longer than itself"))?;
        let config = std::str::from_utf8(text)
            .map_err(|_| SuperblockError::Damaged("its text is not UTF-8"))?;
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[16..32]);
        let mut pmem = [0; 8];
        pmem.copy_from_slice(&bytes[PMEM_AT..PMEM_AT + 8]);
        Ok(Self {
            version: word(8).expect("it is long enough, as was just seen"),
            id: ImageId(id),
            pmem: u64::from_le_bytes(pmem),
            config: config.to_owned(),
        })
    }
}

/// Of everything but itself.
fn checksum(bytes: &[u8]) -> u32 {
    checksum::crc32c_append(checksum::crc32c(&bytes[..32]), &bytes[36..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Superblock {
        Superblock {
            version: VERSION,
            id: ImageId([7; 16]),
            pmem: 0,
            config: "[nand]\nchannels = 8\n".to_owned(),
        }
    }

    #[test]
    fn a_superblock_is_read_back() {
        for role in [Role::Media, Role::Dram] {
            for version in OLDEST..=VERSION {
                let made = Superblock {
                    version,
                    ..sample()
                };
                let bytes = made.encode(role).unwrap();
                assert_eq!(Superblock::decode(&bytes, role), Ok(made));
            }
        }
    }

    #[test]
    fn foreign_newer_and_short_ones_are_told_apart() {
        let media = sample().encode(Role::Media).unwrap();
        let decode = |bytes: &[u8]| Superblock::decode(bytes, Role::Media).unwrap_err();
        assert_eq!(decode(b""), SuperblockError::Foreign);
        assert_eq!(decode(&[0; 100]), SuperblockError::Foreign);
        let dram = sample().encode(Role::Dram).unwrap();
        assert_eq!(decode(&dram), SuperblockError::Foreign);
        let mut newer = media.clone();
        newer[8] = 4;
        assert_eq!(decode(&newer), SuperblockError::Newer(4));
        newer[8] = 1;
        assert_eq!(decode(&newer), SuperblockError::Older(1));
        let short = decode(&media[..5000]);
        assert_eq!(short, SuperblockError::Damaged("the file ends within it"));
        assert_eq!(decode(&media[..10]), short);
    }

    #[test]
    fn the_size_of_the_window_is_kept() {
        let bytes = sample().encode(Role::Dram).unwrap();
        assert_eq!(bytes[36..TEXT_AT], [0; 28], "there is room for what comes");
        let with = Superblock {
            pmem: 4096,
            ..sample()
        };
        let bytes = with.encode(Role::Dram).unwrap();
        assert_eq!(Superblock::decode(&bytes, Role::Dram), Ok(with));
    }

    #[test]
    fn a_text_that_does_not_fit_is_refused() {
        let long = Superblock {
            config: "x".repeat(SUPERBLOCK_BYTES),
            ..sample()
        };
        assert_eq!(long.encode(Role::Media), None);
    }

    proptest! {
        #[test]
        fn no_flipped_byte_goes_unseen(at in 0..SUPERBLOCK_BYTES, flip in 1u8..) {
            let mut bytes = sample().encode(Role::Dram).unwrap();
            bytes[at] ^= flip;
            prop_assert!(Superblock::decode(&bytes, Role::Dram).is_err());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, cut in 0..SUPERBLOCK_BYTES) {
            let mut whole = sample().encode(Role::Media).unwrap();
            whole[8..8 + bytes.len().min(60)].copy_from_slice(&bytes[..bytes.len().min(60)]);
            let _ = Superblock::decode(&whole[..cut], Role::Media);
            let _ = Superblock::decode(&whole, Role::Media);
            let _ = Superblock::decode(&bytes, Role::Media);
        }
    }
}
