//! Power cuts under ByteFS: every sequence of one operation, samples of two and three.

use bytefs::{DataMode, Personality};
use device::DeviceConfig;
use fslab::crash::{
    Campaign, Finding, Options, Outcome, Protection, Room, Sequence, Tally, device_of, shrink,
    small_cache, small_device, small_drive,
};
use units::Bytes;

/// Every how many cuts the device itself is cut too, which costs as much as fifty of the others.
const DEVICE_EVERY: u32 = 16;

/// Free blocks of a nearly full file system: some are kept for metadata, and what is left behind a
/// cut is used too.
const FEW_BLOCKS: u64 = 80;
/// Of a full one, each by itself.
const SCATTERED: u64 = 6;

fn campaign(length: u32, sequences: u64) -> Campaign {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
    Campaign {
        device: small_device().unwrap(),
        personality: Personality::ByteFs,
        length,
        seed: number("FSLAB_SEED").unwrap_or(15),
        sequences: number("FSLAB_SEQUENCES").unwrap_or(sequences),
        is_concurrent: false,
        room: None,
        options: Options {
            device_every: DEVICE_EVERY,
            ..Options::FULL
        },
        threads: 2,
        enough: 10,
    }
}

fn check(campaign: &Campaign) -> Tally {
    let outcome: Outcome = campaign.run(|_| true).unwrap();
    let (personality, length) = (campaign.personality, campaign.length);
    println!("{personality}, length {length}: {}", outcome.tally);
    let shown: Vec<String> = outcome
        .findings
        .iter()
        .map(|(number, found)| {
            let least: Finding = shrink(&campaign.lab().unwrap(), found);
            format!("sequence {number}:\n{least}\n")
        })
        .collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert_eq!(outcome.impossible, 0);
    assert!(outcome.tally.points > 10 * outcome.tally.sequences);
    outcome.tally
}

/// Another personality: a sample, for those that journal on the host have many more requests in
/// flight. FSLAB_LENGTH for longer sequences.
fn other(personality: Personality, device: DeviceConfig, sequences: u64) -> Campaign {
    let length = std::env::var("FSLAB_LENGTH").ok();
    let length = length.and_then(|length| length.parse().ok());
    let mut campaign = campaign(length.unwrap_or(1), sequences);
    campaign.options.recovery_every = 64;
    Campaign {
        personality,
        device,
        ..campaign
    }
}

fn check_other(personality: Personality, device: DeviceConfig) {
    check(&other(personality, device, 4));
}

/// A competitor, on a drive and on devices whose battery keeps all of DRAM, or blocks alone.
fn check_competitor(personality: Personality) {
    check_other(personality, small_drive().unwrap());
    let on_cache = other(personality, small_cache().unwrap(), 2);
    check(&on_cache);
    let keeps_blocks = device_of(personality, false, Protection::Blocks).unwrap();
    for past_cache in [on_cache, other(personality, keeps_blocks, 2)] {
        let (lab, mut tally) = (past_cache.lab().unwrap(), Tally::default());
        for text in PAST_THE_CACHE {
            let sequence = Sequence::parse(text).unwrap();
            if let Err(finding) = lab.run(&sequence, &mut tally) {
                panic!("{finding}");
            }
        }
        println!("{personality}, past the cache: {tally}");
    }
}

/// Lines of contents that go to the device one by one, with nothing else to sync.
const PAST_THE_CACHE: [&str; 2] = [
    "create foo\nwrite foo 0 8192 1\n---\nwrite foo 64 512 2 direct\nfdatasync foo\n\
     write foo 4096 64 3 direct\nsync\nwrite foo 4160 64 4 direct\nfsync foo\n",
    "create foo\nwrite foo 0 8192 1\nremount\n---\nwrite foo 64 100 2 direct sync\n\
     write foo 64 100 3 direct\nflush-old\nfdatasync foo\n",
];

