//! From machine code to the dictionary's instructions.
//!
//! Registers are those of a dataflow model: full registers, no source for zeroing idioms, no
//! dependency through the stack pointer for `push`, `pop`, `call` and `ret`.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfo, InstructionInfoFactory,
    Mnemonic, OpAccess, OpKind, Register,
};
use trace::{Inst, OpClass, Reg};

/// A decoded instruction with its mnemonic.
pub type Decoded = (Inst, String);

/// The instruction at `pc`; bytes that do not decode become an instruction of class
/// [`OpClass::Other`] without operands.
pub fn decode(bytes: &[u8], pc: u64, factory: &mut InstructionInfoFactory) -> Decoded {
    let instruction = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    let len = bytes.len().clamp(1, 15) as u8;
    if instruction.is_invalid() {
        return (Inst::new(OpClass::Other, pc, len), "(bad)".into());
    }
    let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
    let info = factory.info(&instruction);
    let class = classify(&instruction, &name, info);
    let mut inst = Inst::new(class, pc, len);
    if class == OpClass::Nop {
        return (inst, name);
    }
    let touches = |test: fn(OpAccess) -> bool| info.used_memory().iter().any(|m| test(m.access()));
    inst = inst.with_memory(touches(reads), touches(writes));
    if repeats(&instruction) {
        inst = inst.repeated();
    }
    (with_registers(inst, &instruction, info), name)
}

/// Whether this is a marker of the region of interest: `xchg %bx,%bx` starts it (true),
/// `xchg %cx,%cx` ends it (false) (D2).
pub fn marker(bytes: &[u8]) -> Option<bool> {
    match bytes {
        [0x66, 0x87, 0xdb] => Some(true),
        [0x66, 0x87, 0xc9] => Some(false),
        _ => None,
    }
}

fn repeats(instruction: &Instruction) -> bool {
    instruction.is_string_instruction()
        && (instruction.has_rep_prefix() || instruction.has_repne_prefix())
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

/// A short list of different registers.
#[derive(Default)]
struct Set(Vec<Reg>);

impl Set {
    fn add(&mut self, reg: Option<Reg>) {
        if let Some(reg) = reg.filter(|reg| !self.0.contains(reg)) {
            self.0.push(reg);
        }
    }
    fn drop(&mut self, reg: Reg) {
        self.0.retain(|known| *known != reg);
    }
}

fn with_registers(inst: Inst, instruction: &Instruction, info: &InstructionInfo) -> Inst {
    let (mut data, mut address, mut written) = (Set::default(), Set::default(), Set::default());
    for memory in info
        .used_memory()
        .iter()
        .filter(|m| reads(m.access()) || writes(m.access()))
    {
        address.add(number(memory.base()));
        address.add(number(memory.index()));
    }
    for operand in 0..instruction.op_count() {
        let is_register = instruction.op_kind(operand) == OpKind::Register;
        if is_register && reads(info.op_access(operand)) {
            data.add(number(instruction.op_register(operand)));
        }
    }
    for used in info.used_registers() {
        let reg = number(used.register());
        let merges = is_partial(used.register()) && writes(used.access());
        let conditional = used.access() == OpAccess::CondWrite;
        let only_address = reg.is_some_and(|reg| address.0.contains(&reg));
        if (reads(used.access()) && !only_address) || merges || conditional {
            data.add(reg);
        }
        if writes(used.access()) {
            written.add(reg);
        }
    }
    data.add((instruction.rflags_read() != 0).then_some(Reg::FLAGS));
    written.add((instruction.rflags_modified() != 0).then_some(Reg::FLAGS));
    if is_zeroing(instruction) {
        data.0.clear();
    }
    if is_stack_operation(instruction) {
        for set in [&mut data, &mut address, &mut written] {
            set.drop(Reg::general(4));
        }
    }
    inst.reading(&data.0)
        .addressing(&address.0)
        .writing(&written.0)
}

/// The dense number of a register's full form.
fn number(register: Register) -> Option<Reg> {
    let full = register.full_register();
    let index = full.number() as u8;
    match full {
        Register::None | Register::RIP | Register::EIP => None,
        _ if full.is_gpr() => Some(Reg::general(index)),
        _ if full.is_vector_register() => Some(Reg::vector(index)),
        _ if full.is_k() => Some(Reg::mask(index)),
        _ if full.is_st() || full.is_mm() => Some(Reg::X87),
        // Segment registers do not change in user mode.
        _ if full.is_segment_register() => None,
        _ => Some(Reg::OTHER),
    }
}

/// Whether writing the register keeps the rest of the full one.
fn is_partial(register: Register) -> bool {
    register.is_gpr8() || register.is_gpr16()
}

/// Whether the result does not depend on the sources although they are named.
fn is_zeroing(instruction: &Instruction) -> bool {
    use Mnemonic::{
        Pcmpeqb, Pcmpeqd, Pcmpeqq, Pcmpeqw, Psubb, Psubd, Psubq, Psubw, Pxor, Sub, Vpxor, Vpxord,
        Vpxorq, Vxorpd, Vxorps, Xor, Xorpd, Xorps,
    };
    let last = instruction.op_count().saturating_sub(1);
    let same = last > 0
        && instruction.op_kind(last) == OpKind::Register
        && instruction.op_kind(last - 1) == OpKind::Register
        && instruction.op_register(last) == instruction.op_register(last - 1);
    same && matches!(
        instruction.mnemonic(),
        Xor | Sub
            | Pxor
            | Xorps
            | Xorpd
            | Vpxor
            | Vpxord
            | Vpxorq
            | Vxorps
            | Vxorpd
            | Psubb
            | Psubw
            | Psubd
            | Psubq
            | Pcmpeqb
            | Pcmpeqw
            | Pcmpeqd
            | Pcmpeqq
    )
}

fn is_stack_operation(instruction: &Instruction) -> bool {
    use FlowControl::{Call, IndirectCall, Return};
    matches!(instruction.flow_control(), Call | IndirectCall | Return)
        || matches!(
            instruction.mnemonic(),
            Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq
        )
}

fn classify(instruction: &Instruction, name: &str, info: &InstructionInfo) -> OpClass {
    if instruction.mnemonic() == Mnemonic::Syscall {
        return OpClass::Syscall;
    }
    let writes_memory = info
        .used_memory()
        .iter()
        .any(|memory| writes(memory.access()));
    let exchanges = instruction.mnemonic() == Mnemonic::Xchg && writes_memory;
    if instruction.has_lock_prefix() || exchanges {
        return OpClass::Atomic;
    }
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => OpClass::Jump,
        FlowControl::IndirectBranch => OpClass::IndirectJump,
        FlowControl::ConditionalBranch => OpClass::CondBranch,
        FlowControl::Return => OpClass::Return,
        FlowControl::Call => OpClass::Call,
        FlowControl::IndirectCall => OpClass::IndirectCall,
        FlowControl::Interrupt | FlowControl::Exception => OpClass::Serialising,
        _ => classify_by_name(name, info),
    }
}

