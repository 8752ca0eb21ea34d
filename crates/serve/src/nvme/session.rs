//! A connection as a function from bytes to events.

use super::wire::{
    Breach, COMMON_BYTES, CommandId, DIGEST_BYTES, Digests, ENTRY_BYTES, Fatal, Framing, Head,
    Layout, Pdu, TransferTag, ends_in_digest, farewell, u16_at,
};

/// Most bytes of data of a PDU to the controller (MAXH2CDATA).
pub const MOST_HOST_DATA: u32 = 256 << 10;
/// Most bytes of data in a capsule. An admin queue has 8 KiB by the protocol; its data are shorter.
pub const MOST_IN_CAPSULE: u32 = 16 << 10;
/// Most bytes of a header and its digest, all of which a step needs to see at once.
const MOST_FRONT: usize = 128 + DIGEST_BYTES;

/// A command and what came with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capsule {
    /// The submission queue entry.
    pub entry: [u8; ENTRY_BYTES],
    /// Data from the host.
    pub data: Vec<u8>,
    /// The data were asked for and are all of the transfer.
    pub was_asked_for: bool,
    /// A digest of the data was wrong: the command must not be done.
    pub is_damaged: bool,
}

/// What a host's bytes amount to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing without more bytes.
    More,
    /// Something that is done already; there may be more in the bytes.
    Went,
    /// A command, or a command whose data were asked for and have come.
    Command(Capsule),
    /// The connection is over; bytes that follow mean nothing.
    End(End),
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The host says that we broke the protocol.
    Host {
        /// Why, as the protocol numbers it.
        status: u16,
    },
    /// The host has broken the protocol, and was told.
    Broken(Breach),
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    /// The capsule that `Session::capsule` has.
    Capsule,
    Transfer(usize),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Start,
    Header,
    /// Data of a PDU.
    Data {
        owner: Owner,
        padding: usize,
        left: usize,
        sum: u32,
        has_digest: bool,
    },
    Digest {
        owner: Owner,
        sum: u32,
    },
    Over(End),
}

/// Data that were asked for.
#[derive(Debug)]
struct Transfer {
    entry: [u8; ENTRY_BYTES],
    size: u32,
    data: Vec<u8>,
    is_damaged: bool,
}

/// The controller's side of a connection. Keeps data as they come, and no more.
#[derive(Debug)]
pub struct Session {
    phase: Phase,
    framing: Framing,
    /// What the header of the last capsule began with: its entry follows.
    head: [u8; COMMON_BYTES],
    capsule: Capsule,
    /// By tag.
    transfers: Vec<Option<Transfer>>,
    /// For the data of the next capsule.
    spare: Vec<u8>,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            phase: Phase::Start,
            framing: Framing::default(),
            head: [0; COMMON_BYTES],
            capsule: Capsule {
                entry: [0; ENTRY_BYTES],
                data: Vec::new(),
                was_asked_for: false,
                is_damaged: false,
            },
            transfers: Vec::new(),
            spare: Vec::new(),
        }
    }
}

impl Session {
    /// Most bytes that a step needs to see at once.
    pub const MOST_AT_ONCE: usize = MOST_FRONT;

    /// How answers are framed: what was agreed on.
    pub fn framing(&self) -> Framing {
        self.framing
    }

    /// Bytes kept of data that have not come to their end.
    pub fn kept(&self) -> usize {
        let transfers = self.transfers.iter().flatten();
        let of_transfers: usize = transfers.map(|transfer| transfer.data.capacity()).sum();
        of_transfers + self.capsule.data.capacity()
    }

    /// Gives an empty buffer for the data of the next capsule, if it needs one.
    pub fn lend(&mut self, buffer: impl FnOnce() -> Vec<u8>) {
        if self.spare.capacity() == 0 {
            self.spare = buffer();
            self.spare.clear();
        }
    }

