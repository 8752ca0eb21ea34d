//! The client of the shared-memory port for programs in C: `include/entresol.h` says what each
//! function does, and is written by hand. Built as `libentresol_shm.so` and `libentresol_shm.a`.
//!
//! Functions take pointers of the caller's, so the file with them, `calls.rs`, has unsafe code; it
//! checks what can be checked (null), and each function says what it believes. A panic ends the
//! process: none may leave a function that C calls.
#![deny(unsafe_code)]

mod calls;
mod types;
