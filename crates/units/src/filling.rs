//! Contents that say which write they are of: what simulated programs fill files with, and how such
//! bytes are known again.
//!
//! Word p of a filling is `spread(number ^ p << 40)`. Numbers are spread over all bits, so that two
//! fillings differ in every line; and the spreading can be undone, so that a page of fillings need
//! not be kept byte by byte ([`Piece`]).

/// Spreads numbers over all 64 bits, no two to the same (the finaliser of SplitMix64).
#[inline]
pub const fn spread(number: u64) -> u64 {
    let number = number.wrapping_add(STEP);
    let number = (number ^ (number >> 30)).wrapping_mul(FIRST);
    let number = (number ^ (number >> 27)).wrapping_mul(SECOND);
    number ^ (number >> 31)
}

const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
const FIRST: u64 = 0xbf58_476d_1ce4_e5b9;
const SECOND: u64 = 0x94d0_49bb_1331_11eb;

/// The number of which a product with an odd one is 1: Newton's steps double the bits that are
/// right, of which an odd number's own are three.
const fn inverse(odd: u64) -> u64 {
    let mut found = odd;
    let mut step = 0;
    while step < 5 {
        found = found.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(found)));
        step += 1;
    }
    found
}

const FIRST_BACK: u64 = inverse(FIRST);
const SECOND_BACK: u64 = inverse(SECOND);

/// The number that was spread to this.
#[inline]
pub const fn gather(word: u64) -> u64 {
    let number = (word ^ (word >> 31) ^ (word >> 62)).wrapping_mul(SECOND_BACK);
    let number = (number ^ (number >> 27) ^ (number >> 54)).wrapping_mul(FIRST_BACK);
    (number ^ (number >> 30) ^ (number >> 60)).wrapping_sub(STEP)
}

/// Bits of a number below its place.
const PLACE_AT: u32 = 40;
/// Bytes of a word.
const WORD: usize = 8;

/// Word `place` of the filling of this number.
#[inline]
const fn word(number: u64, place: u64) -> [u8; WORD] {
    spread(number ^ (place << PLACE_AT)).to_le_bytes()
}

/// Fills bytes with what no other number gives.
pub fn fill(number: u64, into: &mut [u8]) {
    for (place, part) in into.chunks_mut(WORD).enumerate() {
        part.copy_from_slice(&word(number, place as u64)[..part.len()]);
    }
}

/// Some bytes of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Piece {
    /// So many zeroes.
    Zeroes(usize),
    /// So many that are none of the others.
    Plain(usize),
    /// Of a filling.
    Filled {
        /// Of this number,
        number: u64,
        /// from this byte of it on,
        from: u64,
        /// so many.
        size: usize,
    },
}

/// Bits that a number may have beside a place, for the sake of numbers of more than 40 bits.
const BESIDE: u64 = 16;
/// Fewer bytes than these are not told apart.
const LEAST: usize = 3 * WORD;
/// In bytes that are nothing's so far a filling is looked for once in so many, wherever its words
/// begin: one of fewer than these and three words may be taken for plain.
const STRIDE: usize = 64;

/// Takes bytes apart, in order, into pieces that together are these bytes.
pub fn pieces(bytes: &[u8], mut each: impl FnMut(Piece)) {
    let (mut at, mut plain_from) = (0, 0);
    while at + LEAST <= bytes.len() {
        let is_due = (at - plain_from) % STRIDE < WORD;
        let found = match zeroes(bytes, plain_from, at) {
            None if is_due => filled(bytes, plain_from, at),
            zeroes => zeroes,
        };
        let Some((begin, piece, end)) = found else {
            // Zeroes are looked for at each of these places and once in a word elsewhere.
            at += if is_due { 1 } else { WORD };
            continue;
        };
        if plain_from < begin {
            each(Piece::Plain(begin - plain_from));
        }
        each(piece);
        (at, plain_from) = (end, end);
    }
    if plain_from < bytes.len() {
        each(Piece::Plain(bytes.len() - plain_from));
    }
}

