//! From MacSim's records to a capture.

use super::opcode::{self, Kind};
use super::record::{BYTES, Record, STATIC_BYTES};
use super::{KIND, LIST, TAIL, TAIL_CODE, VERSION};
use crate::assembler::{Assembler, Known};
use crate::dictionary::AccessKind;
use crate::foreign::pinatrace::Numbers;
use crate::foreign::{ForeignError, ImportOptions, Notes, Reader, Source, new_thread, pin};
use crate::inst::{Inst, OpClass};
use crate::writer::Operand;
use hashbrown::HashMap;
use rustc_hash::FxBuildHasher;
use units::ThreadId;

/// Bytes of an access whose size the record cannot hold: it was cut to eight bits and is 0.
const WHOLE_LINE: u8 = 64;

/// Whether `source` is a directory with a list of threads, or such a list.
pub(in crate::foreign) fn recognise(source: &Source<'_>, head: &[u8]) -> bool {
    let list = if source.is_directory() {
        source.join(LIST).head(64)
    } else {
        head.to_vec()
    };
    let text = String::from_utf8_lossy(&list);
    let mut words = text.split_ascii_whitespace();
    words.next() == Some(KIND) && words.next().is_some_and(|word| word.starts_with("1."))
}

/// A thread of the list: its file, and when it starts.
struct Listed {
    /// Its number in the list.
    number: u64,
    file: Source<'static>,
    /// Instructions of the first thread before; 0 from the start.
    start: u64,
}

/// Reads a directory with its list, a list, or the records of one thread.
pub(in crate::foreign) fn import(
    source: &Source<'_>,
    _options: &ImportOptions,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    let mut state = Import::new(out);
    if source.is_directory() || recognise(source, &source.head(64)) {
        state.listed(source, &Numbers::new())?;
    } else {
        let id = state.out.thread();
        state.thread(&mut source.open()?, id, Vec::new())?;
    }
    Ok(state.notes())
}

/// Reads a directory with its list, or a list, behind what threads of these numbers did before,
/// which therefore run already.
pub(in crate::foreign) fn import_behind(
    source: &Source<'_>,
    running: &Numbers,
    out: &mut Assembler,
) -> Result<Notes, ForeignError> {
    let mut state = Import::new(out);
    state.listed(source, running)?;
    Ok(state.notes())
}
/// Reads the list of threads of a directory, or the list itself.
fn read_list(source: &Source<'_>) -> Result<Vec<Listed>, ForeignError> {
    let list = if source.is_directory() {
        source.join(LIST)
    } else {
        source.clone()
    };
    let mut reader = list.open()?;
    let mut words = Vec::new();
    while let Some(line) = reader.line()? {
        let line: Vec<_> = line.split_ascii_whitespace().map(str::to_string).collect();
        words.extend(line);
    }
    let expected = "is not `x86 1.3`, the number of threads, and a number and a start for each";
    let wrong = |what: &str| list.fail(format!("{expected}: {what}"));
    let mut words = words.iter();
    let mut next = |what: &str| {
        words
            .next()
            .ok_or_else(|| wrong(&format!("{what} is missing")))
    };
    if next("the kind")? != KIND {
        return Err(wrong("it begins otherwise"));
    }
    let version = next("the version")?;
    if version != VERSION {
        return Err(wrong(&format!("the version is {version}")));
    }
    let mut number = |what: &str| {
        let word = next(what)?;
        word.parse::<u64>()
            .map_err(|_| wrong(&format!("{what} is `{word}`")))
    };
    let threads = number("the number of threads")?;
    let mut listed = Vec::new();
    let stem = list
        .file_name()
        .strip_suffix(".txt")
        .unwrap_or(list.file_name())
        .to_string();
    let directory = list
        .as_path()
        .and_then(|path| path.parent())
        .unwrap_or(std::path::Path::new(""));
    for n in 0..threads {
        let id = number(&format!("the number of thread {n}"))?;
        let start = number(&format!("the start of thread {n}"))?;
        let file = Source::path(&directory.join(format!("{stem}_{id}.raw")));
        listed.push(Listed {
            number: id,
            file,
            start,
        });
    }
    if listed.is_empty() {
        return Err(wrong("it lists no thread"));
    }
    Ok(listed)
}

