//! Every bug that can be planted is found, and soon.

use crash::{Bug, Campaign, Tally};

/// Workloads use no transactions yet: what is wrong with them cannot show.
const OF_TRANSACTIONS: [Bug; 5] = [
    Bug::CommitForgotten,
    Bug::CommitBeforeData,
    Bug::AnsweredBeforeCommit,
    Bug::CommitLostEarly,
    Bug::TxLogOverlooked,
];

/// Crash points after which a bug must have been found.
const MOST_POINTS: u64 = 20_000;

#[test]
fn every_planted_bug_is_found() {
    let (mut missed, mut found) = (Vec::new(), 0);
    let can_show = |(bug, _): &&(Bug, _)| !OF_TRANSACTIONS.contains(bug);
    for (bug, name) in Bug::ALL.iter().filter(can_show) {
        let campaign = Campaign {
            seed: 0,
            points: MOST_POINTS,
            bug: Some(*bug),
        };
        let mut tally = Tally::default();
        match campaign.run(&mut tally, |_| true) {
            Err(failure) => {
                found += 1;
                println!("{name} | {} | {}", tally.points, failure.finding.what);
            }
            Ok(()) => missed.push(*name),
        }
    }
    assert!(missed.is_empty(), "not found: {}", missed.join(", "));
    assert!(found >= 20, "{found} bugs were planted");
}
