//! A device in memory that does at once what it is asked, with transactions.
//!
//! A file system is mounted on it again and again, on what a power cut may have left: that costs
//! nothing but the file system's own work. It keeps the contract of [`port::Device`]; what it is
//! asked can go into a journal, so that the power can be cut under a recovery too.

use crate::crash::image::{Image, LINE};
use crate::crash::journal::SharedJournal;
use port::{
    Atomicity, Command, Completion, Conflict, Device, DeviceError, DeviceStats, Drive, Outcome,
    Payload, Shape, Turned,
};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use units::{ByteAddr, Bytes, Time, TxId};

/// The device.
pub struct Disk {
    shape: Shape,
    state: Mutex<State>,
    journal: Option<SharedJournal>,
}

struct State {
    image: Image,
    /// By number: what was at the lines that it has written.
    transactions: BTreeMap<u32, Undo>,
    next: u32,
}

/// By line: its bytes before.
type Undo = BTreeMap<usize, [u8; LINE]>;

const NOW: Completion = Completion {
    submitted: Time::ZERO,
    finished: Time::ZERO,
};

impl Disk {
    /// A device of this shape with these bytes. The window is behind the others, if they have one.
    ///
    /// # Panics
    /// If they are not as many as it has.
    pub fn new(shape: Shape, image: Image, journal: Option<SharedJournal>) -> Self {
        let window = image.size() as u64 - shape.capacity.get();
        assert!(
            window == 0 || window == shape.pmem.get(),
            "as many as there are"
        );
        let state = State {
            image,
            transactions: BTreeMap::new(),
            next: 1,
        };
        Self {
            shape: Shape {
                pmem: Bytes::new(window),
                ..shape
            },
            state: Mutex::new(state),
            journal,
        }
    }

    /// Another device with what this one holds, without a journal.
    pub fn again(&self) -> Self {
        Self::new(self.shape, self.image(), None)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds, lines of open transactions included.
    pub fn image(&self) -> Image {
        self.state().image.clone()
    }

    fn check(&self, command: Command, at: ByteAddr, size: Bytes) -> Result<(), DeviceError> {
        let mut capacity = self.shape.capacity;
        let is_of_window = matches!(
            command,
            Command::Read | Command::ReadLines | Command::Write(TxId::NONE) | Command::WriteLines
        );
        if is_of_window {
            capacity += self.shape.pmem;
        }
        let end = at.checked_add(size).map(ByteAddr::get);
        if end.is_none_or(|end| end > capacity.get()) {
            return Err(DeviceError::OutOfRange { at, size, capacity });
        }
        let block = self.shape.block;
        let is_whole = |place: u64| place.is_multiple_of(block.get());
        if command.is_block() && !(is_whole(at.get()) && is_whole(size.get())) {
            return Err(DeviceError::NotBlocks { at, size, block });
        }
        Ok(())
    }

    /// None: another transaction has a line of it.
    fn done(
        &self,
        command: Command,
        at: ByteAddr,
        payload: &mut Payload<'_>,
    ) -> Option<Result<(), DeviceError>> {
        let size = payload.size();
        if let Command::Reserve(tx) | Command::Commit(tx) | Command::Abort(tx) = command
            && !self.state().transactions.contains_key(&tx.get())
        {
            return Some(Err(DeviceError::UnknownTransaction { tx }));
        }
        if let Err(error) = self.check(command, at, size) {
            return Some(Err(error));
        }
        let mut state = self.state();
        let from = at.get() as usize;
        if command.is_write() && state.is_taken(command, from, size.get() as usize) {
            return None;
        }
        let most = self.shape.transactions.map_or(0, |limits| limits.lines) as usize;
        match command {
            Command::Reserve(_) if size.get() as usize > most * LINE => {
                return Some(Err(DeviceError::TooLarge { most: most as u32 }));
            }
            Command::Read | Command::ReadLines | Command::ReadBlocks => {
                state.image.read(from, payload.bytes_in());
            }
            Command::Write(tx) => {
                if let Some(tx) = command.transaction()
                    && !state.transactions.contains_key(&tx.get())
                {
                    return Some(Err(DeviceError::UnknownTransaction { tx }));
                }
                if state.keep(tx, from, size.get() as usize) > most {
                    return Some(Err(DeviceError::TooLarge { most: most as u32 }));
                }
                state.image.write(from, &payload.bytes_out());
            }
            Command::WriteLines | Command::WriteBlocks(_) => {
                state.image.write(from, &payload.bytes_out());
            }
            Command::Trim => state.image.write(from, &vec![0; size.get() as usize]),
            Command::Commit(tx) => {
                state.transactions.remove(&tx.get());
            }
            Command::Abort(tx) => state.undo(tx),
            Command::Persist
            | Command::PersistPmem
            | Command::Flush
            | Command::Drain
            | Command::Reserve(_) => {}
        }
        if let Some(journal) = &self.journal {
            let mut journal = journal.lock();
            let request = journal.submit(command, (at, size), &payload.bytes_out());
            if let Some(request) = request {
                journal.finish(request, true);
            }
        }
        Some(Ok(()))
    }
}

impl State {
    /// Whether an open transaction has written where a write that is not its own goes: a line of
    /// stores, a block of blocks.
    fn is_taken(&self, command: Command, at: usize, size: usize) -> bool {
        let by = command.transaction();
        let lines = at / LINE..(at + size).div_ceil(LINE);
        let others = self.transactions.iter();
        let mut others = others.filter(|(number, _)| by.is_none_or(|tx| tx.get() != **number));
        others.any(|(_, undo)| undo.range(lines.clone()).next().is_some())
    }

