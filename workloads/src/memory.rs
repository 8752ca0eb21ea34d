//! Large shared arrays that begin as the kernel's zero pages, so that what a program never touches
//! costs nothing.
//!
//! Unsafe because the standard library offers no way to allocate zeroed atomics and to learn that
//! memory was refused.
#![allow(unsafe_code)]

use crate::Failure;
use std::alloc::{Layout, alloc_zeroed};
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64};
use units::Bytes;

/// A type for which all bytes zero is a value, and which needs no drop.
///
/// # Safety
/// Both must hold.
pub unsafe trait Zeroed {}

// SAFETY: integers and their atomics; any bytes are a value, nothing is dropped.
unsafe impl Zeroed for u8 {}
// SAFETY: as above.
unsafe impl Zeroed for u32 {}
// SAFETY: as above.
unsafe impl Zeroed for u64 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU8 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU16 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above.
unsafe impl Zeroed for AtomicU64 {}
// SAFETY: an array of such values.
unsafe impl<T: Zeroed, const N: usize> Zeroed for [T; N] {}

/// `count` zeros.
///
/// # Errors
/// When there is not that much memory.
pub fn zeroed<T: Zeroed>(count: usize) -> Result<Box<[T]>, Failure> {
    if count == 0 {
        return Ok(Box::default());
    }
    let layout = Layout::array::<T>(count).map_err(|_| refused(usize::MAX))?;
    // SAFETY: the layout is not empty, as no implementor of `Zeroed` is and the count is not 0.
    let place = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if place.is_null() {
        return Err(refused(layout.size()));
    }
    // SAFETY: the global allocator gave this memory for exactly this layout, zeros are values.
    Ok(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(place, count)) })
}

fn refused(size: usize) -> Failure {
    let size = Bytes::new(size as u64);
    Failure::refused(format!(
        "memory: {size} were refused; give a smaller --footprint."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_array_holds_zeros() {
        let mut array = zeroed::<AtomicU32>(100_000).unwrap();
        assert!(array.iter_mut().all(|value| *value.get_mut() == 0));
        assert!(zeroed::<u8>(0).unwrap().is_empty());
    }

    #[test]
    fn more_memory_than_there_can_be_is_one_sentence() {
        let error = zeroed::<AtomicU64>(usize::MAX / 16).unwrap_err();
        assert!(
            error.to_string().ends_with("give a smaller --footprint."),
            "{error}"
        );
        assert!(matches!(
            zeroed::<AtomicU64>(usize::MAX),
            Err(Failure::Refused(_))
        ));
    }
}
