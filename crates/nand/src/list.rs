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
    /// Of a read: how often it is read again, and whether in vain.
    pub retries: u32,
    pub is_lost: bool,
    /// The next in the die's list, or in the free list.
    next: u32,
}

/// The commands in flight. Slots are reused, so nothing is allocated once the slab has grown to
/// the largest number of commands that are in flight together.
#[derive(Clone, Debug)]
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
    #[inline]
    pub fn insert(&mut self, command: Command, submitted: Time) -> OpId {
        let op = Op {
            command,
            submitted,
            started: submitted,
            channel_wait: Picos::ZERO,
            suspended: Picos::ZERO,
            retries: 0,
            is_lost: false,
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
    /// Frees a command's slot.
    #[inline]
    pub fn remove(&mut self, id: OpId) -> &Op {
        self.live_count -= 1;
        let next = core::mem::replace(&mut self.free, id.0);
        let op = &mut self[id];
        op.next = next;
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

    /// Appends a command that has been in no list since it was inserted.
    #[inline]
    pub fn push(&mut self, slab: &mut Slab, id: OpId) {
        if self.head == NIL {
            self.head = id.0;
        } else {
            slab[OpId(self.tail)].next = id.0;
        }
        self.tail = id.0;
    }
    pub const fn is_empty(&self) -> bool {
        self.head == NIL
    }
    #[inline]
    pub fn pop(&mut self, slab: &Slab) -> Option<OpId> {
        if self.head == NIL {
            return None;
        }
        let id = OpId(self.head);
        self.head = slab[id].next;
        Some(id)
    }
    /// The commands of the list, first to last.
    pub fn iter(self, slab: &Slab) -> impl Iterator<Item = OpId> + '_ {
        let first = (self.head != NIL).then_some(OpId(self.head));
        core::iter::successors(first, |id| {
            let next = slab[*id].next;
            (next != NIL).then_some(OpId(next))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Operation;
    use units::Ppa;

    fn command(tag: u32) -> Command {
        Command {
            tag,
            operation: Operation::Read(Ppa::new(0)),
        }
    }

    #[test]
    fn a_list_gives_commands_in_order_and_slots_are_reused() {
        let mut slab = Slab::new();
        let mut list = List::EMPTY;
        for round in 0..100 {
            for tag in 0..3 {
                let id = slab.insert(command(round + tag), Time::ZERO);
                list.push(&mut slab, id);
            }
            assert_eq!(list.iter(&slab).count(), 3);
            for tag in 0..3 {
                let id = list.pop(&slab).expect("three were pushed");
                assert_eq!(slab.remove(id).command.tag, round + tag);
            }
            assert!(list.pop(&slab).is_none());
        }
        assert_eq!(slab.capacity(), 3);
        assert_eq!(slab.live_count(), 0);
    }
}
