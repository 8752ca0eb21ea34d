//! Text to fill records with, and to answer in.

use crate::random::hash;

/// Eight letters from a to p.
fn letters(bits: u64) -> [u8; 8] {
    ((bits & 0x0f0f_0f0f_0f0f_0f0f) + 0x6161_6161_6161_6161).to_le_bytes()
}

/// Fills a text with the letters of this sequence.
#[inline]
pub fn fill(text: &mut [u8], sequence: u64) {
    let (pieces, rest) = text.as_chunks_mut();
    let count = pieces.len() as u64;
    for (piece, index) in pieces.iter_mut().zip(0..) {
        *piece = letters(hash(sequence, index));
    }
    for (letter, last) in rest.iter_mut().zip(letters(hash(sequence, count))) {
        *letter = last;
    }
}

/// A number's decimal digits, at the end of the buffer.
#[must_use]
pub fn digits(mut number: u64, buffer: &mut [u8; 20]) -> &[u8] {
    let mut first = buffer.len();
    loop {
        first -= 1;
        buffer[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            return &buffer[first..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_digits() {
        for number in [0, 7, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(digits(number, &mut [0; 20]), number.to_string().as_bytes());
        }
    }

    #[test]
    fn texts_are_letters_of_their_sequence() {
        let mut texts = [[0; 21]; 3];
        for (text, sequence) in texts.iter_mut().zip([1, 1, 2]) {
            fill(text, sequence);
            assert!(text.iter().all(|letter| (b'a'..=b'p').contains(letter)));
        }
        assert_eq!(texts[0], texts[1]);
        assert_ne!(texts[0], texts[2]);
    }
}
