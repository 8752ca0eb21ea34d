//! Records a small C program under QEMU and reads the captures back. `make test` installs QEMU;
//! where it is missing these tests say so and pass.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use trace::{OpClass, SyncEvent, TraceFile};
use units::ThreadId;

fn directory() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// The compiled program; `None` without QEMU or a C compiler.
fn program() -> Option<&'static PathBuf> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM
        .get_or_init(|| {
            let works = |command: &mut Command| command.output().is_ok_and(|o| o.status.success());
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/program.c");
            let program = directory().join("program");
            let built = works(Command::new("qemu-x86_64").arg("--version"))
                && works(
                    Command::new("cc")
                        .args(["-O1", "-pthread", "-o"])
                        .arg(&program)
                        .arg(source),
                );
            if !built {
                eprintln!("qemu-x86_64 or cc is missing: nothing is recorded");
            }
            built.then_some(program)
        })
        .as_ref()
}

/// The plugin that was built with this test.
fn plugin() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its file");
    let deps = test.parent().expect("tests live in a directory");
    let plugin = deps.join("libtracer.so");
    assert!(plugin.exists(), "the plugin is built with its tests");
    plugin
}

/// Records the program in `mode` into its own file.
fn record(name: &str, mode: &str, options: &str) -> Option<(PathBuf, Output)> {
    let program = program()?;
    let out = directory().join(format!("{name}.etr"));
    let _ = std::fs::remove_file(&out);
    let plugin = format!("{},out={}{options}", plugin().display(), out.display());
    let output = Command::new("qemu-x86_64")
        .args(["-cpu", "max,-erms,-fsrm", "-plugin", &plugin])
        .arg(program)
        .arg(mode)
        .output();
    Some((out, output.expect("QEMU starts")))
}

fn events(file: &TraceFile, thread: usize) -> Vec<SyncEvent> {
    let mut cursor = file.cursor(ThreadId::from_index(thread));
    let pieces = std::iter::from_fn(|| cursor.take());
    let events = pieces.filter_map(|piece| piece.sync()).collect();
    assert_eq!(cursor.error(), None);
    events
}

#[test]
fn threads_and_their_edges_are_recorded() {
    let Some((path, output)) = record("threads", "threads", "") else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let file = TraceFile::open(path).unwrap();
    let threads = file.threads();
    assert_eq!(threads.len(), 4);
    for thread in &threads[1..] {
        assert_eq!(thread.parent, Some(ThreadId::new(0)));
        // Four rounds over 65,536 words after writing each.
        assert!((4 * 65_536..600_000).contains(&thread.loads), "{thread:?}");
        assert!((65_536..200_000).contains(&thread.stores), "{thread:?}");
        assert!(
            (5 * 65_536 * 2..5_000_000).contains(&thread.instructions),
            "{thread:?}"
        );
    }
    assert!(
        (3 * 128..2_000).contains(&file.pages().len()),
        "{}",
        file.pages().len()
    );
    let main = events(&file, 0);
    let created = |n| SyncEvent::ThreadCreate {
        child: ThreadId::new(n),
    };
    let joined = |n| SyncEvent::Join {
        child: ThreadId::new(n),
    };
    for n in 1..4 {
        assert!(main.contains(&created(n)), "{main:?}");
        assert_eq!(
            events(&file, n as usize).last(),
            Some(&SyncEvent::ThreadExit)
        );
    }
    // The last thread ends 60 ms after the others began, so main surely waits for it.
    assert!(main.contains(&joined(3)), "{main:?}");
    let woken = |event: &SyncEvent| {
        matches!(event, SyncEvent::FutexWait { woken_by: Some(wake), .. }
            if wake.thread != ThreadId::new(3))
    };
    assert!(events(&file, 3).iter().any(woken), "{:?}", events(&file, 3));
    assert_eq!(file.provenance().command[1..], ["threads"]);
    assert_eq!(file.provenance().program_digest.len(), 64);
}

