//! Shapes of a convolution, and their operands: prologue, residual, output.

use crate::{Activation, Stored};

/// Shape of a convolution (cross-correlation, as the field has it).
///
/// The same value describes its gradients, and the transposed convolution, whose output is this one's input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Items in the batch.
    pub batch_size: usize,
    /// Channels of the input, a multiple of the groups.
    pub channels_in: usize,
    /// Channels of the output, a multiple of the groups.
    pub channels_out: usize,
    /// Groups that see only their own channels.
    pub groups: usize,
    /// Depth, height and width of the input.
    pub input: [usize; 3],
    /// Size of the kernel.
    pub kernel: [usize; 3],
    /// Steps between outputs.
    pub stride: [usize; 3],
    /// Steps between elements of the kernel.
    pub dilation: [usize; 3],
    /// Zeros before and after each axis.
    pub padding: [[usize; 2]; 3],
}

impl ConvShape {
    /// Depth, height and width of the output; zero where the kernel does not fit.
    pub fn output(&self) -> [usize; 3] {
        std::array::from_fn(|axis| {
            let padded = self.input[axis] + self.padding[axis][0] + self.padding[axis][1];
            let span = self.dilation[axis] * (self.kernel[axis] - 1) + 1;
            if padded < span { 0 } else { (padded - span) / self.stride[axis] + 1 }
        })
    }

    /// Number of elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch_size * self.channels_in * self.input.iter().product::<usize>()
    }

    /// Number of elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch_size * self.channels_out * self.output().iter().product::<usize>()
    }

    /// Multiplications of the forward pass, and of either gradient.
    pub fn multiplications(&self) -> usize {
        self.output_len() * (self.channels_in / self.groups) * self.kernel.iter().product::<usize>()
    }

    /// Floating-point operations of one pass: a product and a sum for each multiplication.
    pub fn flops(&self) -> u64 {
        2 * self.multiplications() as u64
    }

    /// Number of elements of the weight, `[channels_out, channels_in / groups, kernel..]`.
    pub fn weight_len(&self) -> usize {
        self.channels_out * self.channels_in / self.groups * self.kernel.iter().product::<usize>()
    }
}

/// Applied to every value that a kernel reads: `activation(scale * x + shift)`.
///
/// Zeros of the padding stay zeros.
#[derive(Clone, Copy, Debug)]
pub struct Prologue<'a> {
    /// Of each channel of each item, `[batch_size, channels]`.
    pub scale: &'a [f32],
    /// Of each channel of each item, `[batch_size, channels]`.
    pub shift: &'a [f32],
    /// Applied last.
    pub activation: Activation,
}

/// A volume to read.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a, E> {
    /// `[batch_size, channels, depth, height, width]`, contiguous.
    pub values: &'a [E],
    /// Applied while the values are read.
    pub prologue: Option<Prologue<'a>>,
}

impl<'a, E: Stored> Input<'a, E> {
    /// The values as they are.
    pub fn plain(values: &'a [E]) -> Self {
        Self { values, prologue: None }
    }

    /// One item of a batch.
    pub(crate) fn item(&self, item: usize, batch_size: usize) -> Self {
        let part = |values: usize| item * (values / batch_size)..(item + 1) * (values / batch_size);
        let prologue = self.prologue.map(|prologue| Prologue {
            scale: &prologue.scale[part(prologue.scale.len())],
            shift: &prologue.shift[part(prologue.shift.len())],
            ..prologue
        });
        Self { values: &self.values[part(self.values.len())], prologue }
    }
}

/// What a result is added to.
#[derive(Clone, Copy, Debug)]
pub enum Residual<'a, E> {
    /// Nothing.
    None,
    /// What stands at the place of the result.
    InPlace,
    /// Another volume of the same shape.
    Of(&'a [E]),
}

/// A volume to write.
#[derive(Debug)]
pub struct Output<'a, E> {
    /// `[batch_size, channels, depth, height, width]`, contiguous; every element is written.
    pub values: &'a mut [E],
    /// Added to each channel.
    pub bias: Option<&'a [f32]>,
    /// Added to each element before it is rounded.
    pub residual: Residual<'a, E>,
}

impl<'a, E: Stored> Output<'a, E> {
    /// The result alone.
    pub fn plain(values: &'a mut [E]) -> Self {
        Self { values, bias: None, residual: Residual::None }
    }
}
