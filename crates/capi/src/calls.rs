//! The functions of `entresol.h`. See there what they do.
//!
//! Of each pointer to a device the header demands that it came from `entresol_connect` and was not
//! closed; of each buffer, that it has as many bytes as are named and that nobody else changes them
//! during the call; of each place for a result, that it is null or may be written.
#![allow(unsafe_code)]

use crate::types::{
    CPart, CShape, CStats, CTimes, MISUSE, NO_WAIT, UNREACHABLE, WHOLE, parts, status,
};
use port::{
    Acknowledge, Command, Completion, Conflict, Device, DeviceError, Outcome, Payload, TxOptions,
};
use shm::{Client, Connect};
use std::cell::RefCell;
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::time::Duration;
use units::{ByteAddr, Bytes, TxId};

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

/// Keeps the sentence of a failure for `entresol_error`.
fn failed(code: c_int, text: &str) -> c_int {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    LAST.set(text);
    code
}

/// What a call gives back.
fn outcome<T>(result: Result<T, DeviceError>, then: impl FnOnce(T)) -> c_int {
    match result {
        Ok(value) => {
            then(value);
            0
        }
        Err(error) => failed(status(&error), &error.to_string()),
    }
}

/// Stores a result where the caller wants it, if it does.
fn put<T>(place: *mut T, value: impl Into<T>) {
    if !place.is_null() {
        // SAFETY: not null, and the header demands that it may be written.
        unsafe { place.write(value.into()) };
    }
}

/// A device, if it is one.
fn known<'a>(device: *const Client) -> Result<&'a Client, c_int> {
    // SAFETY: null, or of `entresol_connect` and not closed, as the header demands.
    unsafe { device.as_ref() }.ok_or_else(|| failed(MISUSE, "the device is null; connect first"))
}

fn bytes<'a>(from: *const c_void, size: usize) -> Result<&'a [u8], c_int> {
    match (from.is_null(), size) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(failed(
            MISUSE,
            "the buffer is null; give one of the size named",
        )),
        // SAFETY: the header demands so many bytes that nobody changes.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(from.cast(), size) }),
    }
}

fn room<'a>(into: *mut c_void, size: usize) -> Result<&'a mut [u8], c_int> {
    match (into.is_null(), size) {
        (_, 0) => Ok(&mut []),
        (true, _) => Err(failed(
            MISUSE,
            "the buffer is null; give one of the size named",
        )),
        (false, _) => {
            // The caller may not have written there yet, and no reference may be to such bytes.
            // SAFETY: the header demands room for so many bytes, of which nobody else knows.
            unsafe { into.cast::<u8>().write_bytes(0, size) };
            // SAFETY: as above, and they have values now.
            Ok(unsafe { std::slice::from_raw_parts_mut(into.cast(), size) })
        }
    }
}

/// Does a call, or gives the code of a misuse.
fn call(work: impl FnOnce() -> Result<c_int, c_int>) -> c_int {
    work().unwrap_or_else(|code| code)
}

/// Waits for a request of which there are times to tell.
fn timed<'c, F>(
    device: *const Client,
    times: *mut CTimes,
    request: impl FnOnce(&'c Client) -> Result<F, c_int>,
) -> c_int
where
    F: Future<Output = Result<Completion, DeviceError>>,
{
    call(|| {
        let client = known(device)?;
        let done = client.wait(request(client)?);
        Ok(outcome(done, |completion| put(times, completion)))
    })
}

/// Waits for the end of a transaction.
fn closed<'c, F>(
    device: *const Client,
    (parts_done, times): (*mut u32, *mut CTimes),
    request: impl FnOnce(&'c Client) -> F,
) -> c_int
where
    F: Future<Output = Outcome>,
{
    call(|| {
        let client = known(device)?;
        let done = client.wait(request(client));
        Ok(outcome(done, |(completion, atomicity)| {
            put(parts_done, parts(atomicity));
            put(times, completion);
        }))
    })
}

/// The last failure of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// Connects; null if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_connect(path: *const c_char) -> *mut Client {
    let default = Connect::default();
    let spin = u32::try_from(default.spin.as_micros()).unwrap_or(u32::MAX);
    entresol_connect_with(path, default.data.get(), spin)
}

/// Connects; null if that fails.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_connect_with(
    path: *const c_char,
    data_bytes: u64,
    spin_us: u32,
) -> *mut Client {
    if path.is_null() {
        failed(MISUSE, "the path is null; give that of the server's socket");
        return null_mut();
    }
    // SAFETY: not null, and the header demands a text that ends with zero.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    // As servers print it, and as the binding for Python takes it.
    let path = path.strip_prefix(b"unix:").unwrap_or(path);
    let connect = Connect {
        data: Bytes::new(data_bytes),
        spin: Duration::from_micros(spin_us.into()),
    };
    match connect.to(Path::new(OsStr::from_bytes(path))) {
        Ok(client) => Box::into_raw(Box::new(client)),
        Err(error) => {
            failed(UNREACHABLE, &error.to_string());
            null_mut()
        }
    }
}

/// Ends a connection; null is none.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_close(device: *mut Client) {
    if !device.is_null() {
        // SAFETY: the header demands that it is of `entresol_connect` and not closed before.
        drop(unsafe { Box::from_raw(device) });
    }
}

/// What the device is.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_get_shape(device: *const Client, shape: *mut CShape) -> c_int {
    call(|| {
        put(shape, known(device)?.shape());
        Ok(0)
    })
}

