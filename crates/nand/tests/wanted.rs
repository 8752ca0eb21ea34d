//! Wanted codewords first: single cases, and random reads against a bus that carries one codeword
//! after the other.

use crate::common::{Driven, at, page, small};
use nand::{Kind, NandConfig, Operation, Scheduling, Transfer};
use proptest::prelude::*;
use std::collections::VecDeque;
use units::{Bytes, BytesPerSec, PageSize, Picos, Time};

/// A codeword takes 100 ns, a page of 1 KiB with four of them 400, a read at the cells 3 us.
fn wanted_first() -> NandConfig {
    NandConfig {
        page_size: PageSize::KIB_1,
        codeword: PageSize::new(Bytes::new(256)).expect("a power of two"),
        channel_bandwidth: BytesPerSec::new(2_560_000_000),
        transfer: Transfer::WantedFirst,
        channels: 1,
        chips_per_channel: 4,
        dies_per_chip: 2,
        ..small()
    }
}

fn read(config: &NandConfig, die: u32) -> Operation {
    Operation::Read(page(config, die, 0, 0))
}

/// When codewords came: (time, tag, codewords), those of ends included.
fn parts_of(driven: &Driven, tag: u32) -> Vec<(Time, u64)> {
    let parts = driven.parts.iter().filter(|(_, part)| part.tag == tag);
    parts.map(|(at, part)| (*at, part.codewords)).collect()
}

#[test]
fn a_wanted_codeword_comes_before_the_rest_of_its_page() {
    let config = wanted_first();
    let mut driven = Driven::new(&config);
    driven.submit(at(0), 0, read(&config, 0));
    driven.want(at(0), 0, 2);
    driven.finish();
    assert_eq!(parts_of(&driven, 0), [(at(3100), 0b0100)]);
    assert_eq!(driven.finish_of(0), at(3400));
}

#[test]
fn a_page_that_nobody_waits_for_comes_as_a_whole() {
    let config = wanted_first();
    let mut driven = Driven::new(&config);
    driven.submit(at(0), 0, read(&config, 0));
    driven.finish();
    assert!(driven.parts.is_empty());
    assert_eq!(driven.finish_of(0), at(3400));
}

#[test]
fn the_last_codeword_of_a_page_is_its_end() {
    let config = wanted_first();
    let mut driven = Driven::new(&config);
    driven.submit(at(0), 0, read(&config, 0));
    for codeword in 0..4 {
        driven.want(at(0), 0, codeword);
    }
    driven.finish();
    let ends = [(at(3100), 1), (at(3200), 2), (at(3300), 4)];
    assert_eq!(parts_of(&driven, 0), ends);
    assert_eq!(driven.finish_of(0), at(3400));
}

/// Die 1 asks for the bus while a page of die 0 is on it, in the middle of its second codeword.
#[test]
fn a_wanted_codeword_goes_before_what_is_left_of_another_page() {
    let config = wanted_first();
    let mut driven = Driven::new(&config);
    driven.submit(at(0), 0, read(&config, 0));
    driven.submit(at(150), 1, read(&config, 1));
    driven.want(at(150), 1, 3);
    driven.finish();
    assert_eq!(parts_of(&driven, 1), [(at(3300), 0b1000)]);
    assert_eq!(driven.finish_of(0), at(3500), "two codewords were left");
    assert_eq!(driven.finish_of(1), at(3800), "and three here");
    assert!(parts_of(&driven, 0).is_empty(), "nobody waits for any");
    let stats = driven.nand.stats();
    assert_eq!(stats.channel_busy, Picos::from_nanos(800));
    assert_eq!(
        stats.of(Kind::Read).channel_wait,
        Picos::from_nanos(50 + 100 + 200)
    );
}

/// Somebody comes to wait for a page that is on the bus: what has been carried is told of then,
/// and the codeword goes before what is left.
#[test]
fn a_page_on_the_bus_is_cut_for_whoever_comes_to_wait_for_it() {
    let config = wanted_first();
    let mut driven = Driven::new(&config);
    driven.submit(at(0), 0, read(&config, 0));
    driven.want(at(3050), 0, 2);
    driven.finish();
    assert_eq!(
        parts_of(&driven, 0),
        [(at(3100), 0b0001), (at(3200), 0b0100)]
    );
    assert_eq!(driven.finish_of(0), at(3400));
}

/// The page waits behind another one when somebody comes to wait for it.
#[test]
fn a_page_that_waits_for_the_bus_moves_up_when_it_is_wanted() {
    let config = wanted_first();
    let mut driven = Driven::new(&config);
    for die in 0..3 {
        driven.submit(at(0), die, read(&config, die));
    }
    driven.want(at(3010), 2, 0);
    driven.finish();
    assert_eq!(parts_of(&driven, 2), [(at(3200), 1)]);
    let ends = [0, 1, 2].map(|tag| driven.finish_of(tag));
    assert_eq!(ends, [at(3500), at(3900), at(4200)]);
}

#[test]
fn a_program_on_its_way_in_gives_way() {
    let config = wanted_first();
    let mut driven = Driven::new(&config);
    driven.submit(at(0), 0, read(&config, 0));
    driven.want(at(0), 0, 0);
    driven.submit(at(2950), 1, Operation::Program(page(&config, 1, 0, 0)));
    driven.finish();
    assert_eq!(parts_of(&driven, 0), [(at(3150), 1)]);
    let program = at(2950) + Picos::from_nanos(500) + config.t_prog;
    assert_eq!(driven.finish_of(1), program, "interrupted for one codeword");
    assert_eq!(driven.finish_of(0), at(3750));
}

/// Reads of dies of their own: when each has its page, which codeword is wanted, and since when.
#[derive(Clone, Copy, Debug)]
struct Wish {
    from: u64,
    codeword: Option<(u64, u32)>,
}

