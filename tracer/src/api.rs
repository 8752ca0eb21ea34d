//! QEMU's plugin interface, version 1 (QEMU 7.2), declared by hand: Debian ships no header.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// The plugin's identity, given at installation.
pub type PluginId = u64;

/// Opaque: a block under translation.
#[repr(C)]
pub struct Tb {
    _opaque: [u8; 0],
}

/// Opaque: an instruction under translation.
#[repr(C)]
pub struct Insn {
    _opaque: [u8; 0],
}

/// Opaque: what QEMU says of itself at installation.
#[repr(C)]
pub struct Info {
    _opaque: [u8; 0],
}

/// Callbacks need no guest registers: the cheapest kind.
pub const NO_REGS: c_int = 0;
/// Loads and stores.
pub const MEM_RW: c_int = 3;

/// All callbacks and translations are gone.
pub type ResetCallback = extern "C" fn(PluginId);
/// A virtual processor appears or disappears.
pub type VcpuCallback = extern "C" fn(PluginId, c_uint);
/// A block is translated.
pub type TranslateCallback = extern "C" fn(PluginId, *mut Tb);
/// A block or an instruction runs.
pub type ExecCallback = extern "C" fn(c_uint, *mut c_void);
/// Memory is accessed: packed description, virtual address.
pub type MemCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
/// A system call begins.
#[rustfmt::skip]
pub type SyscallCallback =
    extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
/// A system call returns.
pub type SyscallRetCallback = extern "C" fn(PluginId, c_uint, i64, i64);
/// The program exits.
pub type ExitCallback = extern "C" fn(PluginId, *mut c_void);

#[allow(missing_docs, reason = "QEMU documents its own interface")]
unsafe extern "C" {
    pub fn qemu_plugin_reset(id: PluginId, then: ResetCallback);
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn) -> *const c_void;
    pub fn qemu_plugin_insn_size(insn: *const Insn) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;

    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, callback: VcpuCallback);
    pub fn qemu_plugin_register_vcpu_exit_cb(id: PluginId, callback: VcpuCallback);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: TranslateCallback);
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, callback: SyscallCallback);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: PluginId, callback: SyscallRetCallback);
    pub fn qemu_plugin_register_atexit_cb(id: PluginId, callback: ExitCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        callback: ExecCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        callback: ExecCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        callback: MemCallback,
        flags: c_int,
        rw: c_int,
        data: *mut c_void,
    );

    // The C library.
    pub fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    pub fn access(path: *const c_char, mode: c_int) -> c_int;
    pub fn write(file: c_int, bytes: *const c_void, count: usize) -> isize;
    pub fn fcntl(file: c_int, command: c_int, argument: c_int) -> c_int;
    pub fn _exit(status: c_int) -> !;
}

/// Writes one line to standard error without locks or allocation: usable around `fork`.
pub fn say(line: &str) {
    // SAFETY: the pointer and length describe a live string; a failed write changes nothing.
    unsafe { write(2, line.as_ptr().cast(), line.len()) };
}

/// Whether the program could execute the file whose path is at guest address `path` (guest
/// addresses are host addresses for a 64-bit program).
pub fn is_executable(path: u64) -> bool {
    const EXECUTABLE: c_int = 1;
    // SAFETY: the kernel checks the address.
    unsafe { access(path as *const c_char, EXECUTABLE) == 0 }
}

/// The handler in the `struct sigaction` at guest address `action`, which a system call has just
/// read.
pub fn handler_of(action: u64) -> u64 {
    // SAFETY: the emulator read the structure, whose first field this is, a moment ago.
    unsafe { (action as *const u64).read_unaligned() }
}

/// Ends the process at once.
pub fn exit_process(status: i32) -> ! {
    // SAFETY: does not return.
    unsafe { _exit(status) }
}
