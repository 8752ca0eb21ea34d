//! Extended attributes: a block of names and values, one behind the other.

use super::{BLOCK, Torn, get_u16, get_u32, put_u16, put_u32, sum};

/// Bytes before a name.
const HEAD: usize = 8;
/// Where an attribute may begin.
const ALIGN: usize = 8;

/// A name and its value.
pub type Attribute = (Vec<u8>, Vec<u8>);

/// What a block holds, in order; an error if it is not whole.
pub fn decode(block: &[u8]) -> Result<Vec<Attribute>, Torn> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + HEAD <= BLOCK && block[at] != 0 {
        let (name, value) = (usize::from(block[at]), usize::from(get_u16(block, at + 2)));
        let end = at + HEAD + name + value;
        if end > BLOCK || get_u32(block, at + 4) != sum_of(&block[at..end]) {
            return Err(Torn);
        }
        let split = at + HEAD + name;
        found.push((block[at + HEAD..split].to_vec(), block[split..end].to_vec()));
        at = end.next_multiple_of(ALIGN);
    }
    // A first byte that was lost must not end the list without a word.
    // Nor must all of a block: one without attributes is given back, so no inode has one.
    if found.is_empty() || block[at.min(BLOCK)..].iter().any(|byte| *byte != 0) {
        return Err(Torn);
    }
    Ok(found)
}

/// A block that holds them; none if they are too much for one.
pub fn encode(attributes: &[Attribute]) -> Option<Vec<u8>> {
    let mut block = Vec::new();
    for (name, value) in attributes {
        let at = block.len();
        block.resize(at + HEAD, 0);
        block[at] = name.len() as u8;
        put_u16(&mut block, at + 2, u16::try_from(value.len()).ok()?);
        block.extend_from_slice(name);
        block.extend_from_slice(value);
        let sum = sum_of(&block[at..]);
        put_u32(&mut block, at + 4, sum);
        block.resize(block.len().next_multiple_of(ALIGN), 0);
    }
    if block.len() > BLOCK {
        return None;
    }
    block.resize(BLOCK, 0);
    Some(block)
}

fn sum_of(entry: &[u8]) -> u32 {
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&entry[..4]);
    sum(&head).rotate_left(7) ^ sum(&entry[HEAD..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_as_they_were_written_and_too_many_are_refused() {
        let attributes: Vec<_> = (1..20_usize)
            .map(|index| (vec![b'a'; index * 3], vec![index as u8; index * 5]))
            .collect();
        let block = encode(&attributes).unwrap();
        assert_eq!(decode(&block), Ok(attributes.clone()));
        let mut broken = block;
        broken[70] ^= 1;
        assert!(decode(&broken).is_err());
        assert!(encode(&[(vec![b'a'], vec![0; BLOCK])]).is_none());
        assert_eq!(decode(&[0; BLOCK]), Err(Torn));
    }
}
