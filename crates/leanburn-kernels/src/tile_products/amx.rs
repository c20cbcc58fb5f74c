//! Tiles in AMX's registers, which Intel's server processors have since Sapphire Rapids: one instruction is a step.
//!
//! The compiler has no stable functions for these instructions, so they are written as assembly.

#[cfg(all(test, target_arch = "x86_64", target_os = "linux"))]
pub(super) use self::supported::has_instructions;
pub(super) use self::supported::{configure, is_supported, multiply, release};

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
mod supported {
    use std::arch::asm;
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    use std::sync::OnceLock;

    use super::super::{Product, ROWS};

    /// All eight registers with sixteen rows of 64 bytes.
    #[repr(C, align(64))]
    struct Configuration {
        palette: u8,
        first_row: u8,
        reserved: [u8; 14],
        bytes_of_a_row: [u16; 16],
        rows: [u8; 16],
    }

    static CONFIGURATION: Configuration = {
        let mut configuration =
            Configuration { palette: 1, first_row: 0, reserved: [0; 14], bytes_of_a_row: [0; 16], rows: [0; 16] };
        let mut tile = 0;
        while tile < 8 {
            configuration.bytes_of_a_row[tile] = 64;
            configuration.rows[tile] = ROWS as u8;
            tile += 1;
        }
        configuration
    };

    /// Whether the processor has the instructions, and the operating system lets this process use them.
    ///
    /// Asked once; then any thread may.
    pub(crate) fn is_supported() -> bool {
        static SUPPORTED: OnceLock<bool> = OnceLock::new();
        *SUPPORTED.get_or_init(ask)
    }

    fn ask() -> bool {
        // Linux saves the registers of a process that asks for it: ARCH_REQ_XCOMP_PERM, of XTILEDATA.
        // SAFETY: the call changes nothing but this permission.
        has_instructions() && unsafe { libc::syscall(libc::SYS_arch_prctl, 0x1023, 18) == 0 }
    }

    /// Whether the processor has the instructions.
    pub(crate) fn has_instructions() -> bool {
        const BF16: u32 = 1 << 22;
        const TILE: u32 = 1 << 24;
        __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & (BF16 | TILE) == BF16 | TILE
    }

    /// # Safety
    ///
    /// The instructions must be available.
    pub(crate) unsafe fn configure() {
        // SAFETY: reads the 64 bytes of the configuration.
        unsafe { asm!("ldtilecfg [{}]", in(reg) &raw const CONFIGURATION, options(nostack, readonly)) };
    }

    /// # Safety
    ///
    /// The instructions must be available.
    pub(crate) unsafe fn release() {
        // SAFETY: nobody uses the registers any more.
        unsafe { asm!("tilerelease", options(nostack, nomem)) };
    }

    /// Where sums are, in bytes.
    #[repr(C)]
    struct Sums {
        first: *mut f32,
        stride: usize,
        right: usize,
        below: usize,
        add: usize,
    }

    /// Assembly that adds up products. Its parts: clear the sums, load them, one step from the loaded first tiles on, store.
    /// Sums are in registers 0 to 3, `A` is in 4 and 5, `B` in 6 and 7.
    macro_rules! add_up {
        ($product:ident, [$($clear:literal),*], [$($load:literal),*], [$($step:literal),*], [$($store:literal),*]) => {{
            let Product { a, b, steps, of, sums, stride, right, below, add, .. } = $product;
            let places = &steps.places[of];
            let [stride, right, below] = [stride, right, below].map(|floats| 4 * floats);
            let sums = Sums { first: sums.as_mut_ptr(), stride, right, below, add: usize::from(add) };
            asm!(
                "mov {a}, [{sums}]",
                "mov {b}, [{sums} + 8]",
                "cmp qword ptr [{sums} + 32], 0",
                "jne 2f",
                $($clear,)*
                "jmp 3f",
                "2:",
                $($load,)*
                "3:",
                "cmp {step}, {end}",
                "je 5f",
                "4:",
                "mov {a}, [{step}]",
                "mov {b}, [{step} + 8]",
                "lea {a}, [{first_a} + 2*{a}]",
                "lea {b}, [{first_b} + 4*{b}]",
                "tileloadd tmm4, [{a} + {stride_a}*1]",
                "tileloadd tmm6, [{b} + {stride_b}*1]",
                "tdpbf16ps tmm0, tmm4, tmm6",
                $($step,)*
                "add {step}, 16",
                "cmp {step}, {end}",
                "jne 4b",
                "5:",
                "mov {a}, [{sums}]",
                "mov {b}, [{sums} + 8]",
                $($store,)*
                sums = in(reg) &raw const sums,
                step = inout(reg) places.as_ptr() => _,
                end = in(reg) places.as_ptr().add(places.len()),
                first_a = in(reg) a.values.as_ptr(),
                first_b = in(reg) b.values.as_ptr(),
                stride_a = in(reg) 2 * a.stride,
                stride_b = in(reg) 4 * b.stride,
                next_a = in(reg) 2 * a.next,
                next_b = in(reg) 4 * b.next,
                a = out(reg) _,
                b = out(reg) _,
                options(nostack),
            );
        }};
    }

