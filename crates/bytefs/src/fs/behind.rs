//! What is written in order goes to the device while the program brings what comes next: else it
//! waits for all of it when it syncs.
//!
//! Only whole pieces go, and the last one stays: what a program is about to write again, as the
//! page in which its last write has ended, would go twice. Who writes here and there is left alone,
//! since a page that changes again before it is written back is written once.

use super::FileSystem;
use super::write_back::{How, PAGES};
use crate::layout::BLOCK;
use crate::state::node::Node;
use crate::{FsError, Ino};
use port::{Clock, Device};

/// Dirty pages of a file from which on some go: a piece, and the one that stays.
const FROM: usize = 2 * PAGES;

/// Pieces of a file that may go.
fn pieces(node: &Node) -> usize {
    let run = &node.written_in_order;
    let is_long = run.end - run.start >= (FROM * BLOCK) as u64;
    match is_long && node.dirty.len() >= FROM {
        true => node.dirty.len() / PAGES - 1,
        false => 0,
    }
}

impl<D: Device, C: Clock> FileSystem<D, C> {
    /// Whether [`FileSystem::write_behind`] would do something that nobody is doing.
    pub fn can_write_behind(&self, ino: Ino) -> bool {
        let state = self.state();
        let is_meant = state.superblock.personality.writes_behind() && !self.journals_data;
        let node = state.nodes.get(&ino).filter(|_| is_meant);
        node.is_some_and(|node| pieces(node) > 0 && !node.gate.is_closed())
    }

    /// Writes pages of a file back that is written in order, all but the last ones. Its owner calls
    /// it where a processor has nothing else to do.
    ///
    /// # Errors
    /// The device fails.
    pub async fn write_behind(&self, ino: Ino) -> Result<(), FsError> {
        if !self.can_write_behind(ino) {
            return Ok(());
        }
        let gate = {
            let state = self.state();
            state.nodes.get(&ino).map(|node| node.gate.clone())
        };
        // Who has it writes back as well.
        let Some(_passed) = gate.and_then(|gate| gate.try_pass()) else {
            return Ok(());
        };
        let count = self.state().nodes.get(&ino).map_or(0, pieces);
        for _ in 0..count {
            if !self.write_back_some(ino, How::Usual).await? {
                break;
            }
        }
        Ok(())
    }
}
