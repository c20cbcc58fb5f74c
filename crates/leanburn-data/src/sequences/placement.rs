//! Where a training window lies on the fields: as they are, rolled along their axes, turned.

use crate::random::{Stream, generator};
use crate::sequences::config::SequenceConfig;
use rand::RngExt;

/// How the places of a plane change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placement {
    /// Quarter turns; an odd number of them is for square planes alone.
    turns: u32,
    /// Places that values move down and to the right, coming in again on the other side.
    roll: [usize; 2],
}

impl Placement {
    /// As the fields are.
    pub(super) const PLAIN: Self = Self { turns: 0, roll: [0; 2] };

    /// That of a training window on fields of a size, as far as a configuration allows changes.
    pub(super) fn draw(config: &SequenceConfig, size: [usize; 2], seed: u64, window: u64) -> Self {
        if !config.roll && !config.rotate90 {
            return Self::PLAIN;
        }
        let mut random = generator(seed, Stream::Augmentation, window);
        let roll = size.map(|length| random.random_range(0..length));
        let turns = random.random_range(0..4);
        Self { turns: if config.rotate90 { turns } else { 0 }, roll: if config.roll { roll } else { [0; 2] } }
    }

    /// A plane, `[height, width]`, with its values in their new places.
    pub(super) fn place(self, plane: &[f32], [height, width]: [usize; 2], placed: &mut [f32]) {
        if self == Self::PLAIN {
            return placed.copy_from_slice(plane);
        }
        let [down, right] = self.roll;
        for (y, line) in placed.chunks_exact_mut(width).enumerate() {
            for (x, value) in line.iter_mut().enumerate() {
                let [y, x] = match self.turns {
                    0 => [y, x],
                    1 => [x, width - 1 - y],
                    2 => [height - 1 - y, width - 1 - x],
                    _ => [height - 1 - x, y],
                };
                *value = plane[(y + height - down) % height * width + (x + width - right) % width];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(placement: Placement, size: [usize; 2]) -> Vec<f32> {
        let plane: Vec<f32> = (0..size[0] * size[1]).map(|at| at as f32).collect();
        let mut placed = vec![f32::NAN; plane.len()];
        placement.place(&plane, size, &mut placed);
        placed
    }

    #[test]
    fn values_go_where_they_should() {
        assert_eq!(placed(Placement::PLAIN, [2, 3]), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(placed(Placement { turns: 0, roll: [1, 2] }, [2, 3]), [4.0, 5.0, 3.0, 1.0, 2.0, 0.0]);
        assert_eq!(placed(Placement { turns: 2, roll: [0, 0] }, [2, 3]), [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]);
        // Against the clock, as numpy.rot90 turns.
        assert_eq!(placed(Placement { turns: 1, roll: [0, 0] }, [2, 2]), [1.0, 3.0, 0.0, 2.0]);
        assert_eq!(placed(Placement { turns: 3, roll: [0, 0] }, [2, 2]), [2.0, 0.0, 3.0, 1.0]);
    }

    #[test]
    fn every_place_and_turn_is_drawn_where_it_is_allowed() {
        let config = |roll, rotate90| SequenceConfig { roll, rotate90, ..SequenceConfig::default() };
        let drawn = |roll, rotate90| -> std::collections::BTreeSet<(u32, [usize; 2])> {
            let draw = |window| Placement::draw(&config(roll, rotate90), [3, 4], 1, window);
            (0..600).map(draw).map(|placement| (placement.turns, placement.roll)).collect()
        };
        assert_eq!(drawn(false, false).len(), 1);
        assert_eq!(drawn(true, false).len(), 12);
        assert_eq!(drawn(false, true).len(), 4);
        assert_eq!(drawn(true, true).len(), 48);
    }
}
