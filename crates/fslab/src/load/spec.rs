//! Loads as data: TOML, every key known, sizes and times with units.
//!
//! A load is sets of files and groups of threads that repeat a flow of steps (Filebench's
//! personalities), or requests to a store of keys (YCSB). What ships stands in `configs/loads`.

use super::draw::Size;
use super::error::LoadError;
use serde::Deserialize;
use units::{Bytes, Picos, Ratio};

/// A load as its file says it, at the size of the paper.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name in tables and figures.
    pub title: String,
    /// Rounds of the counted threads together, in the measured part; None: until a thread finds
    /// nothing left to do.
    pub rounds: Option<u64>,
    /// Rounds before it, which are not measured.
    #[serde(default)]
    pub warm_up: u64,
    /// Whether files that were made before are forgotten by the page cache before the run.
    #[serde(default)]
    pub cold: bool,
    /// Sets of files.
    #[serde(default)]
    pub files: Vec<FilesSpec>,
    /// Groups of threads.
    #[serde(default)]
    pub threads: Vec<ThreadsSpec>,
    /// A store of keys instead of both.
    pub store: Option<StoreSpec>,
}

/// A set of files, or of empty directories.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesSpec {
    /// What steps call it.
    pub name: String,
    /// How many there may be; divided by the scale.
    pub entries: u64,
    /// Fewest at any scale, so that threads do not wait for each other's files alone.
    #[serde(default = "least")]
    pub least: u64,
    /// Mean size of a file; none: the entries are directories.
    pub size: Option<Bytes>,
    /// Shape of the gamma distribution of sizes; none: all are of the mean size.
    pub shape: Option<Ratio>,
    /// Entries of a directory; directories too are in directories of so many.
    pub width: u64,
    /// The share that exists before the run.
    pub existing: Ratio,
}

/// Threads that do the same.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ThreadsSpec {
    /// For messages, and as the name of their random streams.
    pub name: String,
    /// How many.
    pub count: u32,
    /// Whether their rounds are counted; others go on until those end.
    #[serde(default = "yes")]
    pub counted: bool,
    /// What they do, again and again.
    pub steps: Vec<Step>,
}

fn least() -> u64 {
    256
}

fn yes() -> bool {
    true
}

/// A step of a flow, called as Filebench calls it. A thread has its open files in slots.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Makes and opens the next file that is not there.
    Create {
        /// Of which set.
        files: String,
        /// Where it is open then.
        #[serde(default)]
        slot: usize,
    },
    /// Opens the next file that is there.
    Open {
        /// Of which set.
        files: String,
        /// Where it is open then.
        #[serde(default)]
        slot: usize,
    },
    /// Closes a file.
    Close {
        /// Which.
        #[serde(default)]
        slot: usize,
    },
    /// Reads a file from its beginning to its end.
    ReadWhole {
        /// Which.
        #[serde(default)]
        slot: usize,
        /// Bytes of a request.
        io: Bytes,
    },
    /// Writes a file of the size that the set has for it.
    WriteWhole {
        /// Which.
        #[serde(default)]
        slot: usize,
        /// Bytes of a request.
        io: Bytes,
    },
    /// Writes 1 to `most` bytes, equally likely, behind the end of a file.
    Append {
        /// Which; it is opened first if it is not open.
        #[serde(default)]
        slot: usize,
        /// The set that it is opened from.
        files: Option<String>,
        /// Most bytes.
        most: Bytes,
    },
    /// Waits until a file survives a power cut.
    Fsync {
        /// Which.
        #[serde(default)]
        slot: usize,
    },
    /// Removes the next file that is there and that nobody has open.
    Delete {
        /// Of which set.
        files: String,
    },
    /// Looks at the attributes of the next file that is there.
    Stat {
        /// Of which set.
        files: String,
    },
    /// Makes the next directory that is not there.
    Mkdir {
        /// Of which set.
        files: String,
    },
    /// Removes the next directory that is there.
    Rmdir {
        /// Of which set.
        files: String,
    },
    /// Reads `io` bytes at a multiple of that, each equally likely, of the next file.
    ReadRandom {
        /// Of which set; its files are open all the time.
        files: String,
        /// Bytes.
        io: Bytes,
    },
    /// Writes as [`Step::ReadRandom`] reads.
    WriteRandom {
        /// Of which set; its files are open all the time.
        files: String,
        /// Bytes of a request.
        io: Bytes,
        /// Requests, each of the next file.
        #[serde(default = "one")]
        times: u32,
        /// Of them under way at a time.
        #[serde(default = "one")]
        depth: u32,
        /// Whether each is answered when it survives a power cut (`O_DSYNC`).
        #[serde(default)]
        dsync: bool,
    },
    /// Keeps a processor busy.
    Compute {
        /// How long.
        span: Picos,
    },
    /// Waits for posts, each thread for its own.
    Wait {
        /// What posts call it.
        name: String,
        /// How many.
        posts: u64,
        /// Posts that may come beyond those that are waited for.
        room: u64,
    },
    /// Posts to each thread that waits by a name; waits while one has no room.
    Post {
        /// Which.
        to: String,
    },
}

