//! Power cuts under files in persistent memory: upgrades, downgrades, syncs by stores alone,
//! evictions.
//!
//! FSLAB_SEQUENCES, FSLAB_LENGTH, FSLAB_SEED and FSLAB_TWO_TASKS for more, FSLAB_MOVES for more
//! lives of files in persistent memory.

use bytefs::Personality;
use dax::PolicyKind;
use fslab::crash::{Campaign, Finding, Options, Protection, Sequence, Tally, device_of, shrink};
use std::fmt::Write as _;
use units::Stream;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn campaign(personality: Personality, kind: PolicyKind, sequences: u64) -> Campaign {
    Campaign {
        device: device_of(personality, true, Protection::Usual).unwrap(),
        personality,
        length: number("FSLAB_LENGTH").unwrap_or(2) as u32,
        seed: number("FSLAB_SEED").unwrap_or(18),
        sequences: number("FSLAB_SEQUENCES").unwrap_or(sequences),
        is_concurrent: number("FSLAB_TWO_TASKS").is_some(),
        room: None,
        options: Options {
            device_every: 64,
            recovery_every: 64,
            dax: Some(kind),
            ..Options::FULL
        },
        threads: number("FSLAB_THREADS").unwrap_or(2) as usize,
        enough: 10,
    }
}

/// The same on a device without a window, of which the log alone survives a power cut.
fn by_log(mut campaign: Campaign) -> Campaign {
    campaign.device = device_of(campaign.personality, false, Protection::Log).unwrap();
    campaign.options.safe_log = true;
    campaign
}

/// Judges a campaign, and gives what was done with persistent memory.
fn check(campaign: &Campaign) -> Tally {
    let outcome = campaign.run(|_| true).unwrap();
    let (personality, length) = (campaign.personality, campaign.length);
    println!("{personality}, length {length}: {}", outcome.tally);
    println!("{:?}", outcome.tally.moves);
    let shown: Vec<String> = outcome
        .findings
        .iter()
        .map(|(number, found)| {
            let least: Finding = shrink(&campaign.lab().unwrap(), found);
            format!("sequence {number}:\n{least}\n")
        })
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    outcome.tally
}

/// With and without syncs by the log; blocks are lost there that were not flushed.
#[test]
fn what_a_sync_by_the_log_has_answered_for_survives_every_cut() {
    let mut tally = Tally::default();
    for (personality, kind) in [
        (Personality::ByteFs, PolicyKind::Always),
        (Personality::ByteFsLog, PolicyKind::Ratio),
    ] {
        let campaign = by_log(campaign(personality, kind, 3));
        tally.add(&check(&campaign));
    }
    let mut plain = by_log(campaign(Personality::ByteFs, PolicyKind::Ratio, 3));
    plain.options.dax = None;
    check(&plain);
    let lab = by_log(campaign(Personality::ByteFs, PolicyKind::Predict, 1));
    let lab = lab.lab().unwrap();
    let lives = number("FSLAB_MOVES").unwrap_or(2);
    let seed = number("FSLAB_SEED").unwrap_or(18);
    let lives = (seed..seed + lives).map(life_of);
    let sequences = MOVING.iter().map(|text| (*text).to_owned());
    for text in sequences.chain(lives) {
        let sequence = Sequence::parse(&text).unwrap();
        if let Err(finding) = lab.run(&sequence, &mut tally) {
            panic!("{}", shrink(&lab, &finding));
        }
    }
    println!("{tally}, {:?}", tally.moves);
    let moves = tally.moves;
    assert!(moves.light_syncs > 10 && moves.upgrades > 4, "{moves:?}");
}

#[test]
fn what_a_light_sync_has_answered_for_survives_every_cut() {
    for (personality, kind) in [
        (Personality::Ext4Like, PolicyKind::Always),
        (Personality::ByteFs, PolicyKind::Ratio),
    ] {
        let mut campaign = campaign(personality, kind, 3);
        // Shorter ones write nothing behind a file's first sync, and a sync that has nothing to do
        // is no light one.
        campaign.length = number("FSLAB_LENGTH").unwrap_or(6) as u32;
        let moves = check(&campaign).moves;
        assert!(moves.light_syncs > 0, "{personality}: {moves:?}");
    }
}

