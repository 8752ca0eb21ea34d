//! Traces of other tools: changed texts and records (`crates/trace/tests/forged_foreign.rs`).
#![no_main]

use forge::{Choices, change_text};
use libfuzzer_sys::fuzz_target;
use trace::TraceFile;
use trace::foreign::block::BlockReader;
use trace::foreign::{Format, ImportOptions, Source, import_source};

const BLOCKS: &str = "time_us,op,offset,size\n0,R,4096,8192\n1.5,W,0,512\n";
const FORMATS: [(Format, &[u8]); 5] = [
    (
        Format::Lackey,
        include_bytes!("../../crates/trace/tests/foreign/tiny.lackey"),
    ),
    (
        Format::Drmemtrace,
        include_bytes!("../../crates/trace/tests/foreign/tiny.drmemtrace"),
    ),
    (
        Format::MqsimCxl,
        include_bytes!("../../crates/trace/tests/foreign/tiny.mqsim"),
    ),
    (
        Format::Csv,
        include_bytes!("../../crates/trace/tests/foreign/tiny.csv"),
    ),
    (
        Format::Champsim,
        include_bytes!("../../crates/trace/tests/foreign/tiny.champsim"),
    ),
];

fn changed(whole: &[u8], choices: &mut Choices<'_>) -> Vec<u8> {
    if let Ok(text) = std::str::from_utf8(whole) {
        return change_text(text, choices).into_bytes();
    }
    let mut bytes = whole.to_vec();
    while !choices.is_over() {
        choices.damage(&mut bytes);
    }
    bytes
}

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices::new(bytes);
    let which = usize::from(choices.byte()) % (FORMATS.len() + 1);
    let Some((format, whole)) = FORMATS.get(which) else {
        let text = change_text(BLOCKS, &mut choices).into_bytes();
        if let Ok(requests) = BlockReader::new(Box::new(std::io::Cursor::new(text)), "given") {
            requests.take_while(Result::is_ok).for_each(drop);
        }
        return;
    };
    let bytes = changed(whole, &mut choices);
    let source = Source::bytes("given", &bytes);
    if let Ok(made) = import_source(&source, *format, &ImportOptions::default()) {
        TraceFile::from_bytes(made.bytes, "made").expect("what was written can be read");
    }
});
