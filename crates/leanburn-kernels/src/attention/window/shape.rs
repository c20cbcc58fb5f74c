//! Shape of an attention in windows.

use std::ops::Range;

use crate::shape_error::{AXES, ShapeError, ShapeProblem};
use crate::size::{check_volume, product};

/// Tasks of all heads together, if there are so many windows. A number of its own, so that no result depends on that of the
/// threads.
const TASKS: usize = 64;

/// Shape of an attention in windows.
///
/// Queries, keys and values are `[batch_size, heads * head_channels, depth, height, width]`. Every value of this type was
/// validated: no extent is zero, and its volumes can be addressed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WindowShape {
    pub(super) batch_size: usize,
    pub(super) heads: usize,
    pub(super) head_channels: usize,
    pub(super) volume: [usize; 3],
    /// The window that the table of biases is made for.
    pub(super) table_window: [usize; 3],
    /// The window, no longer than the volume along any axis.
    pub(super) window: [usize; 3],
    /// How far the windows are moved: none along an axis that one window covers.
    pub(super) shift: [usize; 3],
    pub(super) scale: f32,
}

impl WindowShape {
    /// Attention in windows of a volume; `scale` multiplies the scores, usually by `1 / sqrt(head_channels)`.
    ///
    /// Along an axis that is no longer than the window, the window is the axis, and is not shifted. Windows begin at
    /// `shift`; the last one of a shifted axis is made of both ends of the axis, which do not attend to each other.
    ///
    /// # Errors
    ///
    /// Where an extent is zero, a shift is not shorter than the window, or a volume or the table of biases takes more than 128 TiB.
    pub fn new(
        [batch_size, heads, head_channels]: [usize; 3],
        volume: [usize; 3],
        [window, shift]: [[usize; 3]; 2],
        scale: f32,
    ) -> Result<Self, ShapeError> {
        let extents = [("batch", batch_size), ("heads", heads), ("channels of a head", head_channels)];
        if let Some((name, _)) = extents.into_iter().find(|(_, extent)| *extent == 0) {
            return Err(ShapeProblem::Zero { name }.into());
        }
        for axis in 0..AXES.len() {
            for (name, extent) in [("volume", volume[axis]), ("window", window[axis])] {
                if extent == 0 {
                    return Err(ShapeError::from(ShapeProblem::Zero { name }).along(axis));
                }
            }
            if shift[axis] >= window[axis] {
                let problem = ShapeProblem::Shift { shift: shift[axis], window: window[axis] };
                return Err(ShapeError::from(problem).along(axis));
            }
        }
        check_volume(
            "the table of biases",
            &[heads, bias_extent(window[0]), bias_extent(window[1]), bias_extent(window[2])],
        )?;
        let fitted: [usize; 3] = std::array::from_fn(|axis| window[axis].min(volume[axis]));
        let padded: [usize; 3] = std::array::from_fn(|axis| crate::size::whole(volume[axis], fitted[axis]));
        check_volume("the padded volume", &[batch_size, heads, head_channels, padded[0], padded[1], padded[2]])?;
        let shift = std::array::from_fn(|axis| if volume[axis] > window[axis] { shift[axis] } else { 0 });
        Ok(Self { batch_size, heads, head_channels, volume, table_window: window, window: fitted, shift, scale })
    }

    /// Number of elements of the query, the key, the value, the output and their gradients.
    pub fn volume_len(&self) -> usize {
        self.all_heads() * self.head_channels * self.positions()
    }

    /// Number of the softmax's denominators, one for each query of each head.
    pub fn log_sum_exp_len(&self) -> usize {
        self.all_heads() * self.positions()
    }

    /// Number of rows of the table of biases: relative positions in a window.
    pub fn table_rows(&self) -> usize {
        self.table_window.map(bias_extent).iter().product()
    }

    /// Number of elements of the table of biases, `[table_rows, heads]`.
    pub fn table_len(&self) -> usize {
        self.table_rows() * self.heads
    }

    /// Number of channels, for each of which there is the key and the value of a position outside of the volume.
    pub fn channels(&self) -> usize {
        self.heads * self.head_channels
    }

    /// Floating-point operations of forward: the scores and the sums of values. The largest number where they are more.
    pub fn flops(&self) -> u64 {
        let tokens = self.tokens();
        product(&[4, self.all_heads(), self.head_channels, self.windows(), tokens, tokens]) as u64
    }

    pub(super) fn all_heads(&self) -> usize {
        self.batch_size * self.heads
    }

    /// Positions of the volume.
    pub(super) fn positions(&self) -> usize {
        self.volume.iter().product()
    }

    /// Positions of a window.
    pub(super) fn tokens(&self) -> usize {
        self.window.iter().product()
    }

    /// Windows along each axis.
    pub(super) fn grid(&self) -> [usize; 3] {
        std::array::from_fn(|axis| self.volume[axis].div_ceil(self.window[axis]))
    }

    pub(super) fn windows(&self) -> usize {
        self.grid().iter().product()
    }

    /// Tasks that the windows of each head are cut into.
    pub(super) fn tasks_of_head(&self) -> usize {
        (TASKS / self.all_heads()).clamp(1, self.windows())
    }

    /// The windows of a task of a head.
    pub(super) fn windows_of(&self, task: usize) -> Range<usize> {
        let (windows, tasks) = (self.windows(), self.tasks_of_head());
        let first = |task: usize| task * (windows / tasks) + task.min(windows % tasks);
        first(task)..first(task + 1)
    }

    /// Panics unless volumes, table and padding have these lengths.
    pub(super) fn check(&self, volumes: &[usize], table: usize, padding: [usize; 2]) {
        let len = self.volume_len();
        assert!(volumes.iter().all(|found| *found == len), "{self:?} has volumes of {volumes:?} elements");
        assert_eq!(table, self.table_len(), "the table of biases of {self:?}");
        assert_eq!(padding, [self.channels(); 2], "the padding of {self:?}");
    }
}

/// Differences between two places along an axis of a window.
fn bias_extent(window: usize) -> usize {
    window.saturating_mul(2) - 1
}
