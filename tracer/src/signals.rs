//! A program that is asked to end and has no handler for that still gets its capture completed.
//!
//! The emulator would end the process without a word to its plugins. So we take the place of its
//! handlers until the program sets its own, and again when the program restores the default: the
//! handler only posts a semaphore, a thread of ours completes the capture and then lets the signal
//! have its way. Meanwhile the program runs on, for some milliseconds at most, until its threads
//! begin a system call or return from one.

#![allow(unsafe_code)]

use crate::recorder;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// SIGHUP, SIGINT, SIGUSR1, SIGUSR2, SIGPIPE, SIGALRM and SIGTERM: their default is to end the
/// program without a core dump.
const ENDING: [c_int; 7] = [1, 2, 10, 12, 13, 14, 15];
/// The handler that stands for a signal's default.
pub const DEFAULT: u64 = 0;
const SIG_UNBLOCK: c_int = 1;
const SIG_SETMASK: c_int = 2;
const SIG_DFL: usize = DEFAULT as usize;
const SIG_IGN: usize = 1;

/// A C structure that only the C library looks into; larger than it needs on any 64-bit Linux.
#[repr(C, align(16))]
struct Opaque(UnsafeCell<[u64; 32]>);

// SAFETY: only the C library's own thread-safe functions look inside.
unsafe impl Sync for Opaque {}

impl Opaque {
    const fn new() -> Self {
        Self(UnsafeCell::new([0; 32]))
    }
    fn get(&self) -> *mut c_void {
        self.0.get().cast()
    }
}

unsafe extern "C" {
    fn signal(number: c_int, handler: usize) -> usize;
    fn raise(number: c_int) -> c_int;
    fn pause() -> c_int;
    fn sigfillset(set: *mut c_void) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const c_void, old: *mut c_void) -> c_int;
    fn sem_init(semaphore: *mut c_void, shared: c_int, value: c_uint) -> c_int;
    fn sem_wait(semaphore: *mut c_void) -> c_int;
    fn sem_post(semaphore: *mut c_void) -> c_int;
}

static ASKED: Opaque = Opaque::new();
/// The signal; 0: none yet.
static NUMBER: AtomicI32 = AtomicI32::new(0);
/// Somebody waits for the semaphore.
static READY: AtomicBool = AtomicBool::new(false);

extern "C" fn asked_to_end(number: c_int) {
    // SAFETY: all four are allowed in a signal handler.
    unsafe {
        if recorder::is_detached() {
            // The thread that waits is not in this process.
            signal(number, SIG_DFL);
            raise(number);
            return;
        }
        NUMBER.store(number, Ordering::Relaxed);
        sem_post(ASKED.get());
    }
}

/// Handles the signals that ask a program to end. To be called once the emulator has set its own
/// handlers and before the program runs: what the program sets replaces ours, and what the user
/// ignores stays ignored.
pub fn install() {
    let (all, before) = (Opaque::new(), Opaque::new());
    // SAFETY: the structures outlive the calls; the new thread inherits a mask that keeps the
    // emulator's handlers away from it.
    unsafe {
        sem_init(ASKED.get(), 0, 0);
        sigfillset(all.get());
        pthread_sigmask(SIG_SETMASK, all.get(), before.get());
        let waiter = std::thread::Builder::new().spawn(wait_and_complete);
        pthread_sigmask(SIG_SETMASK, before.get(), std::ptr::null_mut());
        if waiter.is_err() {
            return;
        }
        READY.store(true, Ordering::Relaxed);
        for number in ENDING {
            if take_place(number) == SIG_IGN {
                signal(number, SIG_IGN);
            }
        }
    }
}

/// Whether the signal is one whose default is to end the program without a core dump.
pub fn ends(number: u64) -> bool {
    ENDING.iter().any(|ending| *ending as u64 == number)
}

/// The program has restored the default of a signal that [`ends`] it, and with it the emulator's
/// handler: takes its place again.
pub fn restored(number: u64) {
    if READY.load(Ordering::Relaxed) {
        take_place(number as c_int);
    }
}

fn take_place(number: c_int) -> usize {
    // SAFETY: the handler does only what a signal handler may do.
    unsafe { signal(number, asked_to_end as *const () as usize) }
}

/// Does not return if the program was asked to end: so it does not notice that the signal takes its
/// time. The caller holds no lock.
pub fn hold() {
    while NUMBER.load(Ordering::Relaxed) != 0 {
        // SAFETY: has no arguments.
        unsafe { pause() };
    }
}

fn wait_and_complete() {
    // SAFETY: the semaphore was made before this thread.
    while unsafe { sem_wait(ASKED.get()) } != 0 {}
    let number = NUMBER.load(Ordering::Relaxed);
    recorder::get().exit();
    let all = Opaque::new();
    // SAFETY: restores the default and sends this thread, which then blocks no signal, the signal
    // that the process was sent.
    unsafe {
        signal(number, SIG_DFL);
        sigfillset(all.get());
        pthread_sigmask(SIG_UNBLOCK, all.get(), std::ptr::null_mut());
        raise(number);
    }
}