/// Ranges that move between syncs: files that are written more than synced, pages that are cut,
/// punched, replaced and written past the cache while they have frames; more pages than frames.
#[test]
fn ranges_that_move_survive_every_cut() {
    let mut tally = Tally::default();
    for (personality, kind) in [
        (Personality::Ext4Like, PolicyKind::Ratio),
        (Personality::ByteFs, PolicyKind::Predict),
    ] {
        let lab = campaign(personality, kind, 1).lab().unwrap();
        for text in MOVING {
            let sequence = Sequence::parse(text).unwrap();
            if let Err(finding) = lab.run(&sequence, &mut tally) {
                panic!("{finding}");
            }
        }
    }
    println!("{tally}, {:?}", tally.moves);
    let moves = tally.moves;
    assert!(moves.light_syncs > 10 && moves.upgrades > 10, "{moves:?}");
    assert!(moves.downgrades >= 4 && moves.evictions >= 2, "{moves:?}");
}

const MOVING: [&str; 6] = [
    // Upgraded, written, and downgraded.
    "create foo\nwrite foo 0 5000 1\n---\nwrite foo 0 64 2\nfdatasync foo\nwrite foo 0 64 3\n\
     write foo 0 64 4\nwrite foo 64 64 5\nwrite foo 64 64 6\nfdatasync foo\nwrite foo 0 64 7\n\
     fdatasync foo\n",
    // Cut and punched.
    "create foo\nwrite foo 0 5000 1\n---\nwrite foo 4096 500 2\nfdatasync foo\n\
     truncate foo 4100\nfdatasync foo\nwrite foo 0 64 3\nfdatasync foo\n\
     fallocate foo punch 0 4096\nfdatasync foo\n",
    // Written back by the clock, and past the cache.
    "create foo\nwrite foo 0 8192 1\n---\nwrite foo 100 64 2\nfdatasync foo\nflush-old\n\
     write foo 100 64 3\nfdatasync foo\nwrite foo 0 4096 4 direct\nfdatasync foo\n\
     write foo 100 64 5\nfdatasync foo\n",
    // Replaced under its name.
    "create foo\nwrite foo 0 4096 1\n---\nwrite foo 0 64 2\nfdatasync foo\nunlink foo\n\
     create foo\nwrite foo 0 4096 3\nfdatasync foo\nwrite foo 0 64 4\nfdatasync foo\n",
    // More pages than frames: clean ones go first, and then a weak range.
    "create foo\nwrite foo 0 4096 1\ncreate bar\nwrite bar 0 4096 2\n---\n\
     write foo 0 8192 3\nfdatasync foo\nwrite bar 0 64 4\nfdatasync bar\nwrite bar 64 64 5\n\
     fdatasync bar\nwrite bar 64 64 6\nfdatasync bar\nwrite bar 4096 4096 7\nfdatasync bar\n\
     write bar 4096 64 8\nfdatasync bar\n",
    // Two tasks, one of which takes the frames that the other's pages have.
    "create foo\nwrite foo 0 8192 1\ncreate bar\nwrite bar 0 4096 2\n---\nopen foo 1\n\
     write %1 0 64 3\nfdatasync %1\nwrite %1 64 64 4\nfsync %1\nclose 1\n\
     --- beside, behind 0 ns\nopen bar 2\nwrite %2 0 8192 5\nfdatasync %2\n\
     write %2 0 64 6\nfdatasync %2\nclose 2\n",
];