/// Byte port.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_read(
    device: *const Client,
    at: u64,
    into: *mut c_void,
    size: usize,
    times: *mut CTimes,
) -> c_int {
    timed(device, times, |client| {
        Ok(client.read(ByteAddr::new(at), room(into, size)?))
    })
}

/// Byte port.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_write(
    device: *const Client,
    at: u64,
    from: *const c_void,
    size: usize,
    tx: u32,
    times: *mut CTimes,
) -> c_int {
    timed(device, times, |client| {
        let from = bytes(from, size)?;
        Ok(client.write(ByteAddr::new(at), from, TxId::new(tx)))
    })
}

/// Byte port.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_persist(device: *const Client, times: *mut CTimes) -> c_int {
    timed(device, times, |client| Ok(client.persist()))
}

/// Block port.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_read_blocks(
    device: *const Client,
    at: u64,
    into: *mut c_void,
    size: usize,
    times: *mut CTimes,
) -> c_int {
    timed(device, times, |client| {
        Ok(client.read_blocks(ByteAddr::new(at), room(into, size)?))
    })
}

/// Block port.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_write_blocks(
    device: *const Client,
    at: u64,
    from: *const c_void,
    size: usize,
    durable: c_int,
    times: *mut CTimes,
) -> c_int {
    let when = match durable {
        0 => Acknowledge::Accepted,
        _ => Acknowledge::Durable,
    };
    timed(device, times, |client| {
        let from = bytes(from, size)?;
        Ok(client.write_blocks(ByteAddr::new(at), from, when))
    })
}

/// Block port.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_trim(
    device: *const Client,
    at: u64,
    size: u64,
    times: *mut CTimes,
) -> c_int {
    timed(device, times, |client| {
        Ok(client.trim(ByteAddr::new(at), Bytes::new(size)))
    })
}

/// All ports.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_flush(device: *const Client, times: *mut CTimes) -> c_int {
    timed(device, times, |client| Ok(client.flush()))
}

/// All ports.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_drain(device: *const Client, times: *mut CTimes) -> c_int {
    timed(device, times, |client| Ok(client.drain()))
}

/// Byte port; refused instead of waiting.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_try_write(
    device: *const Client,
    at: u64,
    from: *const c_void,
    size: usize,
    tx: u32,
    times: *mut CTimes,
) -> c_int {
    call(|| {
        let client = known(device)?;
        let payload = Payload::Out(bytes(from, size)?);
        let command = Command::Write(TxId::new(tx));
        let at = ByteAddr::new(at);
        let done = client.wait(client.request(command, at, payload, Conflict::Refuse));
        Ok(outcome(done, |(completion, _)| put(times, completion)))
    })
}

/// Byte port; several writes together.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_write_vectored(
    device: *const Client,
    parts: *const CPart,
    count: usize,
    tx: u32,
    times: *mut CTimes,
) -> c_int {
    timed(device, times, |client| {
        let parts = match (parts.is_null(), count) {
            (_, 0) => &[],
            (true, _) => return Err(failed(MISUSE, "the parts are null; give as many as named")),
            // SAFETY: the header demands so many parts that nobody changes.
            (false, _) => unsafe { std::slice::from_raw_parts(parts, count) },
        };
        let one = |part: &CPart| Ok((ByteAddr::new(part.at), bytes(part.from, part.size)?));
        let parts: Vec<_> = parts.iter().map(one).collect::<Result<_, c_int>>()?;
        Ok(client.write_vectored(&parts, TxId::new(tx)))
    })
}

/// Opens a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_begin(device: *const Client, tx: *mut u32) -> c_int {
    begin(device, TxOptions::default(), tx)
}

/// Opens a transaction that is like this.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_begin_with(
    device: *const Client,
    lines: u32,
    flags: u32,
    tx: *mut u32,
) -> c_int {
    if flags & !(WHOLE | NO_WAIT) != 0 {
        return failed(
            MISUSE,
            "the flags have bits that are not known; see entresol.h",
        );
    }
    let options = TxOptions {
        lines,
        may_split: flags & WHOLE == 0,
        conflict: match flags & NO_WAIT {
            0 => Conflict::Wait,
            _ => Conflict::Refuse,
        },
    };
    begin(device, options, tx)
}

fn begin(device: *const Client, options: TxOptions, tx: *mut u32) -> c_int {
    call(|| {
        let client = known(device)?;
        let begun = client.wait(client.begin(options));
        Ok(outcome(begun, |name| put(tx, name.get())))
    })
}

/// Closes a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_commit(
    device: *const Client,
    tx: u32,
    parts_done: *mut u32,
    times: *mut CTimes,
) -> c_int {
    closed(device, (parts_done, times), |client| {
        client.commit(TxId::new(tx))
    })
}

/// Closes a transaction.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_abort(
    device: *const Client,
    tx: u32,
    parts_done: *mut u32,
    times: *mut CTimes,
) -> c_int {
    closed(device, (parts_done, times), |client| {
        client.abort(TxId::new(tx))
    })
}

/// What the device has done.
#[unsafe(no_mangle)]
pub extern "C" fn entresol_get_stats(device: *const Client, stats: *mut CStats) -> c_int {
    call(|| {
        Ok(outcome(known(device)?.statistics(), |found| {
            put(stats, found)
        }))
    })
}