/// With data journaling each write is whole behind every cut.
#[test]
fn journaled_data_survives_every_cut() {
    let mut tally = Tally::default();
    for (personality, sequences) in [(Personality::ByteFs, 15), (Personality::ByteFsLog, 2)] {
        let mut all = other(personality, small_device().unwrap(), sequences);
        all.options.data = DataMode::Journal;
        all.options.recovery_every = 8;
        check(&all);
        let lab = all.lab().unwrap();
        for text in JOURNALED {
            let sequence = Sequence::parse(text).unwrap();
            if let Err(finding) = lab.run(&sequence, &mut tally) {
                panic!("{finding}");
            }
        }
    }
    println!("journaled: {tally}");
}

/// The same with two tasks at a time, whose batches follow each other closely.
#[test]
fn journaled_data_of_two_tasks_survives_every_cut() {
    let mut two = campaign(2, 12);
    two.is_concurrent = true;
    two.options.data = DataMode::Journal;
    two.options.recovery_every = 64;
    check(&two);
}

/// Overwritten pages by blocks and lines in one batch; records in a row, and one that has just gone
/// to its place; a file with more dirty pages than a batch takes; blocks of a record that are freed
/// and given to another file; lines of a page of which the batch has the block.
const JOURNALED: [&str; 5] = [
    "create foo\nwrite foo 0 20480 1\n---\nwrite foo 100 12000 2\nwrite foo 16384 64 3\nfsync foo\n\
     write foo 0 20480 4\nfsync foo\nwrite foo 64 64 5\nfdatasync foo\n",
    "create foo\nwrite foo 0 81920 1\n---\nwrite foo 0 40960 2\nwrite foo 32768 49152 3\nfsync foo\n",
    "create foo\nwrite foo 0 16384 1\n---\nwrite foo 0 16384 2\nfsync foo\nunlink foo\nsync\n\
     create bar\nwrite bar 0 16384 3\nfsync bar\nwrite bar 0 8192 4\nfsync bar\n",
    "create foo\nwrite foo 0 16384 1\n---\nwrite foo 0 12288 2\nflush-old\ntruncate foo 5000\n\
     write foo 4000 9000 3\nfallocate foo punch 100 8000\nfsync foo\n",
    "create foo\nwrite foo 0 16384 1\n---\nwrite foo 0 8192 2 direct\nwrite foo 64 64 3\nfsync foo\n\
     write foo 4096 8192 4 direct\nwrite foo 4200 64 5\nfdatasync foo\n",
];

#[test]
fn bytefs_log_survives_every_cut() {
    check_other(Personality::ByteFsLog, small_device().unwrap());
}

#[test]
fn bytefs_dual_survives_every_cut() {
    check_competitor(Personality::ByteFsDual);
}

#[test]
fn ext4_like_survives_every_cut() {
    check_competitor(Personality::Ext4Like);
}

#[test]
fn pmfs_like_survives_every_cut() {
    check_competitor(Personality::PmfsLike);
}

#[test]
fn f2fs_like_survives_every_cut() {
    check_competitor(Personality::F2fsLike);
}

#[test]
fn nova_like_survives_every_cut() {
    check_competitor(Personality::NovaLike);
}

/// Blocks that were freed are given out again, and pages are overwritten for want of others.
#[test]
fn nova_like_survives_every_cut_on_a_nearly_full_file_system() {
    check(&Campaign {
        room: Some(Room::Blocks(FEW_BLOCKS)),
        ..other(Personality::NovaLike, small_drive().unwrap(), 6)
    });
}

