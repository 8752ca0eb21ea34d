//! The configuration section: ranges and text forms.

use crate::common::small;
use nand::NandConfig;
use units::{BytesPerSec, Picos};

#[test]
fn a_usable_section_has_no_problems_and_a_bad_one_reports_all() {
    assert_eq!(small().validate(), Vec::<String>::new());
    let bad = NandConfig {
        channels: 0,
        pages_per_block: 65_537,
        t_r: Picos::ZERO,
        t_prog: Picos::from_micros(1_000_001),
        channel_bandwidth: BytesPerSec::new(0),
        t_suspend: Picos::from_micros(1_001),
        suspend: true,
        ..small()
    };
    let problems = bad.validate();
    let about = [
        "channels",
        "pages_per_block",
        "t_r",
        "t_prog",
        "t_suspend",
        "bandwidth",
        "suspend = true",
    ];
    assert_eq!(problems.len(), about.len(), "{problems:?}");
    for (problem, word) in problems.iter().zip(about) {
        assert!(problem.contains(word), "{problem}");
    }
}

#[test]
fn more_blocks_than_can_be_addressed_are_refused() {
    let bad = NandConfig {
        channels: 256,
        chips_per_channel: 64,
        dies_per_chip: 64,
        ..small()
    };
    assert!(
        NandConfig {
            blocks_per_plane: 4095,
            ..bad.clone()
        }
        .validate()
        .is_empty()
    );
    assert_eq!(
        NandConfig {
            blocks_per_plane: 4096,
            ..bad
        }
        .validate()
        .len(),
        1
    );
}

#[test]
fn every_parameter_is_documented_with_range_and_source() {
    assert_eq!(NandConfig::PARAMETERS.len(), 15);
    for parameter in NandConfig::PARAMETERS {
        assert!(parameter.key.starts_with("nand."), "{}", parameter.key);
        for text in [parameter.doc, parameter.range, parameter.source] {
            assert!(!text.trim().is_empty(), "{}", parameter.key);
        }
    }
}
