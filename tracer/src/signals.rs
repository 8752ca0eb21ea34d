//! A program that is asked to end and has no handler for that still gets its capture completed.
//!
//! The emulator would end the process without a word to its plugins. So we take the place of its
//! handlers until the program sets its own: the handler only posts a semaphore, a thread of ours
//! completes the capture and then lets the signal have its way. Meanwhile the program runs on for
//! some milliseconds; a call that the signal interrupted returns.

#![allow(unsafe_code)]

use crate::recorder;
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

const SIGHUP: c_int = 1;
const SIGINT: c_int = 2;
const SIGTERM: c_int = 15;
const SIG_SETMASK: c_int = 2;
const SIG_DFL: usize = 0;
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
    fn kill(process: c_int, number: c_int) -> c_int;
    fn sigfillset(set: *mut c_void) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const c_void, old: *mut c_void) -> c_int;
    fn sem_init(semaphore: *mut c_void, shared: c_int, value: c_uint) -> c_int;
    fn sem_wait(semaphore: *mut c_void) -> c_int;
    fn sem_post(semaphore: *mut c_void) -> c_int;
}

static ASKED: Opaque = Opaque::new();
static NUMBER: AtomicI32 = AtomicI32::new(0);

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
        for number in [SIGHUP, SIGINT, SIGTERM] {
            if signal(number, asked_to_end as *const () as usize) == SIG_IGN {
                signal(number, SIG_IGN);
            }
        }
    }
}

fn wait_and_complete() {
    // SAFETY: the semaphore was made before this thread.
    while unsafe { sem_wait(ASKED.get()) } != 0 {}
    let number = NUMBER.load(Ordering::Relaxed);
    recorder::get().exit();
    // SAFETY: restores the default and sends this process the signal it was sent.
    unsafe {
        signal(number, SIG_DFL);
        kill(std::process::id() as c_int, number);
    }
}