/// One codeword after the other: a wanted one if there is any, else the page that was begun, else
/// the one that has waited longest. Gives when each read got its wanted codeword and its end.
fn carry(wishes: &[Wish]) -> Vec<(Option<u64>, u64)> {
    let mut sent = vec![0u8; wishes.len()];
    let mut got = vec![None; wishes.len()];
    let mut ends = vec![0; wishes.len()];
    // Of those that wait: when they came into the queue that they are in.
    let mut wanted: VecDeque<usize> = VecDeque::new();
    let mut others: VecDeque<usize> = VecDeque::new();
    let mut comings: Vec<(u64, usize, usize, bool)> = Vec::new();
    for (read, wish) in wishes.iter().enumerate() {
        let ready = wish.from + 3000;
        comings.push((ready, read, 0, false));
        if let Some((since, _)) = wish.codeword {
            comings.push((since, read, 1, true));
        }
    }
    comings.sort_unstable();
    let is_wanted = |read: usize, now: u64, sent: &[u8]| {
        wishes[read]
            .codeword
            .is_some_and(|(since, codeword)| since <= now && sent[read] >> codeword & 1 == 0)
    };
    let mut comings = comings.into_iter().peekable();
    let mut is_here = vec![false; wishes.len()];
    let mut take_in = |until: u64,
                       now_sent: &[u8],
                       on_bus: Option<usize>,
                       wanted: &mut VecDeque<usize>,
                       others: &mut VecDeque<usize>| {
        while let Some((when, read, _, is_wish)) = comings.next_if(|(when, ..)| *when <= until) {
            if !is_wish {
                is_here[read] = true;
                match is_wanted(read, when, now_sent) {
                    true => wanted.push_back(read),
                    false => others.push_back(read),
                }
            } else if is_here[read]
                && on_bus != Some(read)
                && is_wanted(read, when, now_sent)
                && let Some(place) = others.iter().position(|other| *other == read)
            {
                others.remove(place);
                wanted.push_back(read);
            }
        }
        comings.peek().map(|(when, ..)| *when)
    };
    let mut now = 0;
    loop {
        let next = take_in(now, &sent, None, &mut wanted, &mut others);
        let (read, is_for_wish) = match (wanted.pop_front(), others.pop_front()) {
            (Some(read), other) => {
                other.into_iter().for_each(|other| others.push_front(other));
                (read, true)
            }
            (None, Some(read)) => (read, false),
            (None, None) => match next {
                Some(when) => {
                    now = when;
                    continue;
                }
                None => break,
            },
        };
        let codeword = match wishes[read].codeword {
            Some((_, codeword)) if is_for_wish => codeword,
            _ => (!sent[read]).trailing_zeros(),
        };
        let end = now + 100;
        // What comes meanwhile is in a queue before this one is again.
        take_in(end - 1, &sent, Some(read), &mut wanted, &mut others);
        sent[read] |= 1 << codeword;
        now = end;
        if wishes[read]
            .codeword
            .is_some_and(|(since, of)| since <= end && of == codeword)
        {
            got[read] = Some(end);
        }
        if sent[read] == 0b1111 {
            ends[read] = end;
        } else if is_wanted(read, now, &sent) {
            wanted.push_back(read);
        } else if is_for_wish {
            others.push_back(read);
        } else {
            others.push_front(read);
        }
    }
    got.into_iter().zip(ends).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn reads_come_as_over_a_bus_that_carries_codeword_after_codeword(
        // In units of a codeword: when it is submitted, and how much later somebody wants which.
        asked in prop::collection::vec((0u64..20, prop::option::of((0u64..45, 0u32..4))), 1..9),
        priority in any::<bool>(),
    ) {
        let mut config = wanted_first();
        if priority {
            config.scheduling = Scheduling::ReadPriority;
        }
        // No two things at one instant: that is a matter of the order of events.
        let wishes: Vec<_> = (0..).zip(asked).map(|(index, (from, wish))| Wish {
            from: from * 100 + index * 7,
            codeword: wish.map(|(later, of)| ((from + later) * 100 + index * 7 + 3, of)),
        }).collect();
        let expected = carry(&wishes);
        let mut driven = Driven::new(&config);
        let mut steps: Vec<(u64, u32, Option<u32>)> = Vec::new();
        for (tag, wish) in (0..).zip(&wishes) {
            steps.push((wish.from, tag, None));
            if let Some((since, codeword)) = wish.codeword {
                steps.push((since, tag, Some(codeword)));
            }
        }
        steps.sort_unstable();
        for (when, tag, wish) in steps {
            match wish {
                None => driven.submit(at(when), tag, read(&config, tag)),
                Some(codeword) => {
                    driven.run_before(at(when));
                    if driven.completed.iter().all(|done| done.tag != tag) {
                        driven.want(at(when), tag, codeword);
                    }
                }
            }
            driven.nand.audit();
        }
        driven.finish();
        for (tag, (wish, (got, end))) in (0..).zip(wishes.iter().zip(expected)) {
            prop_assert_eq!(driven.finish_of(tag), at(end), "the end of {}", tag);
            let parts = parts_of(&driven, tag);
            let all = parts.iter().fold(0, |all, (_, codewords)| {
                assert_eq!(all & codewords, 0, "a codeword comes once");
                all | codewords
            });
            prop_assert!(all < 0b1111, "the end is no part");
            if let (Some((_, codeword)), Some(got)) = (wish.codeword, got) {
                let part = parts.iter().find(|(_, codewords)| codewords >> codeword & 1 == 1);
                let came = part.map_or(at(end), |(when, _)| *when);
                prop_assert_eq!(came, at(got), "the codeword of {}", tag);
            }
        }
    }
}