fn one() -> u32 {
    1
}

/// A store of keys and what is asked of it (YCSB).
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreSpec {
    /// Keys that are there before; divided by the scale.
    pub records: u64,
    /// Requests; divided by the scale.
    pub requests: u64,
    /// Requests before, which are not measured; divided by the scale.
    #[serde(default)]
    pub warm_up: u64,
    /// Threads that ask.
    pub threads: u32,
    /// Bytes of a value.
    pub value: Bytes,
    /// Share of reads.
    pub read: Ratio,
    /// Share of updates: a get, then a put.
    pub update: Ratio,
    /// Share of inserts of new keys.
    pub insert: Ratio,
    /// Share of scans.
    pub scan: Ratio,
    /// Share of reads each followed by a write of what was read.
    pub read_modify_write: Ratio,
    /// Most records of a scan; each number from 1 is equally likely.
    pub scan_most: u32,
    /// Which keys are asked for.
    pub distribution: Distribution,
    /// Exponent of the Zipf distribution in thousandths.
    pub theta_milli: u32,
    /// Time of a processor that a request of the store takes.
    pub compute: Picos,
    /// Whether a write is answered when it survives a power cut.
    pub sync: bool,
    /// Bytes of a table in memory before it is written; divided by the scale.
    pub memtable: Bytes,
    /// Bytes of a table on the device; divided by the scale.
    pub table: Bytes,
    /// Bytes of level 1; divided by the scale. Each further level is ten times as large.
    pub level: Bytes,
    /// Tables of level 0 at which they are merged into level 1.
    pub merge_at: u32,
    /// Tables of level 0 at which writes wait.
    pub stop_at: u32,
}

/// Which keys are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Zipf's law, popular ones anywhere.
    Zipfian,
    /// Zipf's law, the newest most popular.
    Latest,
    /// Each equally likely.
    Uniform,
}