/// The zeroes of which a whole word is at `at`: where they begin, not before `least`, and end.
fn zeroes(bytes: &[u8], least: usize, at: usize) -> Option<(usize, Piece, usize)> {
    if bytes[at..at + WORD] != [0; WORD] {
        return None;
    }
    let is_zero = |byte: &&u8| **byte == 0;
    let begin = at - bytes[least..at].iter().rev().take_while(is_zero).count();
    let words = bytes[at..].chunks_exact(WORD);
    let end = at + words.take_while(|word| **word == [0; WORD]).count() * WORD;
    let end = end + bytes[end..].iter().take_while(is_zero).count();
    let size = end - begin;
    (size >= LEAST).then_some((begin, Piece::Zeroes(size), end))
}

/// The filling of which a whole word is at `at`: where it begins, not before `least`, and ends.
fn filled(bytes: &[u8], least: usize, at: usize) -> Option<(usize, Piece, usize)> {
    let (words, _) = bytes[at..].as_chunks::<WORD>();
    let [first, second, third, rest @ ..] = words else {
        return None;
    };
    let [first, second] = [first, second].map(|word| gather(u64::from_le_bytes(*word)));
    // Of two words that follow each other only the places differ, by a carry; equal ones are no
    // filling's.
    let carry = first ^ second;
    if carry.trailing_zeros() < PLACE_AT
        || carry == 0
        || !((carry >> PLACE_AT) + 1).is_power_of_two()
    {
        return None;
    }
    // Of few words several numbers may be right; what is before them and behind decides.
    let run = |beside: u64| {
        let place = (first >> PLACE_AT) ^ beside;
        let number = first ^ (place << PLACE_AT);
        let is_next = |(count, found): &(u64, &[u8; WORD])| {
            **found == word(number, place.wrapping_add(*count))
        };
        let is_second = number ^ (place.wrapping_add(1) << PLACE_AT) == second;
        if !is_second || !is_next(&(2, third)) {
            return None;
        }
        let words = 3 + (3..).zip(rest).take_while(is_next).count();
        let (begin, from) = begin_of(bytes, least, at, number, place);
        let mut end = at + words * WORD;
        let behind = word(number, place.wrapping_add(words as u64));
        end += bytes[end..]
            .iter()
            .zip(behind)
            .take_while(|(one, other)| **one == *other)
            .count();
        let size = end - begin;
        Some((begin, Piece::Filled { number, from, size }, end))
    };
    let found = (0..BESIDE).filter_map(run);
    found.max_by_key(|(begin, _, end)| end - begin)
}

/// Where in the bytes a filling begins that has the whole word `place` at `at`, and which of its
/// own bytes that is.
fn begin_of(bytes: &[u8], least: usize, at: usize, number: u64, mut place: u64) -> (usize, u64) {
    let mut begin = at;
    loop {
        let room = (begin - least).min(WORD);
        let same = match place.checked_sub(1) {
            Some(before) => {
                let word = word(number, before);
                let is_same = |back: &usize| bytes[begin - 1 - back] == word[WORD - 1 - back];
                (0..room).take_while(is_same).count()
            }
            None => 0,
        };
        begin -= same;
        if same < WORD {
            return (begin, place * WORD as u64 - same as u64);
        }
        place -= 1;
    }
}

