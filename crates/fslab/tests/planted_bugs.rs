//! The lab finds bugs: each that is planted between a file system and its device.

use bytefs::{DataMode, Personality};
use fslab::crash::{Bug, Campaign, Options, small_device};

/// Sequences of two operations behind all of one.
const OF_TWO: u64 = 400;

fn found(bug: Bug) -> Option<String> {
    let options = Options {
        device_every: 0,
        bug: Some(bug),
        data: match bug.is_of_journaled_data() {
            true => DataMode::Journal,
            false => DataMode::Ordered,
        },
        ..Options::FULL
    };
    [(1, u64::MAX), (2, OF_TWO)]
        .iter()
        .find_map(|(length, sequences)| {
            let campaign = Campaign {
                device: small_device().unwrap(),
                personality: Personality::ByteFs,
                length: *length,
                seed: 15,
                sequences: *sequences,
                is_concurrent: false,
                room: None,
                options,
                threads: 1,
                enough: 1,
            };
            let outcome = campaign.run(|_| true).unwrap();
            let (number, finding) = outcome.findings.first()?;
            let points = outcome.tally.points;
            let lines: Vec<String> = finding.to_string().lines().map(str::to_owned).collect();
            let text = lines.join("; ");
            Some(format!(
                "{points} points, sequence {number} of length {length}: {text}"
            ))
        })
}

#[test]
fn every_planted_bug_is_found() {
    let bugs = Bug::all();
    assert!(bugs.len() >= 20);
    let mut survivors = Vec::new();
    for bug in bugs {
        match found(bug) {
            Some(how) => println!("{bug:?}: {how}"),
            None => survivors.push(bug),
        }
    }
    assert_eq!(survivors, []);
}