/// What an import has seen so far.
struct Import<'a> {
    out: &'a mut Assembler,
    /// The instruction that each (static part, address) stands for.
    known: HashMap<([u8; STATIC_BYTES], u64), Known, FxBuildHasher>,
    /// Made up where a thread starts and the first one makes no system call.
    made_up_calls: u64,
    /// Accesses whose size was cut to zero.
    sizeless: u64,
    /// Static instructions with more registers than a capture names.
    crowded: u64,
    /// Conditional branches whose outcome the next instruction contradicts.
    contradicted: u64,
}

impl<'a> Import<'a> {
    fn new(out: &'a mut Assembler) -> Self {
        Self {
            out,
            known: HashMap::default(),
            made_up_calls: 0,
            sizeless: 0,
            crowded: 0,
            contradicted: 0,
        }
    }
    /// Reads the threads of a list. Those whose numbers are `running` are there and started.
    fn listed(&mut self, source: &Source<'_>, running: &Numbers) -> Result<(), ForeignError> {
        let listed = read_list(source)?;
        let mut ids = Vec::with_capacity(listed.len());
        let mut starts = Vec::new();
        for (n, thread) in listed.iter().enumerate() {
            if let Some(id) = running.get(&thread.number) {
                ids.push(*id);
                continue;
            }
            let id = new_thread(self.out).map_err(|problem| source.fail(problem))?;
            ids.push(id);
            if n > 0 && thread.start > 0 {
                starts.push((thread.start, id));
            }
        }
        starts.sort_by_key(|(start, id)| (std::cmp::Reverse(*start), std::cmp::Reverse(*id)));
        for (thread, id) in listed.iter().zip(ids) {
            let children = std::mem::take(&mut starts);
            self.thread(&mut thread.file.open()?, id, children)?;
        }
        Ok(())
    }

    /// Reads one thread, which starts `children`, the first at the end of the list.
    fn thread(
        &mut self,
        reader: &mut Reader<'_>,
        thread: ThreadId,
        mut children: Vec<(u64, ThreadId)>,
    ) -> Result<(), ForeignError> {
        let mut branch: Option<(u64, bool)> = None;
        let mut last_pc = 0;
        while let Some(bytes) = reader.record::<BYTES>()? {
            let record = Record::from_bytes(&bytes).map_err(|problem| reader.fail(problem))?;
            if record.opcode >= opcode::COUNT {
                let problem = format!(
                    "has opcode class {}, and {} is the last",
                    record.opcode,
                    opcode::COUNT - 1
                );
                return Err(reader.fail(problem));
            }
            if is_quiet(&record) {
                branch = None;
                continue;
            }
            if let Some((fallthrough, taken)) = branch {
                self.contradicted += u64::from((record.pc != fallthrough) != taken);
            }
            let known = self.instruction(&bytes, &record);
            let inst = self.out.inst(known);
            let conditional = inst.class == OpClass::CondBranch;
            branch = conditional.then(|| (inst.fallthrough(), record.taken));
            last_pc = inst.fallthrough();
            self.execute(thread, known, &record, reader.records(), &mut children);
        }
        // What starts after the first thread's end starts at its end.
        while let Some((_, child)) = children.pop() {
            self.make_up_create(thread, last_pc, child);
        }
        Ok(())
    }

    /// Executes record number `count` of the thread, and starts the children that are due.
    fn execute(
        &mut self,
        thread: ThreadId,
        known: Known,
        record: &Record,
        count: u64,
        children: &mut Vec<(u64, ThreadId)>,
    ) {
        let syscall = self.out.inst(known).class == OpClass::Syscall;
        let mut done = false;
        while let Some((_, child)) = children.pop_if(|(start, _)| *start <= count) {
            if syscall && !done {
                self.out.create(thread, known, child);
                done = true;
            } else {
                if !done {
                    self.plain(thread, known, record);
                    done = true;
                }
                let pc = self.out.inst(known).fallthrough();
                self.make_up_create(thread, pc, child);
            }
        }
        if !done {
            self.plain(thread, known, record);
        }
    }

