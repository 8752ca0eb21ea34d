//! Captures of a known shape, so that a bench depends on no file.
//!
//! Each thread turns in a small loop of arithmetic, a load and a store that hit in L1. In `far` of
//! 1,000 turns it also reads, or writes, a line picked at random: of the *hot* region, which is
//! meant to fit into device DRAM or host DRAM, or, in `cold` of 1,000 cases, of the *cold* region,
//! which is not.

use trace::{Reg, StaticInst, TraceWriter};
use units::{Stream, ThreadId};

/// Instructions of a turn without an access to a region.
const TURN: u64 = 8;
/// What an access to a region adds.
const FAR: u64 = 2;
const NEAR_BYTES: u64 = 8 * 1024;
const NEAR_START: u64 = 0x10_0000;
const HOT_START: u64 = 1 << 32;
const COLD_START: u64 = 1 << 40;

/// What `bench write` is told, each word a `name=value`.
struct Shape {
    threads: u64,
    /// Of each thread.
    instructions: u64,
    /// Of 1,000 turns, those with an access to a region.
    far: u64,
    /// MiB that all threads share.
    hot: u64,
    /// MiB that all threads share.
    cold: u64,
    /// Of 1,000 accesses to a region, those to the cold one.
    cold_share: u64,
    /// Of 1,000 accesses to a region, those that write.
    stores: u64,
}

impl Shape {
    fn from_words(words: &[&str]) -> Result<Self, String> {
        let mut shape = Self {
            threads: 24,
            instructions: 1_000_000,
            far: 60,
            hot: 64,
            cold: 2_048,
            cold_share: 0,
            stores: 200,
        };
        for word in words {
            let (name, value) = word
                .split_once('=')
                .ok_or_else(|| format!("{word}: write it as name=value"))?;
            let place = match name {
                "threads" => &mut shape.threads,
                "instructions" => &mut shape.instructions,
                "far" => &mut shape.far,
                "hot" => &mut shape.hot,
                "cold" => &mut shape.cold,
                "cold_share" => &mut shape.cold_share,
                "stores" => &mut shape.stores,
                _ => {
                    return Err(format!(
                        "{name} is no property of a capture; there are threads, instructions, far, \
                         hot, cold, cold_share and stores"
                    ));
                }
            };
            *place = value
                .parse()
                .map_err(|_| format!("{word}: {value} is not a number"))?;
        }
        if shape.threads == 0 || shape.hot == 0 || shape.cold == 0 {
            return Err("threads, hot and cold must be at least 1".to_string());
        }
        Ok(shape)
    }
}

/// The instructions that all threads execute.
struct Code {
    sums: [StaticInst; 5],
    load: StaticInst,
    store: StaticInst,
    branch: StaticInst,
    far_address: StaticInst,
    far_load: StaticInst,
    far_store: StaticInst,
}

impl Code {
    fn new(writer: &mut TraceWriter) -> Self {
        let r = Reg::general;
        Self {
            sums: [
                writer.alu(r(0), &[r(0)]),
                writer.alu(r(1), &[r(0)]),
                writer.alu(r(4), &[r(2), r(1)]),
                writer.alu(r(5), &[r(5)]),
                // Uses what the last far load brought.
                writer.alu(r(6), &[r(1), r(7)]),
            ],
            load: writer.load(r(2), r(3)),
            store: writer.store(r(4), r(5)),
            far_address: writer.alu(r(8), &[r(8)]),
            far_load: writer.load(r(7), r(8)),
            far_store: writer.store(r(4), r(8)),
            branch: writer.branch(),
        }
    }

    fn turn(&self, writer: &mut TraceWriter, thread: ThreadId, near: u64) {
        for sum in self.sums {
            writer.execute(thread, sum, None, None);
        }
        writer.execute(thread, self.load, Some((near, 8)), None);
        writer.execute(thread, self.store, None, Some((near, 8)));
        writer.execute(thread, self.branch, None, None);
    }

    fn far(&self, writer: &mut TraceWriter, thread: ThreadId, byte: u64, is_store: bool) {
        writer.execute(thread, self.far_address, None, None);
        if is_store {
            writer.execute(thread, self.far_store, None, Some((byte, 8)));
        } else {
            writer.execute(thread, self.far_load, Some((byte, 8)), None);
        }
    }
}

/// Writes a capture to `path`.
pub fn write(path: &str, words: &[&str]) -> Result<(), String> {
    let shape = Shape::from_words(words)?;
    compose(&shape)
        .save(path)
        .map_err(|error| error.to_string())
}

fn compose(shape: &Shape) -> TraceWriter {
    let mut writer = TraceWriter::new();
    let code = Code::new(&mut writer);
    for index in 0..shape.threads {
        let thread = writer.thread();
        let mut random = Stream::new(index, "bench/capture");
        let near = NEAR_START + index * 2 * NEAR_BYTES;
        let (mut done, mut turn) = (0, 0);
        while done < shape.instructions {
            code.turn(&mut writer, thread, near + turn * 8 % NEAR_BYTES);
            (done, turn) = (done + TURN, turn + 1);
            if random.below(1_000) >= shape.far {
                continue;
            }
            let (start, mebibytes) = match random.below(1_000) < shape.cold_share {
                true => (COLD_START, shape.cold),
                false => (HOT_START, shape.hot),
            };
            let byte = start + random.below(mebibytes << 14) * 64;
            code.far(
                &mut writer,
                thread,
                byte,
                random.below(1_000) < shape.stores,
            );
            done += FAR;
        }
    }
    writer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capture_has_the_length_and_the_mixture_asked_for() {
        let words = ["threads=3", "instructions=20000", "far=500", "stores=250"];
        let shape = Shape::from_words(&words).unwrap();
        let file = compose(&shape).finish();
        assert_eq!(file.threads().len(), 3);
        for thread in file.threads() {
            // A turn of 8, and 2 more in half of them: 9 on average, so 2,222 turns with a load
            // and a store each, and 1,111 far accesses of which a quarter are stores.
            assert!((20_000..20_010).contains(&thread.instructions));
            assert!((3_000..3_120).contains(&thread.loads), "{}", thread.loads);
            assert!((2_440..2_560).contains(&thread.stores), "{}", thread.stores);
        }
    }

    #[test]
    fn what_a_capture_cannot_be_is_said() {
        let problem = |word| Shape::from_words(&[word]).err().unwrap();
        assert!(problem("warm=3").starts_with("warm is no property of a capture"));
        assert_eq!(problem("far=x"), "far=x: x is not a number");
        assert_eq!(problem("far"), "far: write it as name=value");
        assert_eq!(problem("hot=0"), "threads, hot and cold must be at least 1");
    }
}
