//! Which cell of the ground every point of the cameras' views lies in.

use burn::config::Config;
use leanburn_common::{Camera, Validation, ValidationError};
use leanburn_ops::BevCells;

/// The most steps of a range.
const MOST_STEPS: f64 = 65_536.0;

/// The space that is seen from above, and the depths at which points of it are looked for. Each range is `[from, to, step]` in metres.
///
/// Axes are those of a [camera](Camera) that looks ahead: `x` to the right, `y` down, `z` forward.
#[derive(Config, Debug, PartialEq)]
pub struct BevGridConfig {
    /// To the right: the columns of the view.
    #[config(default = "[-25.0, 25.0, 0.5]")]
    pub x: [f64; 3],
    /// Down: layers, whose channels stand one behind the other in the view.
    #[config(default = "[-10.0, 10.0, 20.0]")]
    pub y: [f64; 3],
    /// Forward: the rows of the view, the nearest first.
    #[config(default = "[1.0, 50.0, 0.5]")]
    pub z: [f64; 3],
    /// Depths: `from`, `from + step`, .. below `to`.
    #[config(default = "[1.0, 50.0, 1.0]")]
    pub depth: [f64; 3],
}

impl BevGridConfig {
    /// Everything that is wrong with the configuration.
    #[must_use]
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        for (key, range) in [("x", self.x), ("y", self.y), ("z", self.z), ("depth", self.depth)] {
            let [from, to, step] = range;
            let steps = (to - from) / step;
            let is_range = range.iter().all(|value| value.is_finite()) && step > 0.0 && to > from;
            let expected = "[from, to, step], finite, `to` above `from` and `step` above 0";
            let help = "write a range such as [-25, 25, 0.5]";
            validation.check(is_range && steps <= MOST_STEPS, key, expected, format!("{range:?}"), help);
            let is_whole = !is_range || key == "depth" || (steps - steps.round()).abs() < 1e-6;
            let (expected, found) = ("a whole number of steps", format!("{steps} steps in {range:?}"));
            validation.check(is_whole, key, expected, found, "change the end or the step");
        }
        let near = self.depth[0];
        validation.check(near > 0.0 || near.is_nan(), "depth", "depths above 0", near, "begin with 1");
        validation.errors()
    }

    /// The depths.
    pub fn depths(&self) -> Vec<f64> {
        let [from, to, step] = self.depth;
        (0..((to - from) / step).ceil() as usize).map(|bin| from + step * bin as f64).collect()
    }

    /// Cells along `y`, `z` and `x`.
    pub fn cells_along(&self) -> [usize; 3] {
        [self.y, self.z, self.x].map(|[from, to, step]| ((to - from) / step).round() as usize)
    }

    /// The cells of the points that the pixels of each item's cameras show at every depth.
    ///
    /// Pixels are evenly spaced from the first of an image to its last; a point belongs to the cell whose lower ends are at most as large as its
    /// coordinates. (The original rounds towards zero instead, and so adds what lies up to one cell before the first cells to these.)
    ///
    /// # Shapes
    ///
    /// - `cameras`: those of each item, all as many
    /// - `image_size`, `pixels`: rows and columns of an image, and of the pixels of it that are lifted
    ///
    /// # Panics
    ///
    /// Panics if there are no items, no cameras or no pixels, or other cameras for one item than for another.
    pub fn cells(&self, cameras: &[Vec<Camera>], image_size: [usize; 2], pixels: [usize; 2]) -> BevCells {
        let count = cameras.first().map_or(0, Vec::len);
        assert!(
            count > 0 && cameras.iter().all(|rig| rig.len() == count),
            "expected as many cameras for each item, found {:?}",
            cameras.iter().map(Vec::len).collect::<Vec<_>>()
        );
        let [rows, columns] = [0, 1].map(|axis| places(image_size[axis], pixels[axis]));
        let depths = self.depths();
        let mut cells = Vec::with_capacity(cameras.len() * depths.len() * count * rows.len() * columns.len());
        for rig in cameras {
            let rays: Vec<_> = rig.iter().map(Camera::rays).collect();
            for &depth in &depths {
                for rays in &rays {
                    let row = |v: &f64| columns.iter().map(|u| rays.point([*u, *v], depth)).collect::<Vec<_>>();
                    cells.extend(rows.iter().flat_map(row).map(|point| self.cell(point)));
                }
            }
        }
        BevCells::new(depths.len(), count * rows.len() * columns.len(), self.cells_along(), cells)
    }

    /// The number of a point's cell.
    fn cell(&self, [x, y, z]: [f64; 3]) -> u32 {
        let counts = self.cells_along();
        let along =
            [(y, self.y), (z, self.z), (x, self.x)].map(|(value, [from, _, step])| ((value - from) / step).floor());
        // a value that is not a number is in no range
        let is_inside = along.iter().zip(counts).all(|(place, count)| *place >= 0.0 && *place < count as f64);
        let number = || along.iter().zip(counts).fold(0, |number, (place, count)| number * count + *place as usize);
        if is_inside { number() as u32 } else { BevCells::OUTSIDE }
    }
}