/// Logs of inodes have twenty pages: the sequences have one cleaned, and all emptied, and a
/// block that a log told of used for something else.
#[test]
fn nova_like_survives_every_cut_while_logs_are_cleaned_and_emptied() {
    let mut campaign = other(Personality::NovaLike, small_drive().unwrap(), 1);
    campaign.options.journal = Some(Bytes::from_kib(88));
    // Behind a cut of a life behind a recovery there is not always room for another one.
    campaign.options.may_lack_room = true;
    let lab = campaign.lab().unwrap();
    let mut tally = Tally::default();
    let free = lab.free_blocks() - FEW_BLOCKS;
    let reused = (2..7).map(|times| reused(free, times));
    let others = [cleaned(), emptied(), overwritten(lab.free_blocks())];
    for text in others.into_iter().chain(reused) {
        let sequence = Sequence::parse(&text).unwrap();
        if let Err(finding) = lab.run(&sequence, &mut tally) {
            panic!("{}: {}", finding.cut, finding.how);
        }
    }
    println!("cleaned and emptied: {tally}");
}

/// An attribute is changed until its file's log must be written anew, and taken away.
fn cleaned() -> String {
    let set = |mark: u32| format!("setxattr foo user.a 1500 {mark}\n");
    let before: String = (1..4).map(set).collect();
    let later: String = (4..9).map(set).collect();
    format!(
        "create foo\nwrite foo 0 9000 1\n{before}---\n{later}removexattr foo user.a\n\
         write foo 3000 3000 2\nunlink foo\ncreate foo\nsetxattr foo user.a 1500 9\n"
    )
}

/// Blocks of attributes become blocks of contents, while logs still have what they were. Which
/// pages come there depends on how often the file was written.
fn reused(full: u64, times: u32) -> String {
    let each = |text: &str| -> String {
        let all = (0..8).map(|number| text.replace('#', &number.to_string()));
        all.collect()
    };
    let writes = (0..times).map(|mark| format!("write foo 0 81920 {}\n", mark + 2));
    format!(
        "create full\nfallocate full keep-size 0 {}\ncreate foo\nwrite foo 0 81920 1\n{}{}{}---\n\
         write foo 100 100 99\n",
        full * 4096,
        each("create bar#\nsetxattr bar# user.a 1500 1\n"),
        each("removexattr bar# user.a\n"),
        writes.collect::<String>()
    )
}

/// As few blocks are free as are kept for metadata: pages are written where they are.
fn overwritten(free: u64) -> String {
    let full = (free - 13 - 24) * 4096;
    format!(
        "create foo\nwrite foo 0 40000 1\ncreate full\nfallocate full keep-size 0 {full}\n---\n\
         write foo 100 9000 2\nwrite foo 20000 64 3\nfsync foo\nunlink full\nwrite foo 0 5000 4\n"
    )
}

/// Every file takes a page of its log. Some go, and others come, with blocks that had names.
fn emptied() -> String {
    let make = |numbers: std::ops::Range<u32>| -> String {
        let all = numbers.map(|number| format!("create file{number}\n"));
        all.collect()
    };
    format!(
        "mkdir A\ncreate A/foo\n{}---\n{}unlink A/foo\nrmdir A\n{}write file17 0 3000 1\n\
         rename file17 file3\nwrite file3 100 300 2\n",
        make(0..14),
        make(14..17),
        make(17..20)
    )
}

/// A full file was overwritten here and there, so that segments are half full. That the sequence
/// has them cleaned is not asked (`bytefs/tests/segments.rs` asks it, without cuts).
#[test]
fn f2fs_like_survives_every_cut_on_a_full_file_that_was_overwritten() {
    let campaign = other(Personality::F2fsLike, small_drive().unwrap(), 1);
    let lab = campaign.lab().unwrap();
    let pages = lab.free_blocks() - FEW_BLOCKS;
    let overwrite = |every: u64, mark: u32| {
        let pages = (0..pages).filter(|page| page % every == 1);
        let writes = pages.map(|page| format!("write full {} 4096 {mark}\n", page * 4096));
        writes.collect::<String>() + "sync\n"
    };
    let text = format!(
        "create full\nwrite full 0 {} 1\nsync\n{}{}{}---\nwrite full 3000 130000 9\n\
         create foo\nwrite foo end 30000 8\nfsync foo\nwrite full 200000 100000 7\n",
        pages * 4096,
        overwrite(2, 2),
        overwrite(4, 3),
        overwrite(6, 4)
    );
    let sequence = Sequence::parse(&text).unwrap();
    let mut tally = Tally::default();
    if let Err(finding) = lab.run(&sequence, &mut tally) {
        panic!("{}: {}", finding.cut, finding.how);
    }
    println!("overwritten: {tally}");
}

