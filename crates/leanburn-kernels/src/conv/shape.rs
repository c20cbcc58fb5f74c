//! Shape of a convolution.

use crate::shape_error::{ShapeError, ShapeProblem};
use crate::size::{check_volume, product};

/// Shape of a convolution (cross-correlation, as the field has it).
///
/// The same value describes its gradients, and the transposed convolution, whose output is this one's input. Every value
/// of this type was validated: its volumes can be addressed, padded too, and its groups divide its channels.
///
/// # Example
///
/// ```
/// use leanburn_kernels::conv::{ConvSettings, ConvShape};
///
/// let halving = ConvSettings { stride: [2; 3], padding: [[1; 2]; 3], ..ConvSettings::default() };
/// let shape = ConvShape::new([1, 8, 32, 32, 32], [16, 8, 3, 3, 3], halving)?;
/// assert_eq!(shape.output_dims(), [1, 16, 16, 16, 16]);
///
/// let error = ConvShape::new([1, 8, 32, 32, 32], [16, 4, 3, 3, 3], halving).unwrap_err();
/// assert_eq!(error.to_string(), "expected a weight for 8 input channels, found one for 1 groups of 4");
/// # Ok::<(), leanburn_kernels::ShapeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvShape {
    /// Items in the batch.
    pub(crate) batch_size: usize,
    /// Channels of the input, a multiple of the groups.
    pub(crate) channels_in: usize,
    /// Channels of the output, a multiple of the groups.
    pub(crate) channels_out: usize,
    /// Groups that see only their own channels.
    pub(crate) groups: usize,
    /// Depth, height and width of the input.
    pub(crate) input: [usize; 3],
    /// Size of the kernel.
    pub(crate) kernel: [usize; 3],
    /// Steps between outputs.
    pub(crate) stride: [usize; 3],
    /// Steps between elements of the kernel.
    pub(crate) dilation: [usize; 3],
    /// Zeros before and after each axis.
    pub(crate) padding: [[usize; 2]; 3],
}

/// How the kernel of a convolution moves, and the groups of its channels.
///
/// By default it moves one by one, without padding, and there is one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvSettings {
    /// Steps between outputs.
    pub stride: [usize; 3],
    /// Steps between elements of the kernel.
    pub dilation: [usize; 3],
    /// Zeros before and after each axis.
    pub padding: [[usize; 2]; 3],
    /// Groups that see only their own channels.
    pub groups: usize,
}

impl Default for ConvSettings {
    fn default() -> Self {
        Self { stride: [1; 3], dilation: [1; 3], padding: [[0; 2]; 3], groups: 1 }
    }
}

impl ConvShape {
    /// The convolution of an input `[batch_size, channels_in, depth, height, width]` with a weight `[channels_out,
    /// channels_in / groups, kernel..]`.
    ///
    /// The batch or an axis of the input may be empty; the output is where the kernel does not fit.
    ///
    /// # Errors
    ///
    /// Where the groups do not divide the channels, the weight is for another number of channels, channels, groups, an axis of
    /// the kernel, a stride or a dilation are zero, or the padded input, the weight or the output takes more than 128 TiB.
    pub fn new(input: [usize; 5], weight: [usize; 5], settings: ConvSettings) -> Result<Self, ShapeError> {
        let [batch_size, channels_in, input @ ..] = input;
        let [channels_out, per_group, kernel @ ..] = weight;
        let ConvSettings { mut stride, dilation, padding, groups } = settings;
        let counts = [("groups", groups), ("input channels", channels_in), ("output channels", channels_out)];
        if let Some((name, _)) = counts.into_iter().find(|(_, count)| *count == 0) {
            return Err(ShapeProblem::Zero { name }.into());
        }
        if per_group.checked_mul(groups) != Some(channels_in) {
            return Err(ShapeProblem::WeightChannels { channels: channels_in, per_group, groups }.into());
        }
        if !channels_out.is_multiple_of(groups) {
            return Err(ShapeProblem::Groups { of: "output", channels: channels_out, groups }.into());
        }
        let mut padded = [0; 3];
        for axis in 0..3 {
            padded[axis] = padded_len(input[axis], kernel[axis], stride[axis], padding[axis], dilation[axis])
                .map_err(|error| error.along(axis))?;
            // A step over the whole axis is as good as any longer one.
            stride[axis] = stride[axis].min(padded[axis].max(1));
        }
        let shape = Self { batch_size, channels_in, channels_out, groups, input, kernel, stride, dilation, padding };
        let volume = |what, channels, [depth, height, width]: [usize; 3]| {
            check_volume(what, &[batch_size, channels, depth, height, width])
        };
        volume("the padded input", channels_in, padded)?;
        volume("the output", channels_out, shape.output())?;
        check_volume("the weight", &weight)?;
        Ok(shape)
    }