/// So many places from the first of a length to its last.
pub(super) fn places(length: usize, count: usize) -> Vec<f64> {
    let step = (length as f64 - 1.0) / (count as f64 - 1.0).max(1.0);
    (0..count).map(|place| place as f64 * step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::keys;

    #[test]
    fn the_default_is_the_guides() {
        let grid = BevGridConfig::new();
        assert!(grid.validate().is_empty());
        assert_eq!((grid.depths().len(), grid.cells_along()), (49, [1, 98, 100]));
        assert_eq!((grid.depths()[0], grid.depths()[48]), (1.0, 49.0));
    }

    #[test]
    fn each_error_is_found() {
        let fields = |grid: BevGridConfig| keys(grid.validate());
        let valid = BevGridConfig::new;
        assert_eq!(fields(valid().with_x([5.0, -5.0, 1.0])), ["x"]);
        assert_eq!(fields(valid().with_y([-1.0, 1.0, 0.3])), ["y"]);
        assert_eq!(fields(valid().with_z([1.0, f64::INFINITY, 1.0])), ["z"]);
        assert_eq!(fields(valid().with_z([1.0, 2.0, 1e-9])), ["z"]);
        assert_eq!(fields(valid().with_depth([0.0, 5.0, 1.0])), ["depth"]);
        assert!(fields(valid().with_depth([1.0, 5.0, 0.3])).is_empty(), "the last step may end beyond");
    }

    /// A camera 2 m above the ground that looks ahead: what its middle shows at 3 m lies in the third row, in the middle.
    #[test]
    fn points_lie_in_the_cells_below_them() {
        let grid = BevGridConfig::new().with_x([-3.0, 3.0, 1.0]).with_y([-4.0, 4.0, 4.0]).with_z([1.0, 5.0, 1.0]);
        let grid = grid.with_depth([3.0, 9.0, 3.0]);
        let camera = Camera::pinhole(2.0, [3, 5]).at([0.25, -2.0, 0.0]);
        let cells = grid.cells(&[vec![camera]], [3, 5], [3, 5]);
        assert_eq!((cells.bins(), cells.pixels(), cells.grid()), (2, 15, [2, 4, 6]));
        let number = |layer: u32, row: u32, column: u32| (layer * 4 + row) * 6 + column;
        let near = cells.cells(0, 0);
        assert_eq!(near[7], number(0, 2, 3), "the middle");
        assert_eq!(near[6], number(0, 2, 1), "a pixel to the left: 1.5 m at a depth of 3");
        assert_eq!(near[5], number(0, 2, 0), "the first of the row: 3 m to the left of 0.25");
        assert_eq!(near[9], BevCells::OUTSIDE, "3 m to the right");
        assert_eq!(near[12], number(0, 2, 3), "the last row: 1.5 m down");
        assert!(cells.cells(0, 1).iter().all(|cell| *cell == BevCells::OUTSIDE), "6 m ahead");
    }

    #[test]
    #[should_panic = "as many cameras for each item, found [1, 2]"]
    fn items_have_as_many_cameras() {
        let camera = Camera::pinhole(2.0, [3, 5]);
        BevGridConfig::new().cells(&[vec![camera], vec![camera; 2]], [3, 5], [3, 5]);
    }
}
