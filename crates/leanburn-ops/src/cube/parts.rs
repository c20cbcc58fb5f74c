//! How a sum over the positions of a channel is shared out.

/// The most units that share the positions of a channel.
const MOST_PARTS: usize = 2048;

/// Positions that are worth a unit.
const POSITIONS_OF_A_PART: usize = 64;

/// How many units share the positions of a channel of a volume.
pub(super) fn parts_of([_, _, depth, height, width]: [usize; 5]) -> usize {
    (depth * height * width / POSITIONS_OF_A_PART).clamp(1, MOST_PARTS)
}