    fn plain(&mut self, thread: ThreadId, known: Known, record: &Record) {
        let mut accesses = [(AccessKind::Load, (0, 0)); 3];
        let count = self.accesses(record, &mut accesses);
        self.out.execute(thread, known, &accesses[..count]);
    }

    fn make_up_create(&mut self, thread: ThreadId, pc: u64, child: ThreadId) {
        let call = Inst::new(OpClass::Syscall, pc, 2);
        let call = self.out.intern(call, "syscall");
        self.out.create(thread, call, child);
        self.made_up_calls += 1;
    }

    /// The accesses of a record; a load and a store of the same bytes are an update.
    fn accesses(&mut self, record: &Record, out: &mut [(AccessKind, Operand); 3]) -> usize {
        let mut size = |bytes: u8| {
            self.sizeless += u64::from(bytes == 0);
            if bytes == 0 { WHOLE_LINE } else { bytes }
        };
        let mut count = 0;
        for addr in &record.load[..usize::from(record.loads)] {
            out[count] = (AccessKind::Load, (*addr, size(record.load_bytes)));
            count += 1;
        }
        if record.stores {
            let store = (record.store, size(record.store_bytes));
            if count == 1 && out[0].1 == store {
                out[0].0 = AccessKind::Update;
            } else {
                out[count] = (AccessKind::Store, store);
                count += 1;
            }
        }
        count
    }

    fn instruction(&mut self, bytes: &[u8; BYTES], record: &Record) -> Known {
        let fixed: [u8; STATIC_BYTES] = core::array::from_fn(|n| bytes[n]);
        // A fence is told by a field that is otherwise an address.
        let fence = is_fence(record);
        let key = (fixed, if fence { !record.pc } else { record.pc });
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let inst = decode(record);
        let named = |numbers: &[u8]| pin::registers(numbers, false).len();
        let is_crowded =
            named(&record.sources) > inst.reads.len() || named(&record.targets) > inst.writes.len();
        self.crowded += u64::from(is_crowded);
        let known = self.out.intern(inst, opcode::word(record.opcode));
        self.known.insert(key, known);
        known
    }

    fn notes(&self) -> Notes {
        let mut notes = vec![pin::ASSUMPTION.to_string()];
        let mut add = |count: u64, what: &str| {
            if count > 0 {
                notes.push(format!("{count} {what}"));
            }
        };
        add(
            self.made_up_calls,
            "system calls made up where a thread starts",
        );
        add(self.sizeless, "accesses of unknown size taken for 64 bytes");
        add(
            self.crowded,
            "instructions with more than 4 source or 3 destination registers, of which the rest \
             make no dependency",
        );
        add(
            self.contradicted,
            "conditional branches go where the next record is, against their own outcome",
        );
        notes
    }
}

/// An instruction of a tail that an export of ours wrote.
fn is_quiet(record: &Record) -> bool {
    record.opcode == opcode::TR_NOP && (TAIL..TAIL + TAIL_CODE).contains(&record.pc)
}

/// MISC without operands, marked by a 1 in the second load's address.
fn is_fence(record: &Record) -> bool {
    record.opcode == opcode::MISC
        && record.load[1] == 1
        && record.loads == 0
        && !record.stores
        && record.targets.is_empty()
}

/// The static instruction of a record.
fn decode(record: &Record) -> Inst {
    let touches = record.loads > 0 || record.stores;
    let class = if is_fence(record) {
        OpClass::Fence
    } else {
        let kind = Kind {
            opcode: record.opcode,
            floating: record.floating,
            branch: if record.branch == 8 { 0 } else { record.branch },
        };
        match opcode::class(kind, !record.targets.is_empty()) {
            // A capture's system calls touch nothing.
            OpClass::Syscall if touches => OpClass::Serialising,
            class => class,
        }
    };
    let drop_stack = opcode::moves_stack(record.opcode);
    let sources = pin::registers(&record.sources, drop_stack);
    let targets = pin::registers(&record.targets, drop_stack);
    let inst = Inst::new(class, record.pc, record.len).with_memory(record.loads > 0, record.stores);
    pin::operands(inst, &sources, &targets)
}
