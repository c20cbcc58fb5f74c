//! The instructions of AMX on a processor that refuses them, for tests: the handler of that signal does what they say.
//!
//! So what is around them is tested anywhere: which tiles, from where, to where, configured or not. After volume 2 of the *Intel 64 and IA-32 Architectures
//! Software Developer's Manual*, under their names. What is not such an instruction, or is not allowed, ends the process as it would without.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

use half::bf16;

/// What a thread has of AMX.
struct Registers {
    is_configured: bool,
    rows: [u8; 8],
    /// Bytes of a row.
    columns: [u16; 8],
    tiles: [[[u8; 64]; 16]; 8],
}

const NONE: Registers = Registers { is_configured: false, rows: [0; 8], columns: [0; 8], tiles: [[[0; 64]; 16]; 8] };

thread_local! {
    static REGISTERS: UnsafeCell<Registers> = const { UnsafeCell::new(NONE) };
}

/// Has this process compute what the processor refuses, if the processor has what that takes. To be called once.
pub(super) fn install() -> bool {
    if !is_x86_feature_detected!("avx2") || !is_x86_feature_detected!("fma") {
        return false;
    }
    // SAFETY: the handler is one of those with three arguments, as the flag says.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = refused as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGILL, &raw const action, null_mut()) == 0
    }
}

extern "C" fn refused(_: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the system calls this with the context of the thread that was stopped at an instruction, which can be read, and whose addresses are
    // those of the program. Nobody else has the registers of this thread.
    unsafe {
        let general = &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let at = general[libc::REG_RIP as usize] as *const u8;
        let done = REGISTERS.with(|registers| (*registers.get()).run(at, general));
        match done {
            Some(length) => general[libc::REG_RIP as usize] += i64::from(length),
            // It is refused once more, and ends the process.
            None => drop(libc::signal(libc::SIGILL, libc::SIG_DFL)),
        }
    }
}

/// An operand in memory: where it is, and from one row to the next.
struct Memory {
    first: *mut u8,
    stride: isize,
    /// Bytes of the instruction that say so.
    length: u8,
}

impl Memory {
    /// # Safety
    ///
    /// An instruction goes on at `at`, with its ModR/M byte. `high` has the fourth bits of base and index.
    unsafe fn read(at: *const u8, [high_base, high_index]: [u8; 2], general: &[i64]) -> Option<Self> {
        const ORDER: [c_int; 16] = [
            libc::REG_RAX,
            libc::REG_RCX,
            libc::REG_RDX,
            libc::REG_RBX,
            libc::REG_RSP,
            libc::REG_RBP,
            libc::REG_RSI,
            libc::REG_RDI,
            libc::REG_R8,
            libc::REG_R9,
            libc::REG_R10,
            libc::REG_R11,
            libc::REG_R12,
            libc::REG_R13,
            libc::REG_R14,
            libc::REG_R15,
        ];
        let value = |number: u8| general[ORDER[usize::from(number)] as usize] as isize;
        // SAFETY: the bytes are those of the instruction.
        unsafe {
            let (kind, low) = (*at >> 6, *at & 7);
            let has_index = low == 4;
            let (base, index) = if has_index { (*at.add(1) & 7, *at.add(1) >> 3 & 7) } else { (low, 4) };
            if kind == 3 || kind == 0 && base == 5 {
                return None; // a register, or no base: compilers write neither here
            }
            let index = index | high_index << 3;
            let scale = if has_index { 1 << (*at.add(1) >> 6) } else { 1 };
            let stride = if index == 4 { 0 } else { value(index) * scale };
            let length = 1 + u8::from(has_index);
            let offset = at.add(length.into());
            let (offset, more) = match kind {
                0 => (0, 0),
                1 => (isize::from(*offset.cast::<i8>()), 1),
                _ => (offset.cast::<i32>().read_unaligned() as isize, 4),
            };
            let first = (value(base | high_base << 3) + offset) as *mut u8;
            Some(Self { first, stride, length: length + more })
        }
    }
}

