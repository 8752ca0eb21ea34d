//! The configuration section: ranges and text forms.

use crate::common::small;
use nand::{NandConfig, Scheduling, Transfer};
use units::{Bytes, BytesPerSec, PageSize, Picos, Ratio};

#[test]
fn a_usable_section_has_no_problems_and_a_bad_one_reports_all() {
    assert_eq!(small().validate(), Vec::<String>::new());
    let bad = NandConfig {
        channels: 0,
        pages_per_block: 65_537,
        t_r: Picos::ZERO,
        t_prog: Picos::from_micros(1_000_001),
        channel_bandwidth: BytesPerSec::new(0),
        erase_share: Ratio::new(9, 8),
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
        "nand.erase_share is 9/8",
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
fn wanted_codewords_need_dies_that_share_a_bus_and_pages_of_codewords() {
    let wanted_first = NandConfig {
        transfer: Transfer::WantedFirst,
        ..small()
    };
    assert_eq!(wanted_first.validate(), Vec::<String>::new());
    let bad = NandConfig {
        scheduling: Scheduling::Split,
        codeword: PageSize::KIB_16,
        ..wanted_first
    };
    let problems = bad.validate();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("nand.transfer = wanted_first needs"));
    assert!(problems[1].contains("nand.codeword is 16KiB"));
    let tiny = NandConfig {
        codeword: PageSize::new(Bytes::new(128)).expect("two lines"),
        ..small()
    };
    assert!(tiny.validate()[0].contains("nand.codeword is 128B"));
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
    assert_eq!(NandConfig::PARAMETERS.len(), 18);
    for parameter in NandConfig::PARAMETERS {
        assert!(parameter.key.starts_with("nand."), "{}", parameter.key);
        for text in [parameter.doc, parameter.range, parameter.source] {
            assert!(!text.trim().is_empty(), "{}", parameter.key);
        }
    }
}
