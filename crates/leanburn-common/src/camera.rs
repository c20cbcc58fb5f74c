//! Where a pixel of an image is in the world.

/// A pinhole camera: what it does to points, where it stands, and what was done to its image since.
///
/// Axes of the camera point right, down and forward, as in [OpenCV](https://docs.opencv.org/4.x/d9/d0c/group__calib3d.html); lengths are in
/// metres, angles of the world as its owner has them. The centre of the first pixel is `[0, 0]`.
///
/// # Example
///
/// ```
/// use leanburn_common::Camera;
///
/// // 80 pixels wide, 60 high, a focal length of 40 pixels, 1.5 m above a ground whose axis points down
/// let camera = Camera::pinhole(40.0, [60, 80]).at([0.0, -1.5, 0.0]);
/// let point = camera.point([39.5, 49.5], 8.0);
/// assert_eq!(point, [0.0, 2.5, 8.0]);
/// let (pixel, depth) = camera.pixel(point).unwrap();
/// assert!((pixel[1] - 49.5).abs() < 1e-9 && depth == 8.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Camera {
    /// From a point in the camera's axes to a pixel: `depth [u, v, 1] = intrinsics [x, y, z]`.
    pub intrinsics: Matrix3,
    /// From the camera's axes to those of the world; a rotation.
    pub rotation: Matrix3,
    /// Where the camera stands in the world.
    pub translation: [f64; 3],
    /// What was done to the image: its rows, applied to `[u, v, 1]` of a pixel as it was taken, give the pixel's new place.
    pub augmentation: [[f64; 3]; 2],
}

/// Three rows.
pub type Matrix3 = [[f64; 3]; 3];

/// Every axis as it is.
const IDENTITY: Matrix3 = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];

impl Camera {
    /// A camera at the origin that looks along the third axis, with a focal length in pixels and the middle of an image of so many rows and
    /// columns before it.
    pub fn pinhole(focal_length: f64, [height, width]: [usize; 2]) -> Self {
        let middle = |length: usize| (length as f64 - 1.0) / 2.0;
        let intrinsics = [[focal_length, 0.0, middle(width)], [0.0, focal_length, middle(height)], [0.0, 0.0, 1.0]];
        let [first, second, _] = IDENTITY;
        Self { intrinsics, rotation: IDENTITY, translation: [0.0; 3], augmentation: [first, second] }
    }

    /// The same at another place.
    #[must_use]
    pub fn at(self, translation: [f64; 3]) -> Self {
        Self { translation, ..self }
    }

    /// The same in another direction.
    #[must_use]
    pub fn turned(self, rotation: Matrix3) -> Self {
        Self { rotation, ..self }
    }

    /// The same, its image changed once more.
    #[must_use]
    pub fn augmented(self, [row, column]: [[f64; 3]; 2]) -> Self {
        let whole = |[first, second]: [[f64; 3]; 2]| [first, second, IDENTITY[2]];
        let [first, second, _] = product(whole([row, column]), whole(self.augmentation));
        Self { augmentation: [first, second], ..self }
    }

    /// The point that a pixel shows at a depth: its distance along the camera's axis. Not finite where the intrinsics or the augmentation have
    /// no inverse.
    pub fn point(&self, pixel: [f64; 2], depth: f64) -> [f64; 3] {
        self.rays().point(pixel, depth)
    }

    /// The same for many pixels.
    pub fn rays(&self) -> Rays {
        let [first, second] = self.augmentation;
        let to_pixels = product([first, second, IDENTITY[2]], self.intrinsics);
        Rays { directions: product(self.rotation, inverse(to_pixels)), origin: self.translation }
    }

    /// The pixel that shows a point, and its depth; none for a point that is not before the camera.
    pub fn pixel(&self, point: [f64; 3]) -> Option<([f64; 2], f64)> {
        let from_camera: [f64; 3] = std::array::from_fn(|axis| point[axis] - self.translation[axis]);
        // the inverse of a rotation is its transpose
        let along = |axis: usize| (0..3).map(|row| self.rotation[row][axis] * from_camera[row]).sum();
        let [u, v, depth] = apply(self.intrinsics, std::array::from_fn(along));
        let of = |[a, b, c]: [f64; 3]| a * u / depth + b * v / depth + c;
        (depth > 0.0).then(|| (self.augmentation.map(of), depth))
    }
}