/// Replays the edges alone: every thread must come to its end.
#[test]
fn recorded_edges_can_be_replayed() {
    let Some((path, _)) = record("replay", "threads", "") else {
        return;
    };
    let file = TraceFile::open(path).unwrap();
    let all: Vec<_> = (0..file.threads().len())
        .map(|n| events(&file, n))
        .collect();
    let mut at = vec![0; all.len()];
    let mut wakes = vec![0; all.len()];
    let mut started: Vec<_> = file.threads().iter().map(|t| t.parent.is_none()).collect();
    loop {
        let mut moved = false;
        for n in 0..all.len() {
            let Some(event) = all[n].get(at[n]).filter(|_| started[n]) else {
                continue;
            };
            let ready = match event {
                SyncEvent::Join { child } => at[child.index()] == all[child.index()].len(),
                SyncEvent::FutexWait {
                    woken_by: Some(wake),
                    ..
                } => wakes[wake.thread.index()] >= wake.count,
                _ => true,
            };
            match event {
                SyncEvent::ThreadCreate { child } => started[child.index()] = true,
                SyncEvent::FutexWake { count, .. } => wakes[n] = *count,
                _ => {}
            }
            at[n] += usize::from(ready);
            moved |= ready;
        }
        if !moved {
            break;
        }
    }
    let ends: Vec<_> = all.iter().map(Vec::len).collect();
    assert_eq!(at, ends);
}

#[test]
fn only_the_region_of_interest_is_recorded() {
    let Some((path, output)) = record("region", "region", ",roi=on") else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let file = TraceFile::open(path).unwrap();
    let instructions = file.threads()[0].instructions;
    // 10,000 rounds of two or three instructions, and the blocks of the two markers.
    assert!((20_000..31_000).contains(&instructions), "{instructions}");
}

#[test]
fn a_capture_quiet_outside_the_region_is_the_same() {
    for mode in ["region", "string"] {
        let Some((loud, _)) = record(&format!("loud-{mode}"), mode, ",roi=on") else {
            return;
        };
        let (quiet, output) = record(&format!("quiet-{mode}"), mode, ",roi=on,quiet=on").unwrap();
        assert!(output.status.success(), "{output:?}");
        let read = |path| TraceFile::open(path).unwrap().threads()[0].instructions;
        assert_eq!(read(quiet), read(loud), "{mode}");
    }
}

#[test]
fn a_repeated_string_operation_is_one_instruction_of_many_pieces() {
    let Some((path, _)) = record("string", "string", ",roi=on") else {
        return;
    };
    let file = TraceFile::open(path).unwrap();
    let mut cursor = file.cursor(ThreadId::new(0));
    let (mut pieces, mut counted) = (0, 0);
    while let Some(piece) = cursor.take() {
        if file.inst(piece.inst()).repeats() && piece.load().is_some() {
            assert_eq!(piece.load().map(|access| access.bytes), Some(1));
            assert!(piece.store().is_some());
            pieces += 1;
            counted += u32::from(piece.counts());
        }
    }
    assert!(
        pieces >= 5_000 && counted <= 2,
        "{pieces} pieces, {counted} counted"
    );
    assert!(
        file.threads()[0].instructions < 200,
        "{}",
        file.threads()[0].instructions
    );
}

#[test]
fn the_limit_ends_the_program_with_a_complete_capture() {
    let Some((path, output)) = record("limit", "region", ",skip=100000,limit=50000") else {
        return;
    };
    assert_eq!(output.status.code(), Some(0));
    let file = TraceFile::open(path).unwrap();
    let instructions = file.threads()[0].instructions;
    assert!((49_000..=51_000).contains(&instructions), "{instructions}");
    assert_eq!(
        (file.provenance().skip, file.provenance().limit),
        (100_000, Some(50_000))
    );
}

#[test]
fn forks_run_on_unrecorded_and_are_reported_once() {
    let Some((path, output)) = record("children", "children", "") else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr)
        .matches("forked")
        .count();
    assert_eq!(said, 1, "{output:?}");
    let file = TraceFile::open(path).unwrap();
    assert_eq!(
        file.threads().len(),
        1,
        "the children's threads are not recorded"
    );
}

#[test]
fn an_exec_completes_the_capture_and_a_failed_one_does_not_end_it() {
    let Some((path, output)) = record("exec", "exec", "") else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr)
        .matches("by exec")
        .count();
    assert_eq!(said, 1, "{output:?}");
    let file = TraceFile::open(path).unwrap();
    assert!(
        file.threads()[0].instructions > 5_000_000,
        "recorded after the failed exec"
    );
}

