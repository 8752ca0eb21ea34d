//! The plugin's entry point and its callbacks.

#![allow(unsafe_code)]

use crate::api::{self, PluginId, Tb};
use crate::options::{Options, guest_command};
use crate::output::Output;
use crate::quiet::{self, Marker};
use crate::recorder::{self, Recorder};
use crate::{decode, signals, slot, word};
use iced_x86::InstructionInfoFactory;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use trace::Provenance;

/// The name by which QEMU knows this plugin.
static PLUGIN: AtomicU64 = AtomicU64::new(0);

/// Version of the plugin interface, which QEMU checks before anything else.
#[unsafe(no_mangle)]
pub static qemu_plugin_version: c_int = 1;

/// QEMU calls this once, before the program starts.
///
/// # Safety
/// `argv` holds `argc` strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    _info: *const api::Info,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    let argument = |n: c_int| {
        // SAFETY: QEMU passes `argc` strings that end in a zero.
        unsafe { CStr::from_ptr(*argv.add(n as usize)) }
            .to_string_lossy()
            .into_owned()
    };
    let arguments: Vec<_> = (0..argc).map(argument).collect();
    match start(&arguments) {
        Ok(()) => {
            PLUGIN.store(id, Ordering::Relaxed);
            register(id);
            // SAFETY: the callback has the type that the C library expects.
            unsafe { api::pthread_atfork(None, Some(forked), Some(recorder_detach)) };
            0
        }
        Err(sentence) => {
            api::say(&format!("tracer: {sentence}\n"));
            -1
        }
    }
}

fn start(arguments: &[String]) -> Result<(), String> {
    let options = Options::parse(arguments.iter().map(String::as_str))?;
    // SAFETY: both functions only look at their argument.
    let known = word::packing_is_known(
        |info| unsafe { api::qemu_plugin_mem_size_shift(info) },
        |info| unsafe { api::qemu_plugin_mem_is_store(info) },
    );
    if !known {
        return Err("this QEMU describes memory accesses in another way; use version 7.2".into());
    }
    let name = options.out.display().to_string();
    let output = Output::create(&options.out).map_err(|fault| fault.of(&name).to_string())?;
    let provenance = provenance(&options);
    quiet::install(options.quiet);
    recorder::install(options, output, provenance);
    Ok(())
}

fn provenance(options: &Options) -> Provenance {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line: Vec<_> = line
        .split(|byte| *byte == 0)
        .filter(|argument| !argument.is_empty())
        .map(|argument| String::from_utf8_lossy(argument).into_owned())
        .collect();
    let command = guest_command(&line);
    let digest = command.first().and_then(|program| program_digest(program));
    Provenance {
        command,
        program_digest: digest.unwrap_or_default(),
        emulator: options.emulator.clone(),
        recorder: concat!("entresol tracer ", env!("CARGO_PKG_VERSION")).into(),
        roi: options.roi,
        skip: options.skip,
        limit: options.limit,
        notes: Vec::new(),
        warms: Vec::new(),
    }
}

/// Digest of the program's file, which the emulator opens by the name it is given.
fn program_digest(program: &str) -> Option<String> {
    let program = std::fs::read(program).ok()?;
    Some(blake3::hash(&program).to_hex().to_string())
}

extern "C" fn register(id: PluginId) {
    // SAFETY: the callbacks have the types that QEMU expects and live as long as the process.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, vcpu_init);
        api::qemu_plugin_register_vcpu_exit_cb(id, vcpu_exit);
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
        api::qemu_plugin_register_vcpu_syscall_cb(id, syscall);
        api::qemu_plugin_register_vcpu_syscall_ret_cb(id, syscall_ret);
        api::qemu_plugin_register_atexit_cb(id, at_exit, std::ptr::null_mut());
    }
}

extern "C" fn forked() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if !recorder::is_detached() && !SAID.swap(true, Ordering::Relaxed) {
        api::say("tracer: the program forked; its children run on unrecorded\n");
    }
}

extern "C" fn recorder_detach() {
    recorder::detach();
}

/// The recorder, unless this process is a fork.
fn active() -> Option<&'static Recorder> {
    (!recorder::is_detached()).then(recorder::get)
}

extern "C" fn vcpu_init(_id: PluginId, vcpu: c_uint) {
    if let Some(recorder) = active() {
        recorder.begin(vcpu);
    }
}

extern "C" fn vcpu_exit(_id: PluginId, vcpu: c_uint) {
    if let Some(recorder) = active() {
        recorder.end(vcpu);
    }
}

