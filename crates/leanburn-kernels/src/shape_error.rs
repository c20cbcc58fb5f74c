//! Sizes that do not go together.

use std::fmt;

/// Bytes that a volume has at most, in float32: the part of a 48-bit address space that belongs to a process, 128 TiB.
pub(crate) const MOST_BYTES: u128 = if usize::BITS > 47 { 1 << 47 } else { isize::MAX as u128 };

/// Depth, height and width, as errors name them.
pub(crate) const AXES: [&str; 3] = ["depth", "height", "width"];

/// Why there is no such shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShapeError {
    /// The axis, where it is about one of several: `depth`, `height` or `width`.
    pub axis: Option<&'static str>,
    /// What is wrong.
    pub problem: ShapeProblem,
}

/// What is wrong with a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShapeProblem {
    /// A length or step is zero.
    Zero {
        /// Of what.
        name: &'static str,
    },
    /// A volume cannot be addressed, or its memory was not there.
    TooLarge {
        /// What.
        what: &'static str,
        /// Its size; what does not fit is the largest number.
        bytes: u128,
    },
    /// Channels are no multiple of the groups.
    Groups {
        /// Channels of what.
        of: &'static str,
        /// How many.
        channels: usize,
        /// Groups.
        groups: usize,
    },
    /// The weight is for another number of channels.
    WeightChannels {
        /// Of the input.
        channels: usize,
        /// Of the weight, for one group.
        per_group: usize,
        /// Groups.
        groups: usize,
    },
    /// The kernel does not fit into the padded input.
    KernelTooLarge {
        /// From the first to the last element of the kernel.
        span: usize,
        /// Length of the input with its padding.
        padded: usize,
    },
    /// A window could be nothing but padding.
    TooMuchPadding {
        /// At one end.
        padding: usize,
        /// Length of the kernel.
        kernel: usize,
    },
    /// Padding leaves nothing of a transposed convolution's output.
    NothingLeft {
        /// Length of the output with its padding.
        padded: u128,
        /// Padding at both ends.
        padding: u128,
    },
    /// The output of a transposed convolution is longer at its end than one more step of the stride.
    OutputPadding {
        /// Added at the end.
        padding: usize,
        /// From one input to the next.
        stride: usize,
    },
    /// Windows are moved by a whole window or more.
    Shift {
        /// How far.
        shift: usize,
        /// Length of the window.
        window: usize,
    },
    /// A frequency of the axis of which half of the spectrum is computed.
    NegativeFrequency {
        /// Which one.
        frequency: i32,
    },
    /// A window of a dilated kernel holds no input.
    EmptyWindow {
        /// Which window.
        output: usize,
    },
}

impl ShapeError {
    /// The same about the axis of this number: depth, height, width.
    ///
    /// # Panics
    ///
    /// If there is no such axis.
    #[must_use]
    pub fn along(self, axis: usize) -> Self {
        Self { axis: Some(AXES[axis]), ..self }
    }
}

impl From<ShapeProblem> for ShapeError {
    fn from(problem: ShapeProblem) -> Self {
        Self { axis: None, problem }
    }
}

impl fmt::Display for ShapeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.axis.map_or(Ok(()), |axis| write!(formatter, "{axis}: "))?;
        self.problem.fmt(formatter)
    }
}

impl fmt::Display for ShapeProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zero { name } => write!(formatter, "expected a length of at least 1 for the {name}, found 0"),
            Self::TooLarge { what, bytes } => {
                write!(formatter, "expected at most {MOST_BYTES} bytes of float32 for {what}, found {bytes}")
            }
            Self::Groups { of, channels, groups } => {
                write!(formatter, "expected groups that divide the {channels} channels of the {of}, found {groups}")
            }
            Self::WeightChannels { channels, per_group, groups } => write!(
                formatter,
                "expected a weight for {channels} input channels, found one for {groups} groups of {per_group}"
            ),
            Self::KernelTooLarge { span, padded } => write!(
                formatter,
                "expected a kernel that spans at most the padded input of {padded}, found one that spans {span}: \
                 take a smaller kernel or pad more"
            ),
            Self::TooMuchPadding { padding, kernel } => write!(
                formatter,
                "expected padding of at most half of the kernel, {} for a kernel of {kernel}, found {padding}",
                kernel / 2
            ),
            Self::NothingLeft { padded, padding } => write!(
                formatter,
                "expected padding that leaves something of an output of {padded}, found {padding} at both ends together"
            ),
            Self::OutputPadding { padding, stride } => write!(
                formatter,
                "expected an output padding that is smaller than the stride of {stride}, found {padding}"
            ),
            Self::Shift { shift, window } => {
                write!(formatter, "expected a shift that is shorter than the window of {window}, found {shift}")
            }
            Self::NegativeFrequency { frequency } => write!(
                formatter,
                "expected frequencies of 0 and above, since the others are their conjugates, found {frequency}"
            ),
            Self::EmptyWindow { output } => write!(
                formatter,
                "expected an input in every window, found none in window {output}: take a smaller dilation"
            ),
        }
    }
}

impl std::error::Error for ShapeError {}