    /// The convolution of which the transposed one is the transpose that takes an input `[batch_size, channels_in, depth,
    /// height, width]` and a weight `[channels_in, channels_out / groups, kernel..]`; its [`input_dims`](Self::input_dims) are
    /// the output, each axis `(size - 1) stride + dilation (kernel - 1) + 1 + output_padding - padding`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new), and where an axis of the input is zero, padding leaves nothing of the output, or the output
    /// padding is not smaller than the stride.
    pub fn transposed(
        input: [usize; 5],
        weight: [usize; 5],
        settings: ConvSettings,
        output_padding: [usize; 3],
    ) -> Result<Self, ShapeError> {
        let [batch_size, channels, input @ ..] = input;
        let [weight_channels, per_group, kernel @ ..] = weight;
        if channels != weight_channels {
            let (per_group, groups) = (weight_channels, 1);
            return Err(ShapeProblem::WeightChannels { channels, per_group, groups }.into());
        }
        if settings.groups > 0 && !channels.is_multiple_of(settings.groups) {
            return Err(ShapeProblem::Groups { of: "input", channels, groups: settings.groups }.into());
        }
        let mut output = [0; 3];
        for axis in 0..3 {
            let ConvSettings { stride, dilation, padding, .. } = settings;
            let (size, padding_out) = (input[axis], output_padding[axis]);
            output[axis] = transposed_len(size, kernel[axis], stride[axis], dilation[axis], padding[axis], padding_out)
                .map_err(|problem| ShapeError::from(problem).along(axis))?;
        }
        let [depth, height, width] = output;
        let channels_out = product(&[per_group, settings.groups]);
        Self::new([batch_size, channels_out, depth, height, width], weight, settings)
    }

    /// The same where the kernel fits into the padded input, so that the output has a length along each axis.
    ///
    /// # Errors
    ///
    /// Where it does not fit.
    pub fn fitting(self) -> Result<Self, ShapeError> {
        match self.output().into_iter().position(|len| len == 0) {
            None => Ok(self),
            Some(axis) => {
                let (span, padded) = (self.span(axis), self.padded(axis));
                Err(ShapeError::from(ShapeProblem::KernelTooLarge { span, padded }).along(axis))
            }
        }
    }

    /// `[batch_size, channels_in, depth, height, width]` of the input.
    pub fn input_dims(&self) -> [usize; 5] {
        let [depth, height, width] = self.input;
        [self.batch_size, self.channels_in, depth, height, width]
    }

    /// `[channels_out, channels_in / groups, kernel..]` of the weight.
    pub fn weight_dims(&self) -> [usize; 5] {
        let [depth, height, width] = self.kernel;
        [self.channels_out, self.channels_in / self.groups, depth, height, width]
    }

    /// `[batch_size, channels_out, depth, height, width]` of the output; zero where the kernel does not fit.
    pub fn output_dims(&self) -> [usize; 5] {
        let [depth, height, width] = self.output();
        [self.batch_size, self.channels_out, depth, height, width]
    }