/// The lines of sight of a camera's pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rays {
    directions: Matrix3,
    origin: [f64; 3],
}

impl Rays {
    /// Where the camera stands.
    pub fn origin(&self) -> [f64; 3] {
        self.origin
    }

    /// The step along a pixel's line of sight that is one deeper.
    pub fn direction(&self, [u, v]: [f64; 2]) -> [f64; 3] {
        apply(self.directions, [u, v, 1.0])
    }

    /// The point that a pixel shows at a depth.
    pub fn point(&self, pixel: [f64; 2], depth: f64) -> [f64; 3] {
        let direction = self.direction(pixel);
        std::array::from_fn(|axis| self.origin[axis] + depth * direction[axis])
    }
}

fn apply(matrix: Matrix3, [x, y, z]: [f64; 3]) -> [f64; 3] {
    matrix.map(|[a, b, c]| a * x + b * y + c * z)
}

fn product(left: Matrix3, right: Matrix3) -> Matrix3 {
    left.map(|row| std::array::from_fn(|column| (0..3).map(|at| row[at] * right[at][column]).sum()))
}

/// By cofactors; not finite where there is none.
fn inverse(matrix: Matrix3) -> Matrix3 {
    let at = |row: usize, column: usize| matrix[row % 3][column % 3];
    let cofactor = |row: usize, column: usize| {
        at(row + 1, column + 1) * at(row + 2, column + 2) - at(row + 1, column + 2) * at(row + 2, column + 1)
    };
    let determinant: f64 = (0..3).map(|column| at(0, column) * cofactor(0, column)).sum();
    std::array::from_fn(|row| std::array::from_fn(|column| cofactor(column, row) / determinant))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter turn about the axis that points down: to the right.
    const RIGHT: Matrix3 = [[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]];

    #[test]
    fn a_turned_camera_looks_another_way() {
        let camera = Camera::pinhole(10.0, [5, 7]).turned(RIGHT).at([1.0, 2.0, 3.0]);
        assert_eq!(camera.point([3.0, 2.0], 4.0), [5.0, 2.0, 3.0]);
        assert_eq!(camera.pixel([5.0, 2.0, 3.0]), Some(([3.0, 2.0], 4.0)));
        assert_eq!(camera.pixel([0.0, 2.0, 3.0]), None, "behind the camera");
    }

    #[test]
    fn points_and_pixels_are_each_others_inverse_whatever_was_done_to_the_image() {
        let skewed = [[12.0, 0.3, 4.0], [0.0, 11.0, 3.0], [0.0, 0.0, 1.0]];
        let camera = Camera { intrinsics: skewed, ..Camera::pinhole(1.0, [1, 1]).turned(RIGHT).at([0.5, 0.0, -2.0]) };
        // half the size, a flip along the width, then a shift
        let camera =
            camera.augmented([[0.5, 0.0, 0.0], [0.0, 0.5, 0.0]]).augmented([[-1.0, 0.0, 8.0], [0.0, 1.0, -1.0]]);
        for pixel in [[0.0, 0.0], [3.5, 1.25], [-2.0, 7.0]] {
            let (found, depth) = camera.pixel(camera.point(pixel, 6.0)).unwrap();
            assert!((depth - 6.0).abs() < 1e-12, "{depth}");
            assert!(pixel.iter().zip(found).all(|(a, b)| (a - b).abs() < 1e-9), "{pixel:?} {found:?}");
        }
    }

    #[test]
    fn without_an_inverse_points_are_not_finite() {
        let flat = Camera { intrinsics: [[1.0, 0.0, 0.0]; 3], ..Camera::pinhole(1.0, [1, 1]) };
        assert!(flat.point([0.0, 0.0], 1.0).iter().any(|value| !value.is_finite()));
    }
}
