//! A client of the server: its socket, its region, and what it has under way.

use super::perform::nothing;
use ::shm::ring::{Reader, Ring, Words, Writer};
use ::shm::{Breach, ENTRIES, Layout, Note, Region, Request, Submission, answer, handshake};
use handshake::{HELLO_BYTES, Heard};
use port::{Conflict, Device, Outcome, Shape};
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::time::{Duration, Instant};
use units::TxId;

/// A client that has not said what it wants by then goes.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Transactions of a client that has gone that are aborted at a time. The device looks through all
/// that it has for each request, and others have their turn in between.
const ABORTS: usize = 32;

/// What a client has with the server once it has its region.
pub(super) struct Channel {
    pub region: Rc<Region>,
    layout: Layout,
    submissions: Reader,
    answers: Writer,
    /// Requests with the device, aborts of what it left open included.
    under_way: usize,
    /// Bytes of them.
    weight: usize,
    /// Transactions that the device has of it: its number, the device's.
    open: BTreeMap<TxId, TxId>,
    /// Aborts with the device of what it left open.
    aborting: usize,
    /// It has answers for which no bell was rung.
    pub has_answers: bool,
}

/// What becomes of an entry that keeps the protocol.
pub(super) enum Admitted {
    /// It goes to the device, which knows its transaction by this name.
    Submit(Submission, TxId),
    /// It is answered at once.
    Answer(Submission, Outcome),
}

impl Channel {
    /// The next thing that the client asks for, if there is room for it.
    pub fn next(&mut self, device: &impl Device) -> Result<Option<Admitted>, Breach> {
        // An honest client never has more under way.
        if self.under_way >= ENTRIES + self.aborting {
            return Ok(None);
        }
        let Some(words) = self.submissions.pop(&self.region)? else {
            return Ok(None);
        };
        self.admit(&words, device).map(Some)
    }

    fn admit(&mut self, words: &Words, device: &impl Device) -> Result<Admitted, Breach> {
        let submission = Submission::decode(words, &self.layout)?;
        let data = self.layout.data();
        let weight = self.weight + submission.request.range().size;
        if weight as u64 > data.get() {
            return Err(Breach::Overlap { data });
        }
        let tx = match self.name_of(&submission, device) {
            Ok(tx) => tx,
            Err(outcome) => return Ok(Admitted::Answer(submission, outcome)),
        };
        self.weight = weight;
        self.under_way += 1;
        Ok(Admitted::Submit(submission, tx))
    }

    /// The device's name for the transaction of a request: it is opened by the first one that
    /// writes or reserves. Whether the client has begun it is the client's to know: its numbers
    /// are its own. Of one that the device has not heard of there is nothing to end.
    fn name_of(&mut self, submission: &Submission, device: &impl Device) -> Result<TxId, Outcome> {
        let Some(tx) = submission.request.transaction() else {
            return Ok(TxId::NONE);
        };
        match submission.request {
            Request::Commit(_) | Request::Abort(_) => {
                let name = self.open.remove(&tx);
                name.ok_or_else(|| Ok(nothing()))
            }
            _ => match self.open.get(&tx) {
                Some(name) => Ok(*name),
                None => {
                    let name = device.open(submission.may_split).map_err(Err)?;
                    self.open.insert(tx, name);
                    Ok(name)
                }
            },
        }
    }

    /// The device has done a request, which may be one of the server's own.
    pub fn settle(&mut self, request: &Request, is_own: bool) {
        self.under_way -= 1;
        self.aborting -= usize::from(is_own);
        self.weight -= request.range().size;
    }

    /// Answers a request.
    pub fn answer(&mut self, cookie: u64, result: &Outcome) {
        let words = answer::encode(cookie, result, &self.region);
        self.answers.push(&self.region, words);
        self.has_answers = true;
    }