impl Load {
    /// Reads and checks a load.
    ///
    /// # Errors
    /// It is not TOML; a key is unknown or missing; a value cannot be.
    pub fn parse(file: &str, text: &str) -> Result<Self, LoadError> {
        let wrong = |problem: String| LoadError::Text {
            file: file.to_owned(),
            problem,
        };
        let load: Self = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = text[..at.min(text.len())].matches('\n').count() + 1;
            let message = error.message().trim().replace('\n', ", ");
            wrong(format!("line {line}: {message}"))
        })?;
        match load.problem() {
            Some(problem) => Err(wrong(problem)),
            None => Ok(load),
        }
    }

    /// The first thing that is wrong with it.
    pub(super) fn problem(&self) -> Option<String> {
        if self.store.is_some() != self.threads.is_empty() {
            return Some("a load has either threads or a store; write one of them".to_owned());
        }
        if let Some(store) = &self.store {
            return store.problem();
        }
        let of_files = self.files.iter().find_map(FilesSpec::problem);
        of_files
            .or_else(|| {
                self.threads
                    .iter()
                    .find_map(|threads| self.wrong_of(threads))
            })
            .or_else(|| {
                let is_counted = self.threads.iter().any(|threads| threads.counted);
                (!is_counted).then(|| "no thread is counted, so it would never end".to_owned())
            })
    }

    fn wrong_of(&self, threads: &ThreadsSpec) -> Option<String> {
        let name = &threads.name;
        if !(1..=4096).contains(&threads.count) {
            return Some(format!("threads {name}: count must be 1 to 4096"));
        }
        if threads.steps.is_empty() {
            return Some(format!("threads {name}: there are no steps; write some"));
        }
        threads.steps.iter().find_map(|step| {
            let problem = self.wrong_step(step)?;
            Some(format!("threads {name}: {problem}"))
        })
    }

    fn wrong_step(&self, step: &Step) -> Option<String> {
        if let Some((set, wants_directories)) = step.set() {
            let Some(files) = self.files.iter().find(|files| files.name == *set) else {
                let names: Vec<&str> = self.files.iter().map(|files| &files.name[..]).collect();
                let names = names.join(", ");
                return Some(format!("there are no files {set}; there are {names}"));
            };
            if files.size.is_none() != wants_directories {
                let are = if files.size.is_none() {
                    "directories"
                } else {
                    "files"
                };
                return Some(format!("the step is not for {set}, which are {are}"));
            }
        }
        match step {
            Step::Create { slot, .. }
            | Step::Open { slot, .. }
            | Step::Close { slot }
            | Step::ReadWhole { slot, .. }
            | Step::WriteWhole { slot, .. }
            | Step::Append { slot, .. }
            | Step::Fsync { slot }
                if *slot >= SLOTS =>
            {
                Some(format!("slot is {slot}; it must be below {SLOTS}"))
            }
            Step::ReadWhole { io, .. }
            | Step::WriteWhole { io, .. }
            | Step::Append { most: io, .. }
            | Step::ReadRandom { io, .. }
            | Step::WriteRandom { io, .. }
                if io.is_zero() || io.get() > 1 << 30 =>
            {
                Some(format!("a request of {io}; it must be 1B to 1GiB"))
            }
            Step::WriteRandom { times, depth, .. } if *times == 0 || *depth == 0 => {
                Some("times and depth must be at least 1".to_owned())
            }
            Step::Post { to } => {
                let waits = |step: &Step| matches!(step, Step::Wait { name, .. } if name == to);
                let mut steps = self.threads.iter().flat_map(|threads| &threads.steps);
                (!steps.any(waits)).then(|| format!("nobody waits for posts to {to}"))
            }
            _ => None,
        }
    }
}

/// Files that a thread may have open.
pub(crate) const SLOTS: usize = 8;

impl Step {
    /// The set that it is about, and whether that must be one of directories.
    fn set(&self) -> Option<(&String, bool)> {
        match self {
            Self::Create { files, .. }
            | Self::Open { files, .. }
            | Self::Delete { files }
            | Self::Stat { files }
            | Self::ReadRandom { files, .. }
            | Self::WriteRandom { files, .. } => Some((files, false)),
            Self::Append { files, .. } => files.as_ref().map(|files| (files, false)),
            Self::Mkdir { files } | Self::Rmdir { files } => Some((files, true)),
            _ => None,
        }
    }
}

impl FilesSpec {
    fn problem(&self) -> Option<String> {
        let name = &self.name;
        if !(1..=1 << 26).contains(&self.entries) {
            return Some(format!("files {name}: entries must be 1 to 67108864"));
        }
        if self.width < 2 {
            return Some(format!("files {name}: width must be at least 2"));
        }
        if !self.existing.is_at_most_one() {
            return Some(format!("files {name}: existing is more than all of them"));
        }
        if self
            .size
            .is_some_and(|size| Size::new(size, self.shape).is_none())
        {
            return Some(format!(
                "files {name}: shape must be a multiple of 1/2 up to 32"
            ));
        }
        None
    }
}

impl StoreSpec {
    fn problem(&self) -> Option<String> {
        let shares = [
            self.read,
            self.update,
            self.insert,
            self.scan,
            self.read_modify_write,
        ];
        let sum: u64 = shares.iter().map(|share| share.of(10_000)).sum();
        if sum != 10_000 {
            return Some(format!(
                "the shares of the store's requests make {}.{:02}%; they must make 100%",
                sum / 100,
                sum % 100
            ));
        }
        if self.theta_milli == 1000 || self.theta_milli > 3000 {
            return Some("theta_milli must be 0 to 3000 and not 1000".to_owned());
        }
        if !(1..=4096).contains(&self.threads) {
            return Some("store.threads must be 1 to 4096".to_owned());
        }
        if !(8..=1 << 20).contains(&self.value.get()) {
            return Some("store.value must be 8B to 1MiB".to_owned());
        }
        if self.scan_most == 0 || self.records == 0 {
            return Some("scan_most and records must be at least 1".to_owned());
        }
        if self.merge_at < 1 || self.stop_at <= self.merge_at {
            return Some("merge_at must be at least 1, and stop_at larger".to_owned());
        }
        None
    }
}