fn classify_by_name(name: &str, info: &InstructionInfo) -> OpClass {
    let vector = info.used_registers().iter().any(|used| {
        let register = used.register();
        register.is_vector_register() || register.is_mm() || register.is_k()
    });
    if let Some(class) = classify_plain(name) {
        return class;
    }
    if vector {
        classify_vector(name.strip_prefix('v').unwrap_or(name))
    } else if name.starts_with('f') {
        classify_x87(name)
    } else {
        OpClass::IntAlu
    }
}

fn classify_plain(name: &str) -> Option<OpClass> {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    Some(match name {
        "lea" => OpClass::Lea,
        "imul" | "mul" | "mulx" | "crc32" | "popcnt" | "lzcnt" | "tzcnt" | "bsf" | "bsr"
        | "pdep" | "pext" | "adcx" | "adox" => OpClass::IntMul,
        "div" | "idiv" => OpClass::IntDiv,
        "mfence" | "lfence" | "sfence" => OpClass::Fence,
        "cpuid" | "rdtscp" | "serialize" | "wbinvd" => OpClass::Serialising,
        "mov" | "movabs" | "movzx" | "movsx" | "movsxd" | "movbe" | "push" | "pop" | "pushfq"
        | "popfq" | "leave" | "xchg" | "movnti" | "movsb" | "movsw" | "movsq" | "stosb"
        | "stosw" | "stosd" | "stosq" | "lodsb" | "lodsw" | "lodsd" | "lodsq" => OpClass::Move,
        "rdtsc" | "xgetbv" | "emms" | "ldmxcsr" | "stmxcsr" | "vldmxcsr" | "vstmxcsr" => {
            OpClass::Other
        }
        "pause" => OpClass::Nop,
        _ if starts(&[
            "nop", "fnop", "endbr", "prefetch", "hint", "clflush", "clwb", "cldemote",
        ]) =>
        {
            OpClass::Nop
        }
        _ if starts(&[
            "xsave", "xrstor", "fxsave", "fxrstor", "rdrand", "rdseed", "rdfsbase",
        ]) =>
        {
            OpClass::Other
        }
        _ if starts(&["rdssp", "incssp", "vzero"]) => OpClass::Nop,
        _ => return None,
    })
}

fn classify_vector(name: &str) -> OpClass {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let floating = ["ps", "pd", "ss", "sd"]
        .iter()
        .any(|suffix| name.ends_with(suffix));
    if starts(&["fmadd", "fmsub", "fnmadd", "fnmsub"]) {
        OpClass::Fma
    } else if starts(&["cvt", "ucomi", "comi", "round"]) {
        OpClass::FpAdd
    } else if starts(&["mov"]) && !starts(&["movmsk", "movddup", "movs", "movhl", "movlh"])
        || matches!(
            name,
            "movss" | "movsd" | "lddqu" | "broadcastss" | "broadcastsd"
        )
    {
        OpClass::Move
    } else if floating && starts(&["add", "sub", "hadd", "hsub", "max", "min", "cmp"]) {
        OpClass::FpAdd
    } else if floating && starts(&["mul", "dp"]) {
        OpClass::FpMul
    } else if floating && starts(&["div", "sqrt", "rsqrt", "rcp"]) {
        OpClass::FpDiv
    } else {
        OpClass::Simd
    }
}

