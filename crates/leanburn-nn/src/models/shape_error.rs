//! Volumes that a model cannot take.

use leanburn_common::ValidationError;
use thiserror::Error;

/// An input whose shape does not fit a model.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ShapeError {
    /// Other channels than the model's.
    #[error(
        "the input has {found} channels, the model takes {expected}; set in_channels = {found} or pick other channels"
    )]
    Channels {
        /// Channels of the model.
        expected: usize,
        /// Channels of the input.
        found: usize,
    },
    /// An axis that cannot be divided as often as the model does.
    #[error(
        "the volume is {found:?}, but depth, height and width must be multiples of {multiples:?} to be divided between \
         levels; pad it to {:?} or crop it to {:?}",
        padded(*found, *multiples),
        cropped(*found, *multiples)
    )]
    Volume {
        /// Depth, height and width of the input.
        found: [usize; 3],
        /// What depth, height and width must be multiples of.
        multiples: [usize; 3],
    },
    /// An axis of which the convolutions leave nothing.
    #[error(
        "the volume is {found:?}, but each axis must have at least {least} voxels; enlarge it or take fewer layers"
    )]
    TooSmall {
        /// Depth, height and width of the input.
        found: [usize; 3],
        /// Voxels that each axis must have.
        least: usize,
    },
    /// A grid of more axes than the model's, or an empty one.
    #[error("the grid is {found:?}, but the model's have {axes} axes: expected {}", of_axes(*axes))]
    Axes {
        /// Depth, height and width of the input.
        found: [usize; 3],
        /// Axes of the model, counted from the width.
        axes: usize,
    },
}

impl ShapeError {
    /// This error as that of a configuration whose field `key` sets the volume, in its parts.
    #[must_use]
    pub fn into_validation_error(self, key: &str) -> ValidationError {
        let (expected, found, help) = match self {
            Self::Channels { expected, found } => {
                let help = format!("set `in_channels` to {found} or pick other channels");
                (format!("{expected} channels"), found.to_string(), help)
            }
            Self::Volume { found, multiples } => {
                let help = format!("use {:?}, or fewer levels", padded(found, multiples));
                let expected = match multiples {
                    [one, two, three] if one == two && two == three => format!("multiples of {one}"),
                    _ => format!("multiples of {multiples:?}"),
                };
                (format!("{expected}, by which the levels divide the volume"), format!("{found:?}"), help)
            }
            Self::TooSmall { found, least } => {
                let help =
                    format!("enlarge the volume to {:?}, or use fewer layers", found.map(|axis| axis.max(least)));
                (format!("at least {least} voxels along each axis"), format!("{found:?}"), help)
            }
            Self::Axes { found, axes } => {
                let expected = format!("{axes} axes: {}", of_axes(axes));
                (expected, format!("{found:?}"), "list `modes` for as many axes as the fields have".to_string())
            }
        };
        ValidationError { key: key.to_string(), with: Vec::new(), expected, found, help }
    }

    /// An error unless the channels are those expected and each axis is a multiple.
    pub(super) fn unless_multiples(
        shape: [usize; 5],
        in_channels: usize,
        multiples: [usize; 3],
    ) -> Result<(), ShapeError> {
        let [_, channels, found @ ..] = shape;
        if channels != in_channels {
            return Err(ShapeError::Channels { expected: in_channels, found: channels });
        }
        let fits = |axis: usize| found[axis] > 0 && found[axis].is_multiple_of(multiples[axis]);
        if (0..3).all(fits) { Ok(()) } else { Err(ShapeError::Volume { found, multiples }) }
    }

    /// An error unless the channels are those expected and each axis is long enough.
    pub(super) fn unless_large_enough(
        shape: [usize; 5],
        in_channels: usize,
        is_enough: impl Fn(usize) -> bool,
    ) -> Result<(), ShapeError> {
        let [_, channels, found @ ..] = shape;
        if channels != in_channels {
            return Err(ShapeError::Channels { expected: in_channels, found: channels });
        }
        if found.iter().all(|length| is_enough(*length)) {
            return Ok(());
        }
        let least = (1..=1 << 20).find(|length| is_enough(*length)).unwrap_or(usize::MAX);
        Err(ShapeError::TooSmall { found, least })
    }
}

/// Which axes are not used.
fn of_axes(axes: usize) -> &'static str {
    match axes {
        1 => "a depth and a height of 1, no axis of length 0",
        2 => "a depth of 1, no axis of length 0",
        _ => "no axis of length 0",
    }
}

/// The next larger volume of which each axis is a multiple.
fn padded(volume: [usize; 3], multiples: [usize; 3]) -> [usize; 3] {
    std::array::from_fn(|axis| volume[axis].max(1).div_ceil(multiples[axis]).saturating_mul(multiples[axis]))
}

/// The next smaller volume of which each axis is a multiple.
fn cropped(volume: [usize; 3], multiples: [usize; 3]) -> [usize; 3] {
    std::array::from_fn(|axis| (volume[axis] / multiples[axis]).max(1) * multiples[axis])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_is_told_which_volume_fits() {
        let error = ShapeError::Volume { found: [9, 9, 8], multiples: [2; 3] }.into_validation_error("patch_size");
        assert!(error.to_string().starts_with("patch_size: expected multiples of 2, "), "{error}");
        assert_eq!((error.found.as_str(), error.help.as_str()), ("[9, 9, 8]", "use [10, 10, 8], or fewer levels"));
        let error = ShapeError::TooSmall { found: [8, 40, 40], least: 24 }.into_validation_error("patch_size");
        assert!(error.help.starts_with("enlarge the volume to [24, 40, 40]"), "{}", error.help);
    }
}