/// Files that grow behind the middle of a page that is durable, by a sync that overwrites few pages
/// where they are: once, and again, by whole pages and by a few bytes; below the old end as well.
const APPENDED: [&str; 5] = [
    "create foo\nwrite foo end 4196 1\n---\nwrite foo end 8192 2\nfdatasync foo\n",
    "create foo\nwrite foo end 4196 1\n---\nwrite foo end 64 2\nfsync foo\nwrite foo end 3000 3\n\
     fsync foo\nwrite foo end 3000 4\nfdatasync foo\n",
    "create foo\nwrite foo 0 12388 1\nremount\n---\nwrite foo 4000 64 2\nwrite foo 12300 500 3\n\
     fdatasync foo\n",
    "create foo\nwrite foo end 4196 1\n---\ntruncate foo 6000\nwrite foo 5000 2000 2\nfsync foo\n",
    "create foo\nwrite foo end 4196 1\n---\nwrite foo 20000 64 2\nfdatasync foo\nsync\n\
     write foo 20032 4096 3\nfdatasync foo\n",
];

#[test]
fn f2fs_like_shows_no_length_without_its_bytes() {
    let campaign = other(Personality::F2fsLike, small_drive().unwrap(), 1);
    let lab = campaign.lab().unwrap();
    let mut tally = Tally::default();
    for text in APPENDED {
        let sequence = Sequence::parse(text).unwrap();
        if let Err(finding) = lab.run(&sequence, &mut tally) {
            panic!("{finding}");
        }
    }
    println!("appended: {tally}");
}

#[test]
fn every_sequence_of_one_operation_survives_every_cut() {
    check(&campaign(1, u64::MAX));
}

/// Sequences that have found something once, or must find a planted bug that samples miss.
const KNOWN: [&str; 8] = [
    "create foo\nwrite foo end 4196 1\n---\ntruncate foo 1000\n",
    "create foo\nwrite foo end 4196 1\n---\ntruncate foo 1000\ntruncate foo 9000\n",
    "create foo\nwrite foo end 4196 1\n---\ntruncate foo 1000\nwrite foo 96 64 2\n",
    "create foo\nwrite foo 0 4196 1\ncreate bar\nwrite bar 0 4196 2\n---\nopen foo 1\nopen bar 2\n\
     unlink foo\nunlink bar\nsync\n",
    "---\ncreate foo\nwrite foo end 4196 1\nwrite foo 64 64 2 direct\nwrite foo end 64 3\n",
    "---\ncreate foo\nwrite foo end 4196 1\nwrite foo 64 64 2 direct\nfallocate foo zero 100 8000\n",
    "mkdir A\n---\ncreate foo\nwrite foo 0 4196 1\nwrite foo 4096 8192 2 direct\n\
     --- beside, behind 0 ns\nfsync foo\n",
    "mkdir A\n---\ncreate A/foo\nopen A/foo 12\nfallocate %12 zero 100 8000\ncreate foo\n\
     open foo 14\nwrite %14 0 4196 3\nopen foo 15\nfdatasync %15\n\
     --- beside, behind 8541 ns\nopen A/foo 16\nwrite %16 96 3000 5\nopen foo 17\n\
     write %17 4196 8192 6\n",
];

#[test]
fn known_sequences_survive_every_cut() {
    let lab = campaign(1, 1).lab().unwrap();
    let mut tally = Tally::default();
    for text in KNOWN {
        let sequence = Sequence::parse(text).unwrap();
        if let Err(finding) = lab.run(&sequence, &mut tally) {
            panic!("{finding}");
        }
    }
    println!("known: {tally}");
}

