//! Operands of a convolution: input with its prologue, output with its residual.

use crate::{Activation, Stored};

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
