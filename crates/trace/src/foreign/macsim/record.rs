//! One record of a MacSim trace: 80 bytes, little-endian, as the x86-64 C structure lies in memory.
//!
//! | byte | field |
//! |---|---|
//! | 0, 1 | number of source and of destination registers |
//! | 2–10, 11–16 | source and destination registers (Pin's numbers, eight bits) |
//! | 17, 18 | kind of branch; has an immediate |
//! | 19 | opcode class: XED category, then MacSim's own |
//! | 20–22 | stores; floating point; writes the flags |
//! | 23, 24 | number of loads (0 to 2); length of the instruction |
//! | 32, 40, 48 | addresses of the loads and the store |
//! | 56, 64 | address of the instruction; target of the branch |
//! | 72, 73 | bytes loaded (by each load) and stored |
//! | 74, 75 | string direction; branch taken |

/// Bytes of a record.
pub(super) const BYTES: usize = 80;
/// Bytes at its start that say what the instruction is: equal for all records at an address.
pub(super) const STATIC_BYTES: usize = 25;
/// Registers that a record can name.
const SOURCES: usize = 9;
const TARGETS: usize = 6;

/// A record.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Record {
    pub(super) sources: Vec<u8>,
    pub(super) targets: Vec<u8>,
    pub(super) branch: u8,
    pub(super) opcode: u8,
    pub(super) stores: bool,
    pub(super) floating: bool,
    pub(super) writes_flags: bool,
    pub(super) loads: u8,
    pub(super) len: u8,
    pub(super) load: [u64; 2],
    pub(super) store: u64,
    pub(super) pc: u64,
    pub(super) target: u64,
    pub(super) load_bytes: u8,
    pub(super) store_bytes: u8,
    pub(super) taken: bool,
}

impl Record {
    /// The record as it stands in a file; surplus registers are left out.
    pub(super) fn to_bytes(&self) -> [u8; BYTES] {
        let mut out = [0; BYTES];
        let sources = &self.sources[..self.sources.len().min(SOURCES)];
        let targets = &self.targets[..self.targets.len().min(TARGETS)];
        (out[0], out[1]) = (sources.len() as u8, targets.len() as u8);
        out[2..2 + sources.len()].copy_from_slice(sources);
        out[11..11 + targets.len()].copy_from_slice(targets);
        (out[17], out[19]) = (self.branch, self.opcode);
        out[20] = self.stores.into();
        out[21] = self.floating.into();
        out[22] = self.writes_flags.into();
        (out[23], out[24]) = (self.loads, self.len);
        let words = [self.load[0], self.load[1], self.store, self.pc, self.target];
        for (n, word) in words.iter().enumerate() {
            out[32 + 8 * n..40 + 8 * n].copy_from_slice(&word.to_le_bytes());
        }
        (out[72], out[73]) = (self.load_bytes, self.store_bytes);
        out[75] = self.taken.into();
        out
    }
    /// Reads a record.
    ///
    /// # Errors
    /// A sentence on the first field that holds what no tracer writes.
    pub(super) fn from_bytes(bytes: &[u8; BYTES]) -> Result<Self, String> {
        let (sources, targets) = (usize::from(bytes[0]), usize::from(bytes[1]));
        let most = |what: &str, found: usize, most: usize| {
            let problem = format!("has {found} {what}, and {most} is the most");
            if found > most { Err(problem) } else { Ok(()) }
        };
        most("source registers", sources, SOURCES)?;
        most("destination registers", targets, TARGETS)?;
        most("loads", bytes[23].into(), 2)?;
        most("as its kind of branch", bytes[17].into(), 9)?;
        if !(1..=15).contains(&bytes[24]) {
            return Err(format!("is an instruction of {} bytes", bytes[24]));
        }
        for (at, what) in [
            (20, "stores"),
            (21, "is floating point"),
            (22, "writes the flags"),
            (75, "is taken"),
        ] {
            if bytes[at] > 1 {
                return Err(format!("says {} to whether it {what}", bytes[at]));
            }
        }
        let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|n| bytes[at + n]));
        Ok(Self {
            sources: bytes[2..2 + sources].to_vec(),
            targets: bytes[11..11 + targets].to_vec(),
            branch: bytes[17],
            opcode: bytes[19],
            stores: bytes[20] == 1,
            floating: bytes[21] == 1,
            writes_flags: bytes[22] == 1,
            loads: bytes[23],
            len: bytes[24],
            load: [word(32), word(40)],
            store: word(48),
            pc: word(56),
            target: word(64),
            load_bytes: bytes[72],
            store_bytes: bytes[73],
            taken: bytes[75] == 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_read_back_from_its_place() {
        let record = Record {
            sources: (1..=9).collect(),
            targets: (10..=15).collect(),
            branch: 9,
            opcode: 104,
            stores: true,
            floating: true,
            writes_flags: true,
            loads: 2,
            len: 15,
            load: [0x1111, 0x2222],
            store: 0x3333,
            pc: 0x4444,
            target: 0x5555,
            load_bytes: 6,
            store_bytes: 7,
            taken: true,
        };
        let bytes = record.to_bytes();
        assert_eq!(Record::from_bytes(&bytes), Ok(record));
        assert_eq!(bytes[2..17], (1..=15).collect::<Vec<u8>>());
        assert_eq!(
            (bytes[32], bytes[40], bytes[48], bytes[56], bytes[64]),
            (0x11, 0x22, 0x33, 0x44, 0x55)
        );
    }

    #[test]
    fn a_field_out_of_range_is_named() {
        let good = Record {
            len: 1,
            ..Record::default()
        }
        .to_bytes();
        let problem = |at: usize, value: u8| {
            let mut bytes = good;
            bytes[at] = value;
            Record::from_bytes(&bytes).unwrap_err()
        };
        assert_eq!(problem(0, 10), "has 10 source registers, and 9 is the most");
        assert_eq!(problem(23, 3), "has 3 loads, and 2 is the most");
        assert_eq!(problem(24, 0), "is an instruction of 0 bytes");
        assert_eq!(problem(75, 2), "says 2 to whether it is taken");
    }
}