    /// How the kernel moves. A stride is at most the length of the padded axis, whatever was asked for.
    pub fn settings(&self) -> ConvSettings {
        let Self { stride, dilation, padding, groups, .. } = *self;
        ConvSettings { stride, dilation, padding, groups }
    }

    /// Depth, height and width of the output; zero where the kernel does not fit.
    pub fn output(&self) -> [usize; 3] {
        std::array::from_fn(|axis| {
            let room = self.padded(axis).checked_sub(self.span(axis));
            room.map_or(0, |room| room / self.stride[axis] + 1)
        })
    }

    /// Length of the padded input.
    fn padded(&self, axis: usize) -> usize {
        self.input[axis] + self.padding[axis][0] + self.padding[axis][1]
    }

    /// From the first to the last element of the kernel.
    fn span(&self, axis: usize) -> usize {
        self.dilation[axis] * (self.kernel[axis] - 1) + 1
    }

    /// Number of elements of the input.
    pub fn input_len(&self) -> usize {
        self.batch_size * self.channels_in * self.input.iter().product::<usize>()
    }

    /// Number of elements of the output.
    pub fn output_len(&self) -> usize {
        self.batch_size * self.channels_out * self.output().iter().product::<usize>()
    }

    /// Number of elements of the weight, `[channels_out, channels_in / groups, kernel..]`.
    pub fn weight_len(&self) -> usize {
        self.channels_out * (self.channels_in / self.groups) * self.kernel.iter().product::<usize>()
    }

    /// Multiplications of the forward pass, and of either gradient; the largest number where they are more.
    pub fn multiplications(&self) -> usize {
        let [depth, height, width] = self.kernel;
        product(&[self.output_len(), self.channels_in / self.groups, depth, height, width])
    }

    /// Floating-point operations of one pass: a product and a sum for each multiplication.
    pub fn flops(&self) -> u64 {
        (self.multiplications() as u64).saturating_mul(2)
    }
}

/// The length of an axis with its padding, if it and the kernel can be addressed. The kernel may reach beyond it.
fn padded_len(
    input: usize,
    kernel: usize,
    stride: usize,
    padding: [usize; 2],
    dilation: usize,
) -> Result<usize, ShapeError> {
    let lengths = [("kernel", kernel), ("stride", stride), ("dilation", dilation)];
    if let Some((name, _)) = lengths.into_iter().find(|(_, length)| *length == 0) {
        return Err(ShapeProblem::Zero { name }.into());
    }
    check_volume("the kernel with its dilation", &[dilation, kernel - 1])?;
    let padded = [input, padding[0], padding[1]].into_iter().fold(0, usize::saturating_add);
    check_volume("the padded axis", &[padded])?;
    Ok(padded)
}

/// The length of an axis of a transposed convolution's output.
fn transposed_len(
    size: usize,
    kernel: usize,
    stride: usize,
    dilation: usize,
    padding: [usize; 2],
    output_padding: usize,
) -> Result<usize, ShapeProblem> {
    let lengths = [("input", size), ("kernel", kernel), ("stride", stride), ("dilation", dilation)];
    if let Some((name, _)) = lengths.into_iter().find(|(_, length)| *length == 0) {
        return Err(ShapeProblem::Zero { name });
    }
    if output_padding >= stride {
        return Err(ShapeProblem::OutputPadding { padding: output_padding, stride });
    }
    let reach = |count: usize, step: usize| (count - 1) as u128 * step as u128;
    let steps = reach(size, stride).saturating_add(reach(kernel, dilation));
    let padded = steps.saturating_add(1 + output_padding as u128);
    let padding = padding[0] as u128 + padding[1] as u128;
    match padded.checked_sub(padding) {
        None | Some(0) => Err(ShapeProblem::NothingLeft { padded, padding }),
        // What is too long is rejected with the volume.
        Some(len) => Ok(usize::try_from(len).unwrap_or(usize::MAX)),
    }
}