/// What the campaign's sequences hardly do: operations of two files that have frames, by chance.
#[test]
fn lives_in_persistent_memory_survive_every_cut() {
    let lives = number("FSLAB_MOVES").unwrap_or(1);
    let seed = number("FSLAB_SEED").unwrap_or(18);
    let mut all = Tally::default();
    for personality in [Personality::Ext4Like, Personality::ByteFs] {
        for kind in [
            PolicyKind::Ratio,
            PolicyKind::Predict,
            PolicyKind::Adaptive,
            PolicyKind::Always,
        ] {
            let mut campaign = campaign(personality, kind, 1);
            // The root, both files, and another: numbers come back at once.
            campaign.options.inodes = 4;
            campaign.options.may_lack_room = true;
            let lab = campaign.lab().unwrap();
            let mut tally = Tally::default();
            for life in 0..lives {
                let text = life_of(seed + life);
                let sequence = Sequence::parse(&text).unwrap();
                if let Err(finding) = lab.run(&sequence, &mut tally) {
                    let least = shrink(&lab, &finding);
                    panic!("{personality}, {kind}, life {}:\n{least}", seed + life);
                }
            }
            println!("{personality}, {kind}: {tally}\n{:?}", tally.moves);
            all.add(&tally);
        }
    }
    let moves = all.moves;
    assert!(moves.light_syncs > 10 && moves.upgrades > 10, "{moves:?}");
    assert!(moves.downgrades + moves.evictions > 0, "{moves:?}");
}

/// Operations of two files that are written and synced again and again. Every second life has two
/// tasks, of one file or of two.
fn life_of(number: u64) -> String {
    let stream = &mut Stream::new(number, "fslab/moves");
    let mut text =
        "create foo\nwrite foo 0 8192 1\ncreate bar\nwrite bar 0 4096 2\n---\n".to_owned();
    let mut mark = 2;
    let tasks = 1 + number % 2;
    for task in 1..=tasks {
        if task == 2 {
            let behind = stream.below(2) * stream.below(20_000);
            writeln!(text, "--- beside, behind {behind} ns").unwrap();
        }
        // Their own numbers, for names may go meanwhile.
        let opened: [u64; 2] = [2 * task - 1, 2 * task];
        for (name, number) in ["foo", "bar"].iter().zip(opened) {
            writeln!(text, "open {name} {number}").unwrap();
        }
        for _ in 0..(6 + stream.below(10)) / tasks {
            let file = opened[stream.below(2) as usize];
            mark += 1;
            act(stream, file, mark, tasks == 1, &mut text);
        }
        for number in opened {
            writeln!(text, "close {number}").unwrap();
        }
    }
    text
}

/// One operation and, mostly behind a write, a sync.
fn act(stream: &mut Stream, file: u64, mark: u64, is_alone: bool, text: &mut String) {
    let sizes: [u64; 4] = [64, 500, 4096, 8192];
    let at = stream.below(5) * 2048 + stream.below(3) * 64;
    let size = sizes[stream.below(4) as usize];
    let name = ["bar", "foo"][(file % 2) as usize];
    let line = match stream.below(22) {
        0..=10 => format!("write %{file} {at} {size} {mark}"),
        11 => format!("write %{file} {at} {size} {mark} direct"),
        12 => format!("truncate %{file} {at}"),
        13 => format!("fallocate %{file} punch {at} {}", size.max(4096)),
        14 => format!("fallocate %{file} zero {at} {size}"),
        15 => "flush-old".to_owned(),
        16 => format!("fsync %{file}"),
        17 => "sync".to_owned(),
        // A name goes, and another file comes under it; what is open stays.
        18 if is_alone => {
            format!("unlink bar\ncreate bar\nwrite bar 0 {size} {mark}\nfdatasync bar")
        }
        // A closed file goes, and its number is another's.
        19 if is_alone => format!(
            "close {file}\nunlink {name}\ncreate {name}\nopen {name} {file}\n\
             write %{file} 0 {size} {mark}\nfdatasync %{file}"
        ),
        20 => "tick".to_owned(),
        _ => format!("fdatasync %{file}"),
    };
    writeln!(text, "{line}").unwrap();
    if line.starts_with("write") && stream.below(4) > 0 {
        writeln!(text, "fdatasync %{file}").unwrap();
    }
}