impl Registers {
    /// Does what the instruction says; its length, or nothing where it is none of AMX.
    ///
    /// # Safety
    ///
    /// There must be an instruction, and what it reads and writes must be there.
    unsafe fn run(&mut self, at: *const u8, general: &[i64]) -> Option<u8> {
        // SAFETY: the instructions have more than these bytes.
        let [escape, second, third, code, operands] = unsafe { at.cast::<[u8; 5]>().read() };
        // A VEX prefix of three bytes, of the table of instructions that begin with 0F 38, without W and L.
        if escape != 0xc4 || second & 0x1f != 2 || third & 0x84 != 0 {
            return None;
        }
        let high = [!second >> 5 & 1, !second >> 6 & 1];
        let third_register = usize::from(!third >> 3 & 15);
        let (prefix, is_register) = (third & 3, operands >> 6 == 3);
        let (tile, other) = (usize::from(operands >> 3 & 7), usize::from(operands & 7));
        if !self.is_configured && (prefix, code, is_register) != (0, 0x49, false) {
            return None;
        }
        // SAFETY: as the caller promises.
        unsafe {
            let memory = || Memory::read(at.add(4), high, general);
            match (prefix, code, is_register) {
                // LDTILECFG, TILERELEASE, TILEZERO
                (0, 0x49, false) => {
                    let memory = memory()?;
                    self.configure(&memory.first.cast::<[u8; 64]>().read())?;
                    return Some(4 + memory.length);
                }
                (0, 0x49, true) => *self = NONE,
                (3, 0x49, true) => self.tiles[tile] = NONE.tiles[tile],
                // TILELOADD, TILESTORED
                (2 | 3, 0x4b, false) => {
                    let memory = memory()?;
                    let columns = usize::from(self.columns[tile]);
                    for (row, values) in self.tiles[tile].iter_mut().enumerate() {
                        let place = memory.first.wrapping_offset(memory.stride * row as isize);
                        let is_there = row < usize::from(self.rows[tile]);
                        match prefix {
                            2 if is_there => place.copy_from_nonoverlapping(values.as_ptr(), columns),
                            3 => {
                                *values = [0; 64];
                                if is_there {
                                    place.copy_to_nonoverlapping(values.as_mut_ptr(), columns);
                                }
                            }
                            _ => {}
                        }
                    }
                    return Some(4 + memory.length);
                }
                // TDPBF16PS
                (2, 0x5c, true) => self.multiply(tile, other, third_register)?,
                _ => return None,
            }
        }
        Some(5)
    }

    /// Takes a configuration of the first palette.
    fn configure(&mut self, bytes: &[u8; 64]) -> Option<()> {
        *self = NONE;
        let is_known = bytes[0] == 1 && bytes[1] == 0;
        for tile in 0..8 {
            self.columns[tile] = u16::from_le_bytes([bytes[16 + 2 * tile], bytes[17 + 2 * tile]]);
            self.rows[tile] = bytes[48 + tile];
        }
        let fits = self.columns.iter().all(|columns| *columns <= 64) && self.rows.iter().all(|rows| *rows <= 16);
        self.is_configured = is_known && fits;
        self.is_configured.then_some(())
    }

    /// Adds products of pairs: those of the first values of pairs, and those of the second, have sums of their own.
    #[target_feature(enable = "avx2,fma")]
    fn multiply(&mut self, sums: usize, a: usize, b: usize) -> Option<()> {
        let pairs = usize::from(self.columns[a] / 4);
        let is_allowed = sums != a && sums != b && a != b && b < 8 && pairs == usize::from(self.rows[b]);
        if !is_allowed || self.rows[sums] != self.rows[a] || self.columns[sums] != self.columns[b] {
            return None;
        }
        let of_pair =
            |bytes: &[u8], half: usize| normal(bf16::from_le_bytes([bytes[2 * half], bytes[2 * half + 1]]).to_f32());
        let [a, b] = [a, b].map(|tile| {
            [0, 1].map(|half| self.tiles[tile].map(|row| std::array::from_fn(|at| of_pair(&row[4 * at..], half))))
        });
        for row in 0..usize::from(self.rows[sums]) {
            let mut products = [[0.0_f32; 16]; 2];
            for (products, (a, b)) in products.iter_mut().zip(a.iter().zip(&b)) {
                for (value, b) in a[row].iter().zip(b).take(pairs) {
                    let b: &[f32; 16] = b;
                    products.iter_mut().zip(b).for_each(|(sum, b)| *sum = normal(value.mul_add(*b, *sum)));
                }
            }
            let places = self.tiles[sums][row][..usize::from(self.columns[sums])].as_chunks_mut::<4>().0;
            for (place, (first, second)) in places.iter_mut().zip(products[0].iter().zip(products[1])) {
                *place = normal(normal(f32::from_le_bytes(*place)) + normal(first + second)).to_le_bytes();
            }
        }
        Some(())
    }
}

/// Zero in place of a subnormal number.
#[inline(always)]
fn normal(value: f32) -> f32 {
    if value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
}