extern "C" fn at_exit(_id: PluginId, _data: *mut c_void) {
    if let Some(recorder) = active() {
        recorder.exit();
    }
}

#[rustfmt::skip]
extern "C" fn syscall(
    _id: PluginId, vcpu: c_uint, number: i64,
    a1: u64, a2: u64, a3: u64, a4: u64, _a5: u64, _a6: u64, _a7: u64, _a8: u64,
) {
    if let Some(recorder) = active() {
        signals::hold();
        recorder.enter_call(vcpu, number, [a1, a2, a3, a4]);
    }
}

extern "C" fn syscall_ret(_id: PluginId, vcpu: c_uint, number: i64, result: i64) {
    if let Some(recorder) = active() {
        recorder.leave_call(vcpu, number, result);
        signals::hold();
    }
}

extern "C" fn block_runs(vcpu: c_uint, data: *mut c_void) {
    slot::of(vcpu).push_block(data as u64);
}

extern "C" fn memory(vcpu: c_uint, info: u32, addr: u64, data: *mut c_void) {
    slot::of(vcpu).push_access(info, addr, data as u64);
}

extern "C" fn marker(_vcpu: c_uint, data: *mut c_void) {
    if let Some(recorder) = active() {
        let marker = Marker::unpack(data as usize);
        let threads = recorder.mark(marker.begins);
        if quiet::mark(marker, threads) {
            // SAFETY: on a virtual processor's thread; QEMU does it between two blocks.
            unsafe { api::qemu_plugin_reset(PLUGIN.load(Ordering::Relaxed), register) };
        }
    }
}

/// Decodes a block that QEMU translates, and asks for its callbacks.
extern "C" fn translate(_id: PluginId, tb: *mut Tb) {
    static FIRST: Once = Once::new();
    let Some(recorder) = active() else { return };
    FIRST.call_once(signals::install);
    // SAFETY: the block is alive during this call, and indices are below its count.
    unsafe {
        let count = api::qemu_plugin_tb_n_insns(tb);
        let insns: Vec<_> = (0..count)
            .map(|n| api::qemu_plugin_tb_get_insn(tb, n))
            .collect();
        let mut code = Vec::new();
        let mut places = Vec::with_capacity(count);
        for insn in &insns {
            let size = api::qemu_plugin_insn_size(*insn);
            let bytes = api::qemu_plugin_insn_data(*insn).cast::<u8>();
            let bytes = std::slice::from_raw_parts(bytes, size);
            places.push((
                api::qemu_plugin_insn_vaddr(*insn),
                code.len()..code.len() + size,
            ));
            code.extend_from_slice(bytes);
        }
        let Some((pc, _)) = places.first() else {
            return;
        };
        let marked = |place: &Place| decode::marker(&code[place.1.clone()]).is_some();
        if quiet::is_quiet() && !places.iter().any(marked) {
            return;
        }
        let (number, may_access) = number(recorder, *pc, &code, &places);
        let data = word::block(number, count) as *mut c_void;
        api::qemu_plugin_register_vcpu_tb_exec_cb(tb, block_runs, api::NO_REGS, data);
        for (n, insn) in insns.iter().enumerate() {
            let (rw, flags) = (api::MEM_RW, api::NO_REGS);
            if may_access[n] {
                let origin = word::origin(number, n) as *mut c_void;
                api::qemu_plugin_register_vcpu_mem_cb(*insn, memory, flags, rw, origin);
            }
            let mark = decode::marker(&code[places[n].1.clone()]);
            if let Some(start) = mark.filter(|_| recorder.has_markers()) {
                let data = Marker::new(start, &code).pack() as *mut c_void;
                api::qemu_plugin_register_vcpu_insn_exec_cb(*insn, marker, flags, data);
            }
        }
    }
}

/// An instruction's address and its bytes within the block's code.
type Place = (u64, std::ops::Range<usize>);

/// The block's number, and for each instruction whether it may access memory.
fn number(recorder: &Recorder, pc: u64, code: &[u8], places: &[Place]) -> (u32, Vec<bool>) {
    let mut tables = recorder.tables.lock().expect("no thread panicked");
    let number = tables.known(pc, code).unwrap_or_else(|| {
        let mut factory = InstructionInfoFactory::new();
        let decoded = places
            .iter()
            .map(|(pc, range)| decode::decode(&code[range.clone()], *pc, &mut factory));
        tables.add(code.to_vec(), decoded.collect())
    });
    (number, tables.may_access(number))
}