/// Renames that leave a whiteout: to a free name and a taken one, from one directory to another, of
/// a directory, and back over the whiteout.
const WHITEOUTS: [&str; 3] = [
    "mkdir A\ncreate A/foo\nwrite A/foo 0 4196 1\n---\nrename-whiteout A/foo bar\nfsync bar\n\
     rename-whiteout-noreplace bar A/bar\n",
    "mkdir A\nmkdir B\ncreate A/foo\ncreate B/foo\nremount\n---\nopen B/foo 1\n\
     rename-whiteout A/foo B/foo\nrename-whiteout A C\nfsync .\nunlink A\n",
    "create foo\n---\nrename-whiteout foo bar\nrename-whiteout bar foo\nsync\nunlink bar\n\
     rename-whiteout foo bar\n",
];

/// No cut leaves the old name to nobody, nor both names to the file.
#[test]
fn renames_that_leave_a_whiteout_survive_every_cut() {
    let mut tally = Tally::default();
    let others = [
        Personality::Ext4Like,
        Personality::F2fsLike,
        Personality::NovaLike,
    ];
    let others = others.map(|personality| other(personality, small_drive().unwrap(), 1));
    for campaign in others.into_iter().chain([campaign(1, 1)]) {
        let lab = campaign.lab().unwrap();
        for text in WHITEOUTS {
            let sequence = Sequence::parse(text).unwrap();
            if let Err(finding) = lab.run(&sequence, &mut tally) {
                panic!("{}: {finding}", campaign.personality);
            }
        }
    }
    println!("whiteouts: {tally}");
}

/// Two tasks make one file durable, the second a little later: it has nothing to write any more,
/// and waits for the batch of the first. At which moment is found out by trying.
#[test]
fn an_fsync_beside_another_waits_for_its_batch() {
    let lab = campaign(1, 1).lab().unwrap();
    let mut tally = Tally::default();
    for behind in (0..12_000).step_by(500) {
        for first in ["write foo 0 4196 2\nfsync foo", "chmod foo 600\nfsync foo"] {
            let text = format!(
                "create foo\nwrite foo 0 4196 1\n---\n{first}\n--- beside, behind {behind} ns\n\
                 fsync foo\n"
            );
            let sequence = Sequence::parse(&text).unwrap();
            if let Err(finding) = lab.run(&sequence, &mut tally) {
                panic!("{finding}");
            }
        }
    }
    println!("beside: {tally}");
}

/// Blocks that were freed are given out again within the sequence.
#[test]
fn a_nearly_full_file_system_survives_every_cut() {
    for (length, sequences) in [(1, u64::MAX), (2, 20)] {
        check(&Campaign {
            room: Some(Room::Blocks(FEW_BLOCKS)),
            ..campaign(length, sequences)
        });
    }
}

/// Blocks are scattered and there are too few: operations are refused, and what was taken is kept.
#[test]
fn a_full_file_system_keeps_what_it_took() {
    for (length, sequences) in [(1, u64::MAX), (2, 20)] {
        let mut full = campaign(length, sequences);
        full.room = Some(Room::Scattered(SCATTERED));
        full.options.may_lack_room = true;
        let tally = check(&full);
        assert!(tally.refused > sequences.min(100) / 10, "{tally}");
        assert!(tally.refused < 3 * tally.sequences, "{tally}");
    }
}

#[test]
fn sequences_of_two_operations_survive_every_cut() {
    check(&campaign(2, 60));
}

#[test]
fn sequences_of_three_operations_survive_every_cut() {
    check(&campaign(3, 40));
}

/// Two tasks at a time, an operation each, and two each.
#[test]
fn two_tasks_survive_every_cut() {
    for (length, sequences) in [(2, 40), (4, 16)] {
        check(&Campaign {
            is_concurrent: true,
            ..campaign(length, sequences)
        });
    }
}
