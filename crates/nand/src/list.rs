//! Commands in flight: a slab, and FIFO lists threaded through it.

use crate::Command;
use units::{Picos, Time};

/// No slot.
const NIL: u32 = u32::MAX;

/// A slot of the slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpId(u32);

/// A command in flight.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub command: Command,
    pub submitted: Time,
    /// When the die took it up; meaningless before.
    pub started: Time,
    pub channel_wait: Picos,
    pub suspended: Picos,
    /// The next in the die's list, or in the free list.
    next: u32,
}

/// The commands in flight. Slots are reused, so nothing is allocated once the slab has grown to
/// the largest number of commands that are in flight together.
#[derive(Debug)]
pub(crate) struct Slab {
    ops: Vec<Op>,
    free: u32,
    live_count: u64,
}

impl Slab {
    pub fn new() -> Self {
        Self {
            ops: Vec::new(),
            free: NIL,
            live_count: 0,
        }
    }
    pub fn insert(&mut self, command: Command, submitted: Time) -> OpId {
        let op = Op {
            command,
            submitted,
            started: submitted,
            channel_wait: Picos::ZERO,
            suspended: Picos::ZERO,
            next: NIL,
        };
        self.live_count += 1;
        if self.free == NIL {
            self.ops.push(op);
            return OpId(u32::try_from(self.ops.len() - 1).expect("a slab index fits in 32 bits"));
        }
        let id = OpId(self.free);
        self.free = self[id].next;
        self[id] = op;
        id
    }
    pub fn remove(&mut self, id: OpId) -> Op {
        let op = self[id];
        self[id].next = self.free;
        self.free = id.0;
        self.live_count -= 1;
        op
    }
    pub fn live_count(&self) -> u64 {
        self.live_count
    }
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.ops.len()
    }
}

impl core::ops::Index<OpId> for Slab {
    type Output = Op;
    #[inline]
    fn index(&self, id: OpId) -> &Op {
        &self.ops[id.0 as usize]
    }
}
impl core::ops::IndexMut<OpId> for Slab {
    #[inline]
    fn index_mut(&mut self, id: OpId) -> &mut Op {
        &mut self.ops[id.0 as usize]
    }
}

/// A FIFO list of commands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
}

impl List {
    pub const EMPTY: Self = Self {
        head: NIL,
        tail: NIL,
    };

    pub fn push(&mut self, slab: &mut Slab, id: OpId) {
        slab[id].next = NIL;
        if self.head == NIL {
            self.head = id.0;
        } else {
            slab[OpId(self.tail)].next = id.0;
        }
        self.tail = id.0;
    }
    pub fn pop(&mut self, slab: &Slab) -> Option<OpId> {
        if self.head == NIL {
            return None;
        }
        let id = OpId(self.head);
        self.head = slab[id].next;
        Some(id)
    }
    /// Number of commands in the list, by walking it.
    pub fn count(&self, slab: &Slab) -> u64 {
        let mut count = 0;
        let mut at = self.head;
        while at != NIL {
            count += 1;
            at = slab[OpId(at)].next;
        }
        count
    }
}
