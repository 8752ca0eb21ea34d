//! A sequence as a text that says everything: file system, bug, operations.

use crate::crash::ace::Sequence;
use crate::crash::bug::Bug;
use crate::crash::lab::{Finding, Lab, Options, Protection, Tally, device_of};
use crate::crash::op::Op;
use bytefs::{DataMode, Personality};
use dax::PolicyKind;
use std::fmt;
use std::str::FromStr;

/// The first line.
const HEAD: &str = "entresol file system crash script 1";

/// A sequence, and what it runs on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Script {
    /// The file system.
    pub personality: Personality,
    /// How it is mounted.
    pub data: DataMode,
    /// Who decides what is in persistent memory, if it is used.
    pub dax: Option<PolicyKind>,
    /// What of the device survives a power cut.
    pub protection: Protection,
    /// Operations may be refused for want of room.
    pub may_lack_room: bool,
    /// The bug that is planted, if one is.
    pub bug: Option<Bug>,
    /// The operations.
    pub sequence: Sequence,
}

/// Why a text is no script.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum NoScript {
    /// Another first line.
    #[error("the first line is not `{HEAD}`")]
    Head,
    /// A file system that there is not.
    #[error("`{0}` is no personality; there are {all}", all = names())]
    Personality(String),
    /// A mode that there is not.
    #[error("{0}")]
    Data(String),
    /// A policy that there is not.
    #[error(
        "`{0}` is no policy of persistent memory; there are ratio, predict, adaptive, explicit, \
         always"
    )]
    Dax(String),
    /// Something that survives a power cut that there is not.
    #[error("`{0}` is no protection that scripts can ask for; there are blocks and log")]
    Protection(String),
    /// A bug that there is not.
    #[error("`{0}` is no bug; docs/formats/fs-crash-script.md says what bugs there are")]
    Bug(String),
    /// An operation that there is not.
    #[error(transparent)]
    Operation(#[from] crate::crash::op::NoOperation),
    /// Too many.
    #[error("it has {0} operations behind its setup; at most 63 are judged")]
    TooMany(usize),
    /// A mount where none can be.
    #[error("`{0}` stands behind the line ---; a file system is mounted anew in the setup only")]
    Mount(Op),
    /// Nothing to judge.
    #[error("it has no operation behind the line ---")]
    Empty,
}

fn names() -> String {
    Personality::ALL.map(|one| one.to_string()).join(", ")
}

impl Script {
    /// Does the sequence, and cuts the power everywhere.
    ///
    /// # Errors
    /// The device or the file system cannot be made.
    pub fn run(&self, tally: &mut Tally) -> Result<Result<(), Finding>, String> {
        let device = device_of(self.personality, self.dax.is_some(), self.protection);
        let device = device.map_err(|error| error.to_string())?;
        let options = Options {
            data: self.data,
            dax: self.dax,
            safe_log: self.protection == Protection::Log,
            may_lack_room: self.may_lack_room,
            bug: self.bug,
            ..Options::FULL
        };
        let lab = Lab::new(&device, self.personality, options)?;
        Ok(lab.run(&self.sequence, tally))
    }
}

impl FromStr for Script {
    type Err = NoScript;

