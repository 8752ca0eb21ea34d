//! Every bug that can be planted is found, and soon.

use crash::{Bug, Campaign, Tally};

/// Crash points after which a bug must have been found.
const MOST_POINTS: u64 = 20_000;

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for (bug, name) in Bug::ALL {
        let campaign = Campaign {
            seed: 0,
            points: MOST_POINTS,
            bug: Some(*bug),
        };
        let mut tally = Tally::default();
        match campaign.run(&mut tally, |_| true) {
            Err(failure) => println!("{name} | {} | {}", tally.points, failure.finding.what),
            Ok(()) => missed.push(*name),
        }
    }
    const { assert!(Bug::ALL.len() >= 20) };
    assert!(missed.is_empty(), "not found: {}", missed.join(", "));
}
