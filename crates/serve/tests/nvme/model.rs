//! Random commands beside bytes in memory.

use crate::probe::{Pace, Serving};
use crate::requests::manners;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serve::nvme::client::{Client, Command};

const BLOCKS: usize = 96;

#[derive(Clone, Debug)]
enum Step {
    Read,
    Write { seed: u8, is_durable: bool },
    Zero { may_deallocate: bool },
    Trim,
    Flush,
}

fn step() -> impl Strategy<Value = (Step, usize, usize)> {
    let step = prop_oneof![
        3 => Just(Step::Read),
        4 => (any::<u8>(), any::<bool>())
            .prop_map(|(seed, is_durable)| Step::Write { seed, is_durable }),
        1 => any::<bool>().prop_map(|may_deallocate| Step::Zero { may_deallocate }),
        1 => Just(Step::Trim),
        1 => Just(Step::Flush),
    ];
    (step, 0..BLOCKS, 1..40_usize)
}

#[test]
fn a_disk_over_the_network_is_bytes_in_memory() {
    let serving = Serving::new(Pace {
        read_turns: 3,
        write_turns: 1,
    });
    let steps = prop::collection::vec(step(), 1..60);
    let mut runner = TestRunner::new(Config::with_cases(20));
    let manners: Vec<_> = manners().collect();
    let told = (steps, 0..manners.len());
    let result = runner.run(&told, |(steps, manner)| {
        let mut client = Client::connect(serving.place, manners[manner]).expect("connects");
        let mut model = vec![0; BLOCKS * 4096];
        client.write(0, &model, false).expect("written");
        for (step, first, count) in steps {
            let count = count.min(BLOCKS - first);
            let range = first * 4096..(first + count) * 4096;
            let (first, count) = (first as u64, count as u32);
            match step {
                Step::Read => {
                    let found = client.read(first, count).expect("read");
                    prop_assert!(found == model[range]);
                }
                Step::Write { seed, is_durable } => {
                    model[range.clone()].fill(seed);
                    client
                        .write(first, &model[range], is_durable)
                        .expect("written");
                }
                Step::Zero { may_deallocate } => {
                    model[range].fill(0);
                    let mut command = Command::new(8).blocks(first, count);
                    command.0[51] = u8::from(may_deallocate) << 1;
                    client.io.ask(command, Vec::new()).expect("zeroed");
                }
                Step::Trim => {
                    model[range].fill(0);
                    let mut data = vec![0; 4];
                    data.extend(count.to_le_bytes());
                    data.extend(first.to_le_bytes());
                    let command = Command::new(9).with(11, 4);
                    client.io.ask(command, data).expect("deallocated");
                }
                Step::Flush => client.flush().expect("flushed"),
            }
        }
        prop_assert!(client.read(0, BLOCKS as u32).expect("read") == model);
        Ok(())
    });
    result.expect("the same");
    serving.end();
}
