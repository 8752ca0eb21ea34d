//! The command layout of OpenCXD's artifact, bit by bit, with what is wrong in it.
//!
//! One access of a line is one NVMe passthrough command without data; the device's time comes back
//! in the completion. It says less than [`crate::Command`] and [`crate::Reply`] do, and some of it
//! twice: `docs/formats/device-protocol.md` lists the quirks, and the tests below show each. For
//! a board whose firmware is OpenCXD's; [`crate::nvme`] sends it.

/// Bytes of a submission queue entry.
pub const SUBMISSION_BYTES: usize = 64;
/// Bytes of a completion queue entry.
pub const COMPLETION_BYTES: usize = 16;
/// Picoseconds of a tick of the board's timer, which counts at 33.333 MHz.
pub const TICK_PICOS: u64 = 30_000;
/// What reading the timer twice costs, in nanoseconds: the artifact's host takes it off once.
pub const TIMER_NANOS: i64 = 420;
/// What the artifact's host adds for CXL, in nanoseconds.
pub const CXL_NANOS: i64 = 40;

/// Byte offsets of the dwords that are used.
const CDW: [usize; 3] = [40, 44, 48];
const NAMESPACE: usize = 4;

/// What a command asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// 0xA0: a line is loaded or stored.
    Access,
    /// 0xA1: is a page to be promoted? The artifact's firmware has nothing that answers.
    PollPromotion,
    /// 0xA2: a page is programmed, whatever its bytes.
    WritePage,
    /// 0xA3: statistics go to the board's serial line.
    Statistics,
}

impl Operation {
    /// Its NVMe opcode.
    pub const fn opcode(self) -> u8 {
        match self {
            Self::Access => 0xA0,
            Self::PollPromotion => 0xA1,
            Self::WritePage => 0xA2,
            Self::Statistics => 0xA3,
        }
    }

    fn of_opcode(opcode: u8) -> Option<Self> {
        Some(match opcode {
            0xA0 => Self::Access,
            0xA1 => Self::PollPromotion,
            0xA2 => Self::WritePage,
            0xA3 => Self::Statistics,
            _ => return None,
        })
    }
}

/// A command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Submission {
    /// What is asked.
    pub operation: Operation,
    /// Of which namespace. The artifact's host says 0x3991C00, which is the device's size in blocks
    /// of 4 KiB: its firmware answers the list of namespaces with the first one's structure.
    pub namespace: u32,
    /// Byte address; its low 32 bits go into CDW11 and the others nowhere.
    pub address: u64,
    /// A store, else a load.
    pub is_store: bool,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

impl Submission {
    /// The entry, under the command identifier `id`.
    pub fn to_bytes(&self, id: u16) -> [u8; SUBMISSION_BYTES] {
        let mut bytes = [0; SUBMISSION_BYTES];
        bytes[0] = self.operation.opcode();
        bytes[2..4].copy_from_slice(&id.to_le_bytes());
        bytes[NAMESPACE..NAMESPACE + 4].copy_from_slice(&self.namespace.to_le_bytes());
        let [_, address, kind] = CDW;
        bytes[address..address + 4].copy_from_slice(&(self.address as u32).to_le_bytes());
        bytes[kind..kind + 4].copy_from_slice(&u32::from(self.is_store).to_le_bytes());
        bytes
    }

    /// What an entry says to the artifact's firmware: whatever is not a load is a store. Nothing if
    /// it has no such operation.
    pub fn from_bytes(bytes: &[u8; SUBMISSION_BYTES]) -> Option<Self> {
        let [_, address, kind] = CDW;
        Some(Self {
            operation: Operation::of_opcode(bytes[0])?,
            namespace: word(bytes, NAMESPACE),
            address: u64::from(word(bytes, address)),
            is_store: word(bytes, kind) != 0,
        })
    }
}

/// What the firmware did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Done {
    /// The line was in the log.
    LogRead,
    /// The line was appended to the log.
    LogWrite,
    /// The page was in the data cache.
    CacheHit,
    /// The page was read from flash; what was not the flash's took so many ticks.
    Miss {
        /// Ticks of overhead.
        overhead: u32,
    },
    /// The log was full: it was compacted, then the line was appended.
    Compacted,
    /// The page was never written.
    Unmapped,
}

impl Done {
    /// The status code that stands for it. Of a miss it is the overhead, of which eight bits are
    /// left; without overhead 5.
    pub const fn status(self) -> u8 {
        match self {
            Self::LogRead => 2,
            Self::LogWrite => 3,
            Self::CacheHit => 4,
            Self::Miss { overhead: 0 } => 5,
            Self::Miss { overhead } => overhead as u8,
            Self::Compacted => 6,
            Self::Unmapped => 0xFF,
        }
    }

    /// What the artifact's host takes a status code for.
    pub const fn of_status(status: u8) -> Self {
        match status {
            2 => Self::LogRead,
            3 => Self::LogWrite,
            4 => Self::CacheHit,
            5 => Self::Miss { overhead: 0 },
            6 => Self::Compacted,
            0xFF => Self::Unmapped,
            overhead => Self::Miss {
                overhead: overhead as u32,
            },
        }
    }
}