    /// # Safety
    ///
    /// The registers must be configured, and all tiles must lie inside of their slices.
    #[inline]
    pub(crate) unsafe fn multiply(product: Product<'_>) {
        // SAFETY: as the caller promises. The compiler does not use these registers.
        unsafe {
            match (product.a.tiles(), product.b.tiles()) {
                (1, 1) => add_up!(
                    product,
                    ["tilezero tmm0"],
                    ["tileloadd tmm0, [{a} + {b}*1]"],
                    ["/* {next_a} {next_b} */"],
                    ["tilestored [{a} + {b}*1], tmm0"]
                ),
                (1, 2) => add_up!(
                    product,
                    ["tilezero tmm0", "tilezero tmm1"],
                    ["tileloadd tmm0, [{a} + {b}*1]", "add {a}, [{sums} + 16]", "tileloadd tmm1, [{a} + {b}*1]"],
                    [
                        "/* {next_a} */",
                        "add {b}, {next_b}",
                        "tileloadd tmm7, [{b} + {stride_b}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm7"
                    ],
                    ["tilestored [{a} + {b}*1], tmm0", "add {a}, [{sums} + 16]", "tilestored [{a} + {b}*1], tmm1"]
                ),
                (2, 1) => add_up!(
                    product,
                    ["tilezero tmm0", "tilezero tmm2"],
                    ["tileloadd tmm0, [{a} + {b}*1]", "add {a}, [{sums} + 24]", "tileloadd tmm2, [{a} + {b}*1]"],
                    [
                        "/* {next_b} */",
                        "add {a}, {next_a}",
                        "tileloadd tmm5, [{a} + {stride_a}*1]",
                        "tdpbf16ps tmm2, tmm5, tmm6"
                    ],
                    ["tilestored [{a} + {b}*1], tmm0", "add {a}, [{sums} + 24]", "tilestored [{a} + {b}*1], tmm2"]
                ),
                _ => add_up!(
                    product,
                    ["tilezero tmm0", "tilezero tmm1", "tilezero tmm2", "tilezero tmm3"],
                    [
                        "tileloadd tmm0, [{a} + {b}*1]",
                        "add {a}, [{sums} + 16]",
                        "tileloadd tmm1, [{a} + {b}*1]",
                        "add {a}, [{sums} + 24]",
                        "tileloadd tmm3, [{a} + {b}*1]",
                        "sub {a}, [{sums} + 16]",
                        "tileloadd tmm2, [{a} + {b}*1]"
                    ],
                    [
                        "add {b}, {next_b}",
                        "tileloadd tmm7, [{b} + {stride_b}*1]",
                        "tdpbf16ps tmm1, tmm4, tmm7",
                        "add {a}, {next_a}",
                        "tileloadd tmm5, [{a} + {stride_a}*1]",
                        "tdpbf16ps tmm2, tmm5, tmm6",
                        "tdpbf16ps tmm3, tmm5, tmm7"
                    ],
                    [
                        "tilestored [{a} + {b}*1], tmm0",
                        "add {a}, [{sums} + 16]",
                        "tilestored [{a} + {b}*1], tmm1",
                        "add {a}, [{sums} + 24]",
                        "tilestored [{a} + {b}*1], tmm3",
                        "sub {a}, [{sums} + 16]",
                        "tilestored [{a} + {b}*1], tmm2"
                    ]
                ),
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod supported {
    pub(crate) fn is_supported() -> bool {
        false
    }

    pub(crate) unsafe fn configure() {}

    pub(crate) unsafe fn release() {}

    pub(crate) unsafe fn multiply(_: super::super::Product<'_>) {
        unreachable!("there are no tiles");
    }
}
