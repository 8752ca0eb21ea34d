//! Flags of files as the kernel asks for them: `FS_IOC_GETFLAGS` and `FS_IOC_FSGETXATTR`, and what
//! sets them. Of all flags there is one here, that of DAX, which is the attribute
//! `user.entresol.dax` with the value `all`.

use crate::state::pmem::DAX_ATTRIBUTE;
use crate::{Caller, FileSystem, FsError, Ino, SetXattr};
use fuser::Errno;
use port::{Clock, Device};

const GET_FLAGS: u32 = 0x8008_6601;
const SET_FLAGS: u32 = 0x4008_6602;
const GET_EXTENDED: u32 = 0x801c_581f;
const SET_EXTENDED: u32 = 0x401c_5820;

/// `FS_DAX_FL` of `chattr`.
const DAX_FLAG: u32 = 0x0200_0000;
/// `FS_XFLAG_DAX` of `xfs_io`.
const DAX_EXTENDED: u32 = 0x0000_8000;
/// What the attribute says where the flag is set.
pub(super) const DAX_ALL: &[u8] = b"all";
/// `struct fsxattr`.
const EXTENDED_SIZE: usize = 28;

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum AskedFlags {
    /// Which flags there are; extended ones.
    Get { is_extended: bool },
    /// These are to be there, and no others.
    Set { is_dax: bool },
}

impl AskedFlags {
    /// From a request of the kernel's.
    ///
    /// # Errors
    /// It is another one (ENOTTY), or sets flags that there are not (EOPNOTSUPP).
    pub fn of(command: u32, data: &[u8]) -> Result<Self, Errno> {
        let word = || {
            let bytes = data.first_chunk().ok_or(Errno::EINVAL);
            bytes.map(|bytes| u32::from_ne_bytes(*bytes))
        };
        let set = |dax: u32| {
            let flags = word()?;
            match flags & !dax {
                0 => Ok(Self::Set { is_dax: flags != 0 }),
                _ => Err(Errno::EOPNOTSUPP),
            }
        };
        match command {
            GET_FLAGS => Ok(Self::Get { is_extended: false }),
            GET_EXTENDED => Ok(Self::Get { is_extended: true }),
            SET_FLAGS => set(DAX_FLAG),
            SET_EXTENDED => set(DAX_EXTENDED),
            _ => Err(Errno::ENOTTY),
        }
    }

    /// Does it, and gives what the kernel is told.
    pub async fn done<D: Device, C: Clock>(
        self,
        fs: &FileSystem<D, C>,
        caller: &Caller,
        ino: Ino,
    ) -> Result<Vec<u8>, FsError> {
        let found = fs.get_xattr(ino, DAX_ATTRIBUTE).await;
        let is_there = match found {
            Ok(value) => value == DAX_ALL,
            Err(FsError::NoAttribute) => false,
            Err(error) => return Err(error),
        };
        match self {
            Self::Get { is_extended } => {
                let flag = if is_extended { DAX_EXTENDED } else { DAX_FLAG };
                let word = if is_there { flag } else { 0 };
                let size = if is_extended { EXTENDED_SIZE } else { 4 };
                let mut told = vec![0; size];
                told[..4].copy_from_slice(&word.to_ne_bytes());
                return Ok(told);
            }
            Self::Set { is_dax: true } => {
                fs.set_xattr(caller, ino, DAX_ATTRIBUTE, DAX_ALL, SetXattr::Any)
                    .await?;
            }
            // Ranges that the attribute asks for are none of the flag's.
            Self::Set { is_dax: false } if is_there => {
                fs.remove_xattr(caller, ino, DAX_ATTRIBUTE).await?;
            }
            Self::Set { is_dax: false } => {}
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        let of = |command, word: u32| AskedFlags::of(command, &word.to_ne_bytes());
        assert_eq!(
            of(SET_FLAGS, DAX_FLAG),
            Ok(AskedFlags::Set { is_dax: true })
        );
        assert_eq!(of(SET_EXTENDED, 0), Ok(AskedFlags::Set { is_dax: false }));
        assert_eq!(of(SET_EXTENDED, 2), Err(Errno::EOPNOTSUPP), "append only");
        assert_eq!(of(7, 0), Err(Errno::ENOTTY));
        assert_eq!(AskedFlags::of(SET_FLAGS, &[1]), Err(Errno::EINVAL));
    }
}