    /// Asks for the data of a command, which come as another [`Event::Command`].
    pub fn ask(&mut self, entry: [u8; ENTRY_BYTES], size: u32, out: &mut Vec<u8>) {
        let free = self.transfers.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.transfers.push(None);
            self.transfers.len() - 1
        });
        self.transfers[place] = Some(Transfer {
            entry,
            size,
            data: Vec::new(),
            is_damaged: false,
        });
        let ready = Pdu::Ready {
            command: command_of(&entry),
            // A queue has fewer commands than there are tags.
            tag: TransferTag(place as u16),
            offset: 0,
            size,
        };
        ready.write(self.framing, &[], out);
    }

    /// Takes bytes from the front of `input`, and says how many and what they were. Answers that
    /// are the connection's own go to `out`.
    pub fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        match self.phase {
            Phase::Start | Phase::Header => self.header(input, out),
            Phase::Data {
                owner,
                padding,
                left,
                sum,
                has_digest,
            } => {
                let skipped = padding.min(input.len());
                let taken = left.min(input.len() - skipped);
                let bytes = &input[skipped..skipped + taken];
                self.data_of(owner).extend_from_slice(bytes);
                let sum = match has_digest {
                    true => checksum::crc32c_append(sum, bytes),
                    false => 0,
                };
                let (padding, left) = (padding - skipped, left - taken);
                let event = if left > 0 {
                    self.phase = Phase::Data {
                        owner,
                        padding,
                        left,
                        sum,
                        has_digest,
                    };
                    Event::More
                } else if has_digest {
                    self.phase = Phase::Digest { owner, sum };
                    Event::Went
                } else {
                    self.whole(owner)
                };
                (skipped + taken, event)
            }
            Phase::Digest { owner, sum } => {
                let Some(told) = input.first_chunk::<DIGEST_BYTES>() else {
                    return (0, Event::More);
                };
                if u32::from_le_bytes(*told) != sum {
                    *self.damage_of(owner) = true;
                }
                (DIGEST_BYTES, self.whole(owner))
            }
            Phase::Over(end) => (0, Event::End(end)),
        }
    }

    /// Ends a connection whose host has broken the protocol with its last command.
    pub fn break_off(&mut self, breach: Breach, out: &mut Vec<u8>) {
        let header = [&self.head[..], &self.capsule.entry].concat();
        farewell(&breach, &header, out);
        self.over(End::Broken(breach));
    }

    fn over(&mut self, end: End) -> Event {
        self.transfers = Vec::new();
        self.capsule.data = Vec::new();
        self.phase = Phase::Over(end);
        Event::End(end)
    }

    fn header(&mut self, input: &[u8], out: &mut Vec<u8>) -> (usize, Event) {
        let Some(common) = input.first_chunk::<COMMON_BYTES>() else {
            return (0, Event::More);
        };
        let digests = match self.phase {
            Phase::Start => Digests::default(),
            _ => self.framing.digests,
        };
        let layout = match Head::read(common).layout(digests) {
            Ok(layout) => layout,
            Err(breach) => return (0, self.refuse(breach, common, out)),
        };
        let Some(front) = input.get(..layout.front()) else {
            return (0, Event::More);
        };
        let outcome = match layout.has_header_digest && !ends_in_digest(front) {
            true => Err(Breach::new(
                Fatal::HeaderDigest,
                0,
                "a header that is not what its digest says",
            )),
            false => self.pdu(&front[..layout.header], layout, out),
        };
        match outcome {
            Ok(event) => (layout.front(), event),
            Err(breach) => (0, self.refuse(breach, front, out)),
        }
    }

    #[cold]
    fn refuse(&mut self, breach: Breach, header: &[u8], out: &mut Vec<u8>) -> Event {
        farewell(&breach, header, out);
        self.over(End::Broken(breach))
    }

    fn pdu(&mut self, header: &[u8], layout: Layout, out: &mut Vec<u8>) -> Result<Event, Breach> {
        let pdu = Pdu::read(header)?;
        let is_start = matches!(self.phase, Phase::Start);
        match pdu {
            Pdu::HostEnds { status, .. } => Ok(self.over(End::Host { status })),
            Pdu::InitializeRequest {
                version,
                alignment,
                digests,
                ..
            } if is_start => {
                if version != 0 {
                    let what = "a version that there is not";
                    return Err(Breach::new(Fatal::Unsupported, 8, what));
                }
                if alignment > 31 {
                    let what = "an alignment above 128 bytes";
                    return Err(Breach::new(Fatal::Field, 10, what));
                }
                let response = Pdu::InitializeResponse {
                    version: 0,
                    alignment: 0,
                    digests,
                    most_data: MOST_HOST_DATA,
                };
                response.write(Framing::default(), &[], out);
                self.framing = Framing { digests, alignment };
                self.phase = Phase::Header;
                Ok(Event::Went)
            }
            Pdu::Command(entry) if !is_start => {
                self.head.copy_from_slice(&header[..COMMON_BYTES]);
                self.command(entry, layout)
            }
            Pdu::HostData {
                command,
                tag,
                offset,
                size,
                is_last,
            } if !is_start => self.transfer((command, tag), (offset, size), is_last, layout),
            _ => Err(Breach::new(
                Fatal::Sequence,
                0,
                "a PDU that may not come now",
            )),
        }
    }

    fn command(&mut self, entry: [u8; ENTRY_BYTES], layout: Layout) -> Result<Event, Breach> {
        if layout.data > MOST_IN_CAPSULE as usize {
            let what = "a capsule with more data than capsules have room for";
            return Err(Breach::new(Fatal::Limit, 4, what));
        }
        self.capsule.entry = entry;
        self.capsule.is_damaged = false;
        if layout.data == 0 {
            return Ok(self.whole(Owner::Capsule));
        }
        self.capsule.data = core::mem::take(&mut self.spare);
        self.expect(Owner::Capsule, layout);
        Ok(Event::Went)
    }

    fn expect(&mut self, owner: Owner, layout: Layout) {
        self.phase = Phase::Data {
            owner,
            padding: layout.padding,
            left: layout.data,
            sum: 0,
            has_digest: layout.has_data_digest,
        };
    }

    fn transfer(
        &mut self,
        (command, tag): (CommandId, TransferTag),
        (offset, size): (u32, u32),
        is_last: bool,
        layout: Layout,
    ) -> Result<Event, Breach> {
        let wrong = |status, field, what| Err(Breach::new(status, field, what));
        let place = usize::from(tag.0);
        let transfer = self.transfers.get(place).and_then(Option::as_ref);
        let Some(transfer) = transfer else {
            return wrong(Fatal::Field, 10, "data of a transfer that nobody asked for");
        };
        if command_of(&transfer.entry) != command {
            return wrong(
                Fatal::Field,
                8,
                "data of another command than was asked for",
            );
        }
        if size as usize != layout.data || size == 0 {
            return wrong(Fatal::Field, 16, "data of another length than the PDU has");
        }
        if size > MOST_HOST_DATA {
            return wrong(Fatal::Limit, 16, "more data than a PDU may have");
        }
        let have = transfer.data.len() as u32;
        if offset != have || size > transfer.size - have {
            return wrong(
                Fatal::Range,
                12,
                "data that are not the next of the transfer",
            );
        }
        if is_last != (have + size == transfer.size) {
            return wrong(
                Fatal::Field,
                1,
                "a last PDU that is not the last of the transfer",
            );
        }
        self.expect(Owner::Transfer(place), layout);
        Ok(Event::Went)
    }

    fn data_of(&mut self, owner: Owner) -> &mut Vec<u8> {
        match owner {
            Owner::Capsule => &mut self.capsule.data,
            Owner::Transfer(place) => &mut self.under_way(place).data,
        }
    }

    fn damage_of(&mut self, owner: Owner) -> &mut bool {
        match owner {
            Owner::Capsule => &mut self.capsule.is_damaged,
            Owner::Transfer(place) => &mut self.under_way(place).is_damaged,
        }
    }

    fn under_way(&mut self, place: usize) -> &mut Transfer {
        let transfer = self.transfers[place].as_mut();
        transfer.expect("only a transfer's own data end it")
    }

    /// The data of a PDU have come.
    fn whole(&mut self, owner: Owner) -> Event {
        self.phase = Phase::Header;
        match owner {
            Owner::Capsule => Event::Command(Capsule {
                entry: self.capsule.entry,
                data: core::mem::take(&mut self.capsule.data),
                was_asked_for: false,
                is_damaged: self.capsule.is_damaged,
            }),
            Owner::Transfer(place) => {
                let transfer = self.under_way(place);
                if (transfer.data.len() as u32) < transfer.size {
                    return Event::Went;
                }
                let transfer = self.transfers[place].take();
                let transfer = transfer.expect("it was there a line ago");
                Event::Command(Capsule {
                    entry: transfer.entry,
                    data: transfer.data,
                    was_asked_for: true,
                    is_damaged: transfer.is_damaged,
                })
            }
        }
    }
}

/// What a host calls a command.
pub(super) fn command_of(entry: &[u8; ENTRY_BYTES]) -> CommandId {
    CommandId(u16_at(entry, 2))
}