    /// The abort of a transaction that it left open, unless the device has enough of them.
    pub fn next_abort(&mut self) -> Option<(Submission, TxId)> {
        if self.aborting >= ABORTS {
            return None;
        }
        let (tx, name) = self.open.pop_first()?;
        self.under_way += 1;
        self.aborting += 1;
        let submission = Submission {
            cookie: 0,
            request: Request::Abort(tx),
            conflict: Conflict::Wait,
            may_split: true,
        };
        Some((submission, name))
    }
}

/// What came of a hello.
pub(super) enum Handshake {
    /// Not all of it is there.
    Incomplete,
    /// The client has its region.
    Done,
    /// It has none and goes.
    Failed,
}

/// A client, from when it connects.
pub(super) struct Client {
    socket: UnixStream,
    hello: [u8; HELLO_BYTES],
    have: usize,
    since: Instant,
    pub channel: Option<Channel>,
    /// Nobody is at the other end any more, or is to be.
    pub is_gone: bool,
}

impl Client {
    /// One that has connected.
    pub fn new(socket: UnixStream, since: Instant) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            hello: [0; HELLO_BYTES],
            have: 0,
            since,
            channel: None,
            is_gone: false,
        })
    }

    /// Reads what it says first, and gives it its region.
    pub fn shake_hands(&mut self, shape: Shape) -> Handshake {
        match self.socket.read(&mut self.hello[self.have..]) {
            Ok(0) => return Handshake::Failed,
            Ok(got) => self.have += got,
            Err(error) => {
                return match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::Interrupted => Handshake::Incomplete,
                    _ => Handshake::Failed,
                };
            }
        }
        if self.have < HELLO_BYTES {
            return Handshake::Incomplete;
        }
        match self.open(shape) {
            Ok(channel) => {
                self.channel = Some(channel);
                Handshake::Done
            }
            Err(text) => {
                self.refuse(&text);
                Handshake::Failed
            }
        }
    }

    fn open(&self, shape: Shape) -> Result<Channel, String> {
        let wanted = handshake::wanted(&self.hello)?;
        let layout = Layout::new(shape, wanted).map_err(|error| error.to_string())?;
        let memory = handshake::memory(layout.bytes());
        let (file, region) = memory.map_err(|error| format!("there is no memory: {error}"))?;
        layout.write(&region);
        handshake::welcome(&self.socket, &file).map_err(|error| error.to_string())?;
        Ok(Channel {
            region: Rc::new(region),
            layout,
            submissions: Reader::new(Ring::Submissions),
            answers: Writer::new(Ring::Answers),
            under_way: 0,
            weight: 0,
            open: BTreeMap::new(),
            aborting: 0,
            has_answers: false,
        })
    }

    /// Tells it why it cannot come in.
    pub fn refuse(&self, text: &str) {
        // Who does not listen is not told.
        let _ = handshake::refuse(&self.socket, text);
    }

    /// Hears bells, and the end.
    pub fn listen(&mut self) {
        if handshake::listen(&self.socket) == Heard::Gone {
            self.is_gone = true;
        }
    }

    /// Whether it has connected and then said nothing for too long.
    pub fn is_too_late(&self, now: Instant) -> bool {
        self.channel.is_none() && now.duration_since(self.since) > HANDSHAKE
    }

    /// Wakes it.
    pub fn ring(&self) {
        handshake::ring(&self.socket);
    }

    /// Ends the connection, and says why.
    pub fn end(&mut self, reason: &str) {
        if let Some(channel) = &self.channel {
            Note::Ended.leave(&channel.region, reason);
        }
        // Who has gone already cannot be told.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.is_gone = true;
    }

    /// Whether it can be forgotten: it has gone, and the device has nothing of it.
    pub fn is_over(&self) -> bool {
        let is_idle = |channel: &Channel| channel.under_way == 0 && channel.open.is_empty();
        self.is_gone && self.channel.as_ref().is_none_or(is_idle)
    }
}

impl AsFd for Client {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