/// Writes a part of a filling: its bytes from `from` on.
pub fn refill(number: u64, from: u64, into: &mut [u8]) {
    let (mut place, within) = (from / WORD as u64, (from % WORD as u64) as usize);
    let head = into.len().min((WORD - within) % WORD);
    let (first, rest) = into.split_at_mut(head);
    if head > 0 {
        first.copy_from_slice(&word(number, place)[within..within + head]);
        place += 1;
    }
    for (count, part) in rest.chunks_mut(WORD).enumerate() {
        part.copy_from_slice(&word(number, place + count as u64)[..part.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stream;
    use alloc::vec;
    use alloc::vec::Vec;

    /// The bytes again, and how many of them were plain.
    fn again(bytes: &[u8]) -> (Vec<u8>, usize) {
        let (mut made, mut plain) = (Vec::new(), 0);
        pieces(bytes, |piece| {
            let from = made.len();
            match piece {
                Piece::Zeroes(size) => made.resize(from + size, 0),
                Piece::Plain(size) => {
                    made.extend_from_slice(&bytes[from..from + size]);
                    plain += size;
                }
                Piece::Filled {
                    number,
                    from: first,
                    size,
                } => {
                    made.resize(from + size, 0);
                    refill(number, first, &mut made[from..]);
                }
            }
        });
        (made, plain)
    }

    #[test]
    fn spreading_can_be_undone() {
        let mut stream = Stream::new(1, "filling");
        for number in (0..1000).map(|_| stream.bits()).chain([0, 1, u64::MAX]) {
            assert_eq!(gather(spread(number)), number);
            assert_eq!(spread(gather(number)), number);
        }
    }

    #[test]
    fn fillings_differ_in_every_line() {
        let (mut one, mut other) = ([0; 4096], [0; 4096]);
        fill(1, &mut one);
        fill(2, &mut other);
        let lines = one.chunks(64).zip(other.chunks(64));
        assert!(lines.clone().all(|(one, other)| one != other));
    }

    #[test]
    fn a_page_of_a_large_file_is_one_piece() {
        let mut file = vec![0; 1 << 20];
        fill(77, &mut file);
        for shift in [0, 1, 5, 8, 4093] {
            for page in [0, 3, 200] {
                let page = &file[shift + page * 4096..][..4096];
                let mut count = 0;
                pieces(page, |_| count += 1);
                assert_eq!((count, again(page)), (1, (page.to_vec(), 0)), "{shift}");
            }
        }
    }

    #[test]
    fn what_was_put_together_is_found_apart() {
        let mut stream = Stream::new(5, "filling");
        for turn in 0..400 {
            let mut bytes = Vec::new();
            while bytes.len() < 4096 {
                let size = 1 + stream.below(if turn % 2 == 0 { 3000 } else { 90 }) as usize;
                let from = bytes.len();
                bytes.resize(from + size, 0);
                match stream.below(4) {
                    0 => bytes[from..].fill(stream.below(2) as u8),
                    1 => bytes[from..].fill_with(|| stream.bits() as u8),
                    // As a store of keys numbers its values: some have more than 40 bits.
                    2 => refill(stream.below(1 << 44), 8, &mut bytes[from..]),
                    _ => refill(
                        stream.below(1 << 40),
                        stream.below(1 << 20),
                        &mut bytes[from..],
                    ),
                }
            }
            bytes.truncate(4096);
            assert!(again(&bytes).0 == bytes, "{turn}");
        }
    }

    #[test]
    fn a_filling_of_a_stride_and_three_words_is_found_wherever_it_is() {
        let mut stream = Stream::new(9, "filling");
        for before in 0..3 * STRIDE {
            let mut bytes = vec![0; before];
            bytes.fill_with(|| stream.bits() as u8 | 1);
            // All of it but what might be a word's part.
            bytes.resize(before + STRIDE + LEAST + 2 * WORD, 0);
            refill(
                stream.below(1 << 40),
                stream.below(99),
                &mut bytes[before..],
            );
            bytes.extend([1, 2, 3, 5, 7, 11]);
            let (made, plain) = again(&bytes);
            assert!(made == bytes);
            // A byte beside it may be like the filling's by chance.
            assert!(
                (before + 3..=before + 6).contains(&plain),
                "{before}: {plain}"
            );
        }
    }

    #[test]
    fn zeroes_are_found_wherever_they_are() {
        for before in 0..3 * STRIDE {
            let mut bytes = vec![3; before];
            bytes.resize(before + LEAST + WORD, 0);
            bytes.push(1);
            assert_eq!(again(&bytes), (bytes.clone(), before + 1), "{before}");
        }
    }

    #[test]
    fn a_value_of_a_store_is_known_but_for_its_head() {
        for number in [3u64, 1 << 20, 9_999_999] {
            let mut value = vec![0; 1000];
            fill(12_345_678 ^ (number << 20), &mut value);
            value[..8].copy_from_slice(&number.to_le_bytes());
            let (made, plain) = again(&value);
            assert_eq!((made == value, plain), (true, 8), "{number}");
        }
    }
}