    /// Keeps what is there before a transaction writes. Gives how many lines it has written then.
    fn keep(&mut self, tx: TxId, at: usize, size: usize) -> usize {
        let Some(undo) = self.transactions.get_mut(&tx.get()) else {
            return 0;
        };
        for line in at / LINE..(at + size).div_ceil(LINE) {
            undo.entry(line).or_insert_with(|| {
                let mut bytes = [0; LINE];
                self.image.read(line * LINE, &mut bytes);
                bytes
            });
        }
        undo.len()
    }

    fn undo(&mut self, tx: TxId) {
        for (line, bytes) in self.transactions.remove(&tx.get()).unwrap_or_default() {
            self.image.write(line * LINE, &bytes);
        }
    }
}

/// A request of a [`Disk`]; done when it is first polled, unless it waits for a transaction.
pub struct DiskRequest<'a> {
    disk: &'a Disk,
    command: Command,
    at: ByteAddr,
    payload: Payload<'a>,
    conflict: Conflict,
}

impl Future for DiskRequest<'_> {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let request = &mut *self;
        match request
            .disk
            .done(request.command, request.at, &mut request.payload)
        {
            Some(done) => Poll::Ready(done.map(|()| (NOW, Atomicity::Whole))),
            None if request.conflict == Conflict::Refuse => {
                Poll::Ready(Err(DeviceError::Locked { at: request.at }))
            }
            None => {
                // Another part of the same future may end the transaction.
                context.waker().wake_by_ref();
                Poll::Pending
            }
        }
    }
}

impl Device for Disk {
    type Pending<'a> = DiskRequest<'a>;

    fn shape(&self) -> Shape {
        self.shape
    }

    fn request<'a>(
        &'a self,
        command: Command,
        at: ByteAddr,
        payload: Payload<'a>,
        conflict: Conflict,
    ) -> DiskRequest<'a> {
        DiskRequest {
            disk: self,
            command,
            at,
            payload,
            conflict,
        }
    }

    fn open(&self, _: bool) -> Result<TxId, DeviceError> {
        let mut state = self.state();
        match self.shape.transactions {
            None => Err(DeviceError::NoTransactions { has_log: false }),
            Some(limits) if state.transactions.len() as u32 >= limits.open => {
                Err(DeviceError::TooManyTransactions { open: limits.open })
            }
            Some(_) => {
                let number = state.next;
                state.next += 1;
                state.transactions.insert(number, Undo::new());
                Ok(TxId::new(number))
            }
        }
    }

    fn abandon(&self, tx: TxId) {
        self.state().undo(tx);
        if let Some(journal) = &self.journal {
            let mut journal = journal.lock();
            let nowhere = (ByteAddr::new(0), Bytes::ZERO);
            if let Some(request) = journal.submit(Command::Abort(tx), nowhere, &[]) {
                journal.finish(request, true);
            }
        }
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats::default()
    }
}

