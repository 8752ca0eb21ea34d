//! What a mount tells of itself and of its device.

use super::below::Below;
use super::share::Served;
use core::fmt::{self, Display};
use units::{ByteAddr, Bytes, Picos, Time};

/// In which memories of a device bytes of a range are.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Places {
    /// Lines of 64 bytes in its log.
    pub log_lines: u64,
    /// Pages in its page cache.
    pub cached_pages: u64,
    /// Pages on flash.
    pub flash_pages: u64,
}

/// What a device has spent its time on so far, in sum over operations.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Account {
    /// Its clock.
    pub clock: Time,
    /// Waiting for each other and for room.
    pub waiting: Picos,
    /// Log and page cache: lookups, and memory.
    pub memory: Picos,
    /// Flash.
    pub flash: Picos,
    /// The link.
    pub link: Picos,
}

/// Who fills the files in `.entresol`.
pub trait Teller<D>: Send + Sync {
    /// What `stats` says.
    fn stats(&self, files: &Below<D>, served: Served) -> String;

    /// What `dax` says.
    fn dax(&self, files: &Below<D>) -> String {
        let _ = files;
        "null\n".to_owned()
    }

    /// Where the bytes of a range are in the device; nothing if nobody knows.
    fn places(&self, device: &D, at: ByteAddr, size: Bytes) -> Option<Places> {
        let _ = (device, at, size);
        None
    }

    /// What the device has spent its time on; nothing if nobody knows.
    fn account(&self, device: &D) -> Option<Account> {
        let _ = device;
        None
    }
}

/// Who says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl<D> Teller<D> for Silent {
    fn stats(&self, _: &Below<D>, _: Served) -> String {
        "{}\n".to_owned()
    }
}

/// What came of one fsync, as JSON.
pub(super) struct Told {
    /// From asking to answering, in the server.
    pub server_ns: u128,
    /// Of it this thread has computed what the device does.
    pub device_code_ns: u128,
    /// The device's accounts before and behind it.
    pub accounts: Option<(Account, Account)>,
}

impl Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (server, code) = (self.server_ns, self.device_code_ns);
        write!(f, "{{\"server_ns\":{server},\"device_code_ns\":{code}")?;
        if let Some((before, after)) = &self.accounts {
            let took = after.clock - before.clock;
            write!(f, ",\"device\":{{\"took_ps\":{}", took.get())?;
            for (name, before, after) in [
                ("waiting", before.waiting, after.waiting),
                ("memory", before.memory, after.memory),
                ("flash", before.flash, after.flash),
                ("link", before.link, after.link),
            ] {
                write!(f, ",\"{name}_ps\":{}", after.saturating_sub(before).get())?;
            }
            f.write_str("}")?;
        }
        f.write_str("}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_fsync_took_is_the_difference_of_two_accounts() {
        let account = |nanos: u64| Account {
            clock: Time::ZERO + Picos::from_nanos(nanos),
            flash: Picos::from_nanos(2 * nanos),
            ..Account::default()
        };
        let told = Told {
            server_ns: 7,
            device_code_ns: 5,
            accounts: Some((account(1), account(4))),
        };
        assert_eq!(
            told.to_string(),
            "{\"server_ns\":7,\"device_code_ns\":5,\"device\":{\"took_ps\":3000,\
             \"waiting_ps\":0,\"memory_ps\":0,\"flash_ps\":6000,\"link_ps\":0}}\n"
        );
    }
}
