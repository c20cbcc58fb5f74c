//! Which windows of frames are trained on and which are validated on.

use crate::error::DataError;
use crate::sampling::split::share;

/// The frames of a sequence before and behind a border, in windows that reach over neither the border nor the end of a trajectory.
#[derive(Debug, Clone)]
pub(super) struct TimeSplit {
    frames: usize,
    border: usize,
    /// Frames of a window.
    days: usize,
    /// Frames of each trajectory, where there are several.
    trajectory: Option<usize>,
}

impl TimeSplit {
    /// The last share of the time is held out, of several trajectories the last ones.
    ///
    /// # Errors
    /// If a part has no room for a window.
    pub(super) fn new(
        frames: usize,
        trajectory: Option<usize>,
        days: usize,
        val_fraction: f64,
    ) -> Result<Self, DataError> {
        let trajectory = trajectory.filter(|length| *length < frames);
        let unit = trajectory.unwrap_or(1);
        let (units, held_out) = (frames / unit, val_fraction > 0.0);
        let border = if held_out && units > 1 { (units - share(units, val_fraction)) * unit } else { frames };
        let split = Self { frames, border, days, trajectory };
        if split.train_len() == 0 || (held_out && split.val_len() == 0) {
            let each = if trajectory.is_some() { "each trajectory" } else { "each part" };
            let expected = format!("{days} frames (input_days + predict_days) or more in {each}");
            let found = match trajectory {
                Some(length) => format!("trajectories of {length}"),
                None => format!("{border} for training and {} for validation, of {frames}", frames - border),
            };
            let remedy = "Add frames, ask for fewer days, or change `val_fraction` (0 for no validation).";
            return Err(DataError::malformed(expected, found, remedy));
        }
        Ok(split)
    }

    /// The first frame that is held out.
    pub(super) fn border(&self) -> usize {
        self.border
    }

    pub(super) fn train_len(&self) -> usize {
        self.windows(self.border)
    }

    pub(super) fn val_len(&self) -> usize {
        self.windows(self.frames - self.border)
    }

    /// The first frame of a window that is trained on.
    pub(super) fn train_start(&self, index: usize) -> usize {
        self.start(index)
    }

    /// The first frame of a window that is validated on.
    pub(super) fn val_start(&self, index: usize) -> usize {
        self.border + self.start(index)
    }

    fn windows(&self, frames: usize) -> usize {
        match self.trajectory {
            Some(length) => frames / length * self.windows_of(length),
            None => self.windows_of(frames),
        }
    }

    fn windows_of(&self, frames: usize) -> usize {
        (frames + 1).saturating_sub(self.days)
    }

    fn start(&self, index: usize) -> usize {
        match self.trajectory {
            Some(length) => index / self.windows_of(length) * length + index % self.windows_of(length),
            None => index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_window_reaches_over_a_border() {
        let split = TimeSplit::new(15, Some(5), 3, 0.3).unwrap();
        assert_eq!((split.border(), split.train_len(), split.val_len()), (10, 6, 3));
        let starts: Vec<usize> = (0..6).map(|index| split.train_start(index)).collect();
        assert_eq!(starts, [0, 1, 2, 5, 6, 7]);
        assert_eq!((0..3).map(|index| split.val_start(index)).collect::<Vec<_>>(), [10, 11, 12]);
        let one = TimeSplit::new(15, Some(15), 3, 0.3).unwrap();
        assert_eq!((one.border(), one.train_len(), one.val_start(1)), (10, 8, 11), "split in time");
        let error = TimeSplit::new(15, Some(5), 6, 0.3).unwrap_err().to_string();
        assert!(error.contains("6 frames") && error.contains("trajectories of 5"), "{error}");
        assert_eq!(TimeSplit::new(10, Some(5), 1, 0.0).unwrap().val_len(), 0);
    }
}