fn classify_x87(name: &str) -> OpClass {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if starts(&[
        "fadd", "fsub", "fiadd", "fisub", "fcom", "fucom", "fist", "fild", "fchs", "fabs",
    ]) {
        OpClass::FpAdd
    } else if starts(&["fmul", "fimul"]) {
        OpClass::FpMul
    } else if starts(&["fdiv", "fidiv", "fsqrt"]) {
        OpClass::FpDiv
    } else if starts(&["fld", "fst", "fxch", "fcmov", "ffree"]) {
        OpClass::Move
    } else {
        OpClass::Other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inst(bytes: &[u8]) -> Inst {
        decode(bytes, 0x1000, &mut InstructionInfoFactory::new()).0
    }

    fn regs(list: &[Reg]) -> String {
        let named: Vec<_> = list
            .iter()
            .filter(|r| !r.is_none())
            .map(Reg::to_string)
            .collect();
        named.join(" ")
    }

    /// Class, data sources, address sources, targets, memory.
    fn shown(bytes: &[u8]) -> String {
        let i = inst(bytes);
        let memory = match (i.loads(), i.stores()) {
            (false, false) => "",
            (true, false) => "L",
            (false, true) => "S",
            (true, true) => "LS",
        };
        let (data, address) = (regs(&i.reads), regs(&i.address_reads));
        format!(
            "{} | {data} | {address} | {} | {memory}",
            i.class.word(),
            regs(&i.writes)
        )
    }

    #[test]
    fn instructions_have_the_operands_of_a_dataflow_machine() {
        let expected: [(&[u8], &str); 19] = [
            (&[0x48, 0x89, 0xd8], "move | rbx |  | rax | "),
            (&[0x48, 0x8b, 0x04, 0xcb], "move |  | rbx rcx | rax | L"),
            (&[0x48, 0x89, 0x00], "move | rax | rax |  | S"),
            (&[0x31, 0xc0], "int-alu |  |  | rax flags | "),
            (&[0x48, 0x01, 0x08], "int-alu | rcx | rax | flags | LS"),
            (&[0xf0, 0x48, 0x01, 0x08], "atomic | rcx | rax | flags | LS"),
            (&[0x48, 0x87, 0x08], "atomic | rcx | rax | rcx | LS"),
            (&[0x50], "move | rax |  |  | S"),
            (&[0x58], "move |  |  | rax | L"),
            (&[0xc3], "return |  |  |  | L"),
            (&[0xe8, 0, 0, 0, 0], "call |  |  |  | S"),
            (&[0x75, 0x02], "cond-branch | flags |  |  | "),
            (&[0xff, 0xe0], "indirect-jump | rax |  |  | "),
            (&[0x48, 0x8d, 0x04, 0x0b], "lea | rbx rcx |  | rax | "),
            (
                &[0x48, 0xf7, 0xf1],
                "int-div | rcx rax rdx |  | rax rdx flags | ",
            ),
            (&[0x88, 0xd8], "move | rbx rax |  | rax | "),
            (&[0xf3, 0x0f, 0x58, 0xc1], "fp-add | v0 v1 |  | v0 | "),
            (&[0x66, 0x0f, 0xef, 0xc0], "simd |  |  | v0 | "),
            (&[0x0f, 0x05], "syscall | "),
        ];
        for (bytes, text) in expected {
            assert!(
                shown(bytes).starts_with(text),
                "{bytes:x?}: {} ≠ {text}",
                shown(bytes)
            );
        }
    }

    #[test]
    fn string_operations_repeat_only_with_a_prefix() {
        let copy = inst(&[0xf3, 0xa4]);
        assert!(copy.repeats() && copy.loads() && copy.stores());
        assert!(!inst(&[0xa4]).repeats());
        assert!(
            !inst(&[0xf3, 0x0f, 0x58, 0xc1]).repeats(),
            "the prefix means addss here"
        );
    }

    #[test]
    fn markers_are_exactly_the_two_exchanges() {
        assert_eq!(marker(&[0x66, 0x87, 0xdb]), Some(true));
        assert_eq!(marker(&[0x66, 0x87, 0xc9]), Some(false));
        assert_eq!(marker(&[0x87, 0xdb]), None);
    }

    #[test]
    fn bytes_that_do_not_decode_are_an_instruction_without_operands() {
        let bad = inst(&[0x06]);
        assert_eq!((bad.class, bad.len), (OpClass::Other, 1));
    }
}