/// A load that ships with Entresol.
#[derive(Clone, Copy, Debug)]
pub struct Shipped {
    /// Its name on the command line.
    pub name: &'static str,
    text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(Shipped {
            name: $name,
            text: include_str!(concat!("../../../../configs/loads/", $name, ".toml")),
        }),*]
    };
}

/// All of them, in the order of Table 5 of ByteFS.
pub const LOADS: &[Shipped] = shipped![
    "create",
    "delete",
    "mkdir",
    "rmdir",
    "varmail",
    "fileserver",
    "webproxy",
    "webserver",
    "oltp",
    "ycsb-a",
    "ycsb-b",
    "ycsb-c",
    "ycsb-d",
    "ycsb-e",
    "ycsb-f",
];

impl Shipped {
    /// The load.
    ///
    /// # Errors
    /// None, as a test shows.
    pub fn load(&self) -> Result<Load, LoadError> {
        self.load_with(&[])
    }

    /// The load with values over its own, as [`Load::parse_with`].
    ///
    /// # Errors
    /// There is no place for a value.
    pub fn load_with(&self, sets: &[&str]) -> Result<Load, LoadError> {
        Load::parse_with(
            &format!("configs/loads/{}.toml", self.name),
            self.text,
            sets,
        )
    }

    /// The comment at the top of its file: what it is, and where its values are from.
    pub fn about(&self) -> String {
        let lines = self.text.lines().take_while(|line| line.starts_with('#'));
        let words: Vec<&str> = lines
            .map(|line| line.trim_start_matches(['#', ' ']))
            .collect();
        words.join(" ")
    }
}

/// The shipped load of a name.
///
/// # Errors
/// There is none.
pub fn shipped(name: &str) -> Result<&'static Shipped, LoadError> {
    let found = LOADS.iter().find(|load| load.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = LOADS.iter().map(|load| load.name).collect();
        LoadError::Unknown {
            name: name.to_owned(),
            nearest: settings::nearest(name, &names).to_owned(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(text: &str) -> String {
        Load::parse("my.toml", text).unwrap_err().to_string()
    }

    const FILES: &str = "title = \"a\"\nrounds = 3\n[[files]]\nname = \"mail\"\nentries = 10\n\
                         size = \"4KiB\"\nwidth = 20\nexisting = \"50%\"\n";

    fn with_step(step: &str) -> String {
        problem(&format!(
            "{FILES}[[threads]]\nname = \"t\"\ncount = 1\nsteps = [{{ {step} }}]"
        ))
    }

    #[test]
    fn every_shipped_load_is_one() {
        for shipped in LOADS {
            let load = shipped.load().unwrap();
            assert!(
                !load.title.is_empty() && shipped.about().len() > 40,
                "{}",
                shipped.name
            );
        }
        let unknown = super::shipped("varmial").unwrap_err().to_string();
        assert_eq!(unknown, "there is no load varmial; did you mean varmail?");
    }

    #[test]
    fn what_is_wrong_is_one_sentence_with_its_place() {
        for (found, part) in [
            (problem("title = 3"), "my.toml: line 1: "),
            (problem("colour = \"red\""), "unknown field `colour`"),
            (problem("title = \"a\""), "either threads or a store"),
            (with_step("do = \"fly\""), "unknown variant `fly`"),
            (
                with_step("do = \"close\", slot = 9"),
                "slot is 9; it must be below 8",
            ),
            (
                with_step("do = \"close\", colour = 9"),
                "unknown field `colour`",
            ),
            (
                with_step("do = \"open\", files = \"male\""),
                "there are no files male; there are mail",
            ),
            (
                with_step("do = \"mkdir\", files = \"mail\""),
                "not for mail, which are files",
            ),
            (
                with_step("do = \"post\", to = \"x\""),
                "nobody waits for posts to x",
            ),
            (with_step("do = \"append\", most = \"16\""), "\"16\" is not"),
            (
                with_step("do = \"read_whole\", io = \"0B\""),
                "it must be 1B to 1GiB",
            ),
        ] {
            assert!(found.contains(part), "{found}");
            assert!(!found.contains('\n'), "{found}");
        }
        let shape = FILES.replace("width", "shape = \"1/3\"\nwidth");
        let steps = "[[threads]]\nname = \"t\"\ncount = 1\nsteps = [{ do = \"close\" }]";
        assert!(problem(&format!("{shape}{steps}")).contains("multiple of 1/2"));
    }
}