/// A completion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The command's identifier.
    pub id: u16,
    /// What the firmware did.
    pub done: Done,
    /// Ticks on the device altogether.
    pub ticks: u32,
}

impl Completion {
    /// The entry. DW0 has the ticks; the status code is in the upper half of DW3, above the phase
    /// bit. (Figure 8 of the paper draws the firmware's own descriptor instead.)
    pub fn to_bytes(&self) -> [u8; COMPLETION_BYTES] {
        let mut bytes = [0; COMPLETION_BYTES];
        bytes[..4].copy_from_slice(&self.ticks.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.id.to_le_bytes());
        let status = u16::from(self.done.status()) << 1;
        bytes[14..].copy_from_slice(&status.to_le_bytes());
        bytes
    }

    /// What an entry says to the artifact's host. The type of the status is not looked at.
    pub fn from_bytes(bytes: &[u8; COMPLETION_BYTES]) -> Self {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        Self {
            id: half(12),
            done: Done::of_status((half(14) >> 1) as u8),
            ticks: word(bytes, 0),
        }
    }

    /// The latency that the artifact's host makes of it, in nanoseconds: below zero for a device
    /// that is faster than its timer.
    pub fn latency_nanos(&self) -> i64 {
        (u64::from(self.ticks) * TICK_PICOS / 1_000) as i64 - TIMER_NANOS + CXL_NANOS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn access(address: u64, is_store: bool) -> Submission {
        Submission {
            operation: Operation::Access,
            namespace: 0x0399_1C00,
            address,
            is_store,
        }
    }

    #[test]
    fn a_store_is_laid_out_as_the_artifact_does() {
        let bytes = access(0x1234_5678, true).to_bytes(7);
        let mut wanted = [0; SUBMISSION_BYTES];
        wanted[0] = 0xA0;
        wanted[2] = 7;
        wanted[4..8].copy_from_slice(&[0x00, 0x1C, 0x99, 0x03]);
        wanted[44..48].copy_from_slice(&[0x78, 0x56, 0x34, 0x12]);
        wanted[48] = 1;
        assert_eq!(bytes, wanted);
        assert_eq!(
            Submission::from_bytes(&bytes),
            Some(access(0x1234_5678, true))
        );
    }

    #[test]
    fn a_completion_is_laid_out_as_the_artifact_does() {
        let completion = Completion {
            id: 0x0102,
            done: Done::CacheHit,
            ticks: 0x0A0B_0C0D,
        };
        let wanted = [
            0x0D, 0x0C, 0x0B, 0x0A, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x01, 8, 0,
        ];
        assert_eq!(completion.to_bytes(), wanted);
        assert_eq!(Completion::from_bytes(&wanted), completion);
    }

    #[test]
    fn quirk_addresses_alias_at_4_gib() {
        let heap = access(0x5555_0000_1000, false).to_bytes(0);
        let map = access(0x7fff_0000_1000, false).to_bytes(0);
        assert_eq!(heap, map);
    }

    #[test]
    fn quirk_whatever_is_no_load_is_a_store() {
        let mut bytes = access(0, false).to_bytes(0);
        bytes[49] = 0x80;
        assert!(Submission::from_bytes(&bytes).unwrap().is_store);
    }

    #[test]
    fn quirk_overheads_of_two_to_six_ticks_are_taken_for_outcomes() {
        for (overhead, taken_for) in [
            (2, Done::LogRead),
            (3, Done::LogWrite),
            (4, Done::CacheHit),
            (5, Done::Miss { overhead: 0 }),
            (6, Done::Compacted),
            (255, Done::Unmapped),
        ] {
            let miss = Done::Miss { overhead };
            assert_eq!(Done::of_status(miss.status()), taken_for);
        }
    }

    #[test]
    fn quirk_overheads_beyond_255_ticks_are_cut() {
        // 7.68 us are told as nothing, and 8 us as 330 ns.
        assert_eq!(Done::Miss { overhead: 256 }.status(), 0);
        assert_eq!(Done::Miss { overhead: 267 }.status(), 11);
    }

    #[test]
    fn quirk_a_device_faster_than_its_timer_has_a_latency_below_zero() {
        let hit = |ticks| Completion {
            id: 0,
            done: Done::CacheHit,
            ticks,
        };
        assert_eq!(hit(12).latency_nanos(), -20);
        assert_eq!(hit(34).latency_nanos(), 640);
    }

    #[test]
    fn quirk_the_promotion_poll_has_an_opcode_and_no_answer() {
        assert_eq!(Operation::PollPromotion.opcode(), 0xA1);
        assert_eq!(Submission::from_bytes(&[0xA4; 64]), None);
    }

    proptest! {
        #[test]
        fn what_fits_comes_back(address: u32, is_store: bool, namespace: u32, id: u16, ticks: u32) {
            let sent = Submission { namespace, ..access(u64::from(address), is_store) };
            prop_assert_eq!(Submission::from_bytes(&sent.to_bytes(id)), Some(sent));
            for status in 0..=u8::MAX {
                let completion = Completion { id, done: Done::of_status(status), ticks };
                let bytes = completion.to_bytes();
                prop_assert_eq!(Completion::from_bytes(&bytes), completion);
            }
        }
    }
}