    fn from_str(text: &str) -> Result<Self, NoScript> {
        let mut rest = text.strip_prefix(HEAD).ok_or(NoScript::Head)?;
        rest = rest.strip_prefix('\n').ok_or(NoScript::Head)?;
        let (mut personality, mut data) = (Personality::ByteFs, DataMode::Ordered);
        let (mut dax, mut bug) = (None, None);
        let (mut protection, mut may_lack_room) = (Protection::Usual, false);
        while let Some((line, behind)) = rest.split_once('\n') {
            if let Some(name) = line.strip_prefix("personality ") {
                let none = |_| NoScript::Personality(name.to_owned());
                personality = name.parse().map_err(none)?;
            } else if let Some(name) = line.strip_prefix("data ") {
                data = name.parse().map_err(NoScript::Data)?;
            } else if let Some(name) = line.strip_prefix("dax ") {
                let none = |()| NoScript::Dax(name.to_owned());
                dax = Some(name.parse().map_err(none)?);
            } else if line == "full" {
                may_lack_room = true;
            } else if let Some(name) = line.strip_prefix("protection ") {
                let none = |()| NoScript::Protection(name.to_owned());
                protection = name.parse().map_err(none)?;
            } else if let Some(name) = line.strip_prefix("bug ") {
                let named = Bug::all()
                    .into_iter()
                    .find(|bug| format!("{bug:?}") == name);
                bug = Some(named.ok_or_else(|| NoScript::Bug(name.to_owned()))?);
            } else if !line.trim().is_empty() && !line.starts_with('#') {
                break;
            }
            rest = behind;
        }
        let sequence = Sequence::parse(rest)?;
        let beside = sequence.beside.iter().flat_map(|beside| &beside.ops);
        let mut judged = sequence.ops.iter().chain(beside);
        let count = judged.clone().count();
        if let Some(op) = judged.find(|op| matches!(op, Op::Remount | Op::Recover)) {
            return Err(NoScript::Mount(op.clone()));
        }
        match count {
            0 => Err(NoScript::Empty),
            64.. => Err(NoScript::TooMany(count)),
            _ => Ok(Self {
                personality,
                data,
                dax,
                protection,
                may_lack_room,
                bug,
                sequence,
            }),
        }
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}\npersonality {}", self.personality)?;
        if self.data != DataMode::Ordered {
            writeln!(f, "data {}", self.data.name())?;
        }
        if let Some(dax) = self.dax {
            writeln!(f, "dax {dax}")?;
        }
        if self.protection != Protection::Usual {
            writeln!(f, "protection {}", self.protection.name())?;
        }
        if self.may_lack_room {
            writeln!(f, "full")?;
        }
        if let Some(bug) = self.bug {
            writeln!(f, "bug {bug:?}")?;
        }
        write!(f, "{}", self.sequence)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "entresol file system crash script 1\npersonality ext4-like\n\
                        bug Early(Inodes)\nmkdir A\n---\ncreate A/foo\nfsync A/foo\n\
                        --- beside, behind 3000 ns\nsync\n";

    #[test]
    fn what_is_printed_is_read() {
        let script: Script = TEXT.parse().unwrap();
        assert_eq!(script.personality, Personality::Ext4Like);
        assert_eq!(script.to_string(), TEXT);
        let full = Script {
            protection: Protection::Blocks,
            may_lack_room: true,
            ..script.clone()
        };
        assert_eq!(full.to_string().parse(), Ok(full));
        for kind in PolicyKind::ALL {
            for protection in [Protection::Usual, Protection::Log] {
                let script = Script {
                    dax: Some(kind),
                    protection,
                    ..script.clone()
                };
                assert_eq!(script.to_string().parse(), Ok(script));
            }
        }
        for bug in Bug::all() {
            let data = match bug.is_of_journaled_data() {
                true => DataMode::Journal,
                false => DataMode::Ordered,
            };
            let script = Script {
                data,
                bug: Some(bug),
                ..script.clone()
            };
            assert_eq!(script.to_string().parse(), Ok(script));
        }
    }

    #[test]
    fn what_is_no_script_is_refused_with_the_reason() {
        let refused = |text: &str, why: &str| {
            let error = text.parse::<Script>().unwrap_err().to_string();
            assert!(error.contains(why), "{text}: {error}");
        };
        refused("", "first line");
        refused(&TEXT.replace("script 1", "script 2"), "first line");
        refused(&TEXT.replace("ext4-like", "fat"), "`fat` is no personality");
        refused(
            &TEXT.replace("bug", "data whole\nbug"),
            "data=whole is none",
        );
        refused(&TEXT.replace("bug", "dax best\nbug"), "`best` is no policy");
        let all = TEXT.replace("bug", "protection all\nbug");
        refused(&all, "`all` is no protection");
        refused(&TEXT.replace("Early(Inodes)", "Early"), "`Early` is no bug");
        refused(&TEXT.replace("create", "crate"), "`crate A/foo`");
        refused(&TEXT.replace("3000 ns", "soon"), "behind soon");
        let many = "sync\n".repeat(64);
        refused(&TEXT.replace("create A/foo\n", &many), "66 operations");
        refused(
            &TEXT.replace("fsync A/foo", "remount"),
            "`remount` stands behind",
        );
        let (head, _) = TEXT.split_once("---").unwrap();
        refused(&format!("{head}---\n"), "no operation");
    }
}