#[test]
fn a_program_asked_to_end_leaves_a_complete_capture() {
    let Some(program) = program() else { return };
    let out = directory().join("asked.etr");
    let plugin = format!("{},out={}", plugin().display(), out.display());
    let mut child = Command::new("qemu-x86_64")
        .args(["-plugin", &plugin])
        .arg(program)
        .arg("wait")
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("QEMU starts");
    // The program says a byte when it begins to wait.
    let mut byte = [0];
    child
        .stdout
        .take()
        .expect("it is piped")
        .read_exact(&mut byte)
        .expect("it says so");
    let kill = Command::new("kill").arg(child.id().to_string()).status();
    assert!(kill.is_ok_and(|status| status.success()));
    let status = child.wait().expect("it ends");
    assert_eq!(
        status.signal(),
        Some(15),
        "the signal still ends the program"
    );
    assert!(TraceFile::open(out).unwrap().threads()[0].instructions > 1_000);
}

#[test]
fn a_program_that_ends_by_a_signal_without_handler_leaves_a_complete_capture() {
    for (mode, number) in [("default", 10), ("pipe", 13)] {
        let Some((path, output)) = record(mode, mode, "") else {
            return;
        };
        assert_eq!(output.status.signal(), Some(number), "{mode}: {output:?}");
        assert!(TraceFile::open(path).unwrap().threads()[0].instructions > 1_000);
    }
}

/// Reads the whole capture: every access is one that its instruction can make. Gives how often a
/// signal's handler returned.
fn check_accesses(file: &TraceFile) -> u32 {
    const RT_SIGRETURN: u16 = 15;
    /// The words of a masked store of 32 bytes.
    const MOST_PIECES: u32 = 8;
    let mut returns = 0;
    for thread in file.threads() {
        let mut cursor = file.cursor(thread.id);
        let mut pieces = 0;
        while let Some(piece) = cursor.take() {
            let inst = file.inst(piece.inst());
            assert!(piece.load().is_none() || inst.loads(), "{inst:?}");
            assert!(piece.store().is_none() || inst.stores(), "{inst:?}");
            let calls = matches!(inst.class, OpClass::Call | OpClass::IndirectCall);
            assert!(!calls || piece.counts(), "{inst:?} is more than one piece");
            pieces = if piece.counts() { 0 } else { pieces + 1 };
            let many = inst.repeats() || inst.class == OpClass::Other;
            assert!(many || pieces < MOST_PIECES, "{inst:?} is many pieces");
            let is_return = |event| {
                matches!(
                    event,
                    SyncEvent::Syscall {
                        number: RT_SIGRETURN,
                        ..
                    }
                )
            };
            returns += u32::from(piece.sync().is_some_and(is_return));
        }
        assert_eq!(cursor.error(), None);
    }
    returns
}

#[test]
fn signals_leave_a_readable_capture_without_the_kernels_accesses() {
    let Some((path, output)) = record("signals", "signals", "") else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let file = TraceFile::open(path).unwrap();
    assert_eq!(file.threads().len(), 2);
    let returns = check_accesses(&file);
    assert!(returns >= 200, "{returns}");
}

#[test]
fn blocks_left_in_the_middle_by_a_fault_leave_a_readable_capture() {
    let Some((path, output)) = record("faults", "faults", "") else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    check_accesses(&TraceFile::open(path).unwrap());
}

#[test]
fn a_program_that_closes_all_files_does_not_get_the_captures_bytes() {
    let Some((_, output)) = record("closes", "close", "") else {
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("the program closed the recorder's file"),
        "{said}"
    );
}

#[test]
fn a_program_without_a_region_gives_a_capture_without_threads() {
    let Some((path, output)) = record("empty", "threads", ",roi=on") else {
        return;
    };
    assert!(String::from_utf8_lossy(&output.stderr).contains("no instruction was recorded"));
    assert!(TraceFile::open(path).unwrap().threads().is_empty());
}

#[test]
fn a_bad_argument_is_refused_before_the_program_starts() {
    let Some((path, output)) = record("refused", "threads", ",colour=red") else {
        return;
    };
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("colour: no such argument"));
    assert!(!path.exists());
}
