//! What a row's bytes mean: a column is a type at an offset.

use std::marker::PhantomData;

/// A number that a row can hold, little-endian.
pub trait Field: Copy {
    /// Bytes it takes.
    const BYTES: usize;
    /// The number in these bytes.
    fn read(bytes: &[u8]) -> Self;
    /// Writes it into these bytes.
    fn write(self, bytes: &mut [u8]);
}

macro_rules! field {
    ($($number:ty),*) => {$(
        impl Field for $number {
            const BYTES: usize = size_of::<Self>();
            #[inline]
            fn read(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("a column has its type's size"))
            }
            #[inline]
            fn write(self, bytes: &mut [u8]) {
                bytes.copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
field!(u8, u16, u32, u64, i16, i32, i64);

/// A number's column.
#[derive(Debug)]
pub struct Column<T> {
    at: usize,
    number: PhantomData<T>,
}

impl<T: Field> Column<T> {
    /// The column that begins at this byte of a row.
    #[must_use]
    pub const fn at(at: usize) -> Self {
        Self {
            at,
            number: PhantomData,
        }
    }
    /// The first byte after it.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.at + T::BYTES
    }
    /// The number in this row.
    #[inline]
    pub fn get(&self, row: &[u8]) -> T {
        T::read(&row[self.at..self.end()])
    }
    /// Writes the number into this row.
    #[inline]
    pub fn set(&self, row: &mut [u8], value: T) {
        value.write(&mut row[self.at..self.at + T::BYTES]);
    }
}

/// A column of text of fixed length.
#[derive(Debug)]
pub struct Text {
    at: usize,
    bytes: usize,
}

impl Text {
    /// The text of this length that begins at this byte of a row.
    #[must_use]
    pub const fn at(at: usize, bytes: usize) -> Self {
        Self { at, bytes }
    }
    /// The first byte after it.
    #[must_use]
    pub const fn end(&self) -> usize {
        self.at + self.bytes
    }
    /// The text in this row.
    #[inline]
    #[must_use]
    pub fn get<'row>(&self, row: &'row [u8]) -> &'row [u8] {
        &row[self.at..self.end()]
    }
    /// The text's bytes in this row, to be changed.
    #[inline]
    pub fn get_mut<'row>(&self, row: &'row mut [u8]) -> &'row mut [u8] {
        &mut row[self.at..self.end()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_do_not_touch_their_neighbours() {
        const FIRST: Column<u16> = Column::at(0);
        const SECOND: Column<i64> = Column::at(FIRST.end());
        const THIRD: Text = Text::at(SECOND.end(), 3);
        let mut row = [0xff; 14];
        SECOND.set(&mut row, -2);
        THIRD.get_mut(&mut row).copy_from_slice(b"abc");
        assert_eq!((FIRST.get(&row), SECOND.get(&row)), (0xffff, -2));
        assert_eq!((THIRD.get(&row), row[13]), (&b"abc"[..], 0xff));
        FIRST.set(&mut row, 7);
        assert_eq!((FIRST.get(&row), SECOND.get(&row)), (7, -2));
    }
}
