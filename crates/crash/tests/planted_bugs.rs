//! Every bug that can be planted is found, and soon.

use crate::report;
use crash::{Bug, Campaign, Tally};

/// Crash points after which a bug must have been found: some three times those of the rarest.
const MOST_POINTS: u64 = 20_000;

/// The first workload on a device whose frames survive.
const FIRST_WITH_FRAMES: u64 = 25;

#[test]
fn every_planted_bug_is_found() {
    let (mut missed, mut found) = (Vec::new(), 0);
    for (bug, name) in Bug::ALL {
        let is_of_frames = name.contains("frame") && *bug != Bug::FrameForgotten;
        let campaign = Campaign {
            seed: if is_of_frames { FIRST_WITH_FRAMES } else { 0 },
            points: MOST_POINTS,
            bug: Some(*bug),
        };
        let mut tally = Tally::default();
        let outcome = campaign.run(&mut tally, |_| true);
        report::add("crash points", tally.points);
        match outcome {
            Err(failure) => {
                found += 1;
                println!("{name} | {} | {}", tally.points, failure.finding.what);
            }
            Ok(()) => missed.push(*name),
        }
    }
    report::add("planted bugs found", found);
    assert!(missed.is_empty(), "not found: {}", missed.join(", "));
    assert!(found >= 66, "{found} bugs were planted");
}