impl Drive for Disk {
    /// Everything is done when it is asked for.
    fn turn(&self) -> Turned {
        Turned::Idle
    }
}

struct IsWoken(AtomicBool);

impl Wake for IsWoken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Polls of one future after which it goes nowhere.
const POLLS: u32 = 1 << 20;

/// What a future over a [`Disk`] gives; None if it waits for what will not come.
pub fn run<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = std::pin::pin!(future);
    let is_woken = Arc::new(IsWoken(AtomicBool::new(true)));
    let waker = Waker::from(Arc::clone(&is_woken));
    let mut context = Context::from_waker(&waker);
    for _ in 0..POLLS {
        if !is_woken.0.swap(false, Ordering::Relaxed) {
            return None;
        }
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::power::Power;
    use port::{Acknowledge, TxLimits, TxOptions};

    fn disk() -> (Disk, SharedJournal) {
        let mut shape = Shape::plain(Bytes::new(1 << 16), Bytes::new(4096));
        shape.transactions = Some(TxLimits {
            open: 4,
            lines: 100,
        });
        let journal = SharedJournal::default();
        let image = Image::new(shape.capacity);
        (Disk::new(shape, image, Some(journal.clone())), journal)
    }

    fn first(disk: &Disk) -> u8 {
        let mut byte = [0];
        run(disk.read(ByteAddr::new(0), &mut byte))
            .unwrap()
            .unwrap();
        byte[0]
    }

    #[test]
    fn an_abort_takes_back_what_reads_have_seen() {
        let (disk, _) = disk();
        let tx = run(disk.begin(TxOptions::default())).unwrap().unwrap();
        run(disk.write(ByteAddr::new(0), &[1; 100], tx))
            .unwrap()
            .unwrap();
        run(disk.write(ByteAddr::new(10), &[2; 100], tx))
            .unwrap()
            .unwrap();
        assert_eq!(first(&disk), 1);
        // Nobody will end it meanwhile.
        let at = ByteAddr::new(0);
        let block = disk.write_blocks(at, &[3; 4096], Acknowledge::Durable);
        assert!(run(block).is_none());
        run(disk.abort(tx)).unwrap().unwrap();
        assert_eq!(disk.image().digest(), 0);
        assert!(run(disk.commit(tx)).unwrap().is_err());
        run(disk.write_blocks(at, &[3; 4096], Acknowledge::Durable))
            .unwrap()
            .unwrap();
        assert_eq!(first(&disk), 3);
    }

    #[test]
    fn the_journal_of_a_disk_gives_the_bytes_that_survive() {
        let (disk, journal) = disk();
        for (value, ends) in [(1, true), (2, false), (3, true)] {
            let tx = disk.open(true).unwrap();
            run(disk.write(ByteAddr::new(0), &[value; 64], tx))
                .unwrap()
                .unwrap();
            match ends {
                true => run(disk.commit(tx)).unwrap().map(|_| ()).unwrap(),
                false => disk.abandon(tx),
            }
        }
        run(disk.write(ByteAddr::new(64), &[9; 64], TxId::NONE))
            .unwrap()
            .unwrap();
        let mut power = Power::new(Image::new(disk.shape().capacity), &disk.shape());
        journal
            .lock()
            .events
            .iter()
            .for_each(|event| power.apply(event));
        assert_eq!(power.units().len(), 1, "the store was posted");
        assert_eq!(
            power.image_with(|_, _| true).digest(),
            disk.image().digest()
        );
        run(disk.flush()).unwrap().unwrap();
        power = Power::new(Image::new(disk.shape().capacity), &disk.shape());
        journal
            .lock()
            .events
            .iter()
            .for_each(|event| power.apply(event));
        assert_eq!(power.image().digest(), disk.image().digest());
    }
}
