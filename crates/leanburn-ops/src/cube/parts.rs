//! How a sum over positions is shared out.

use leanburn_kernels::conv::ConvShape;

/// The most units that share the positions of a channel.
const MOST_UNITS: usize = 2048;

/// Positions that are worth a unit.
const POSITIONS_OF_A_PART: usize = 64;

/// How many units share the positions of a channel of a volume.
pub(super) fn parts_of([_, _, depth, height, width]: [usize; 5]) -> usize {
    (depth * height * width / POSITIONS_OF_A_PART).clamp(1, MOST_UNITS)
}

/// Sums that keep a card busy.
const BUSY: usize = 1 << 22;

/// Multiplications that are worth a part of the positions.
const OF_A_PART: usize = 1 << 20;

/// The most parts of the gradient of a weight.
const MOST_PARTS: usize = 256;

/// `[parts, channels_out, depth * height * width of the kernel, channels_in / groups]`: each part is of some rows of the output.
pub(super) fn dims_of_weight_parts(shape: &ConvShape) -> [usize; 4] {
    let ([batch_size, _, depth, height, _], [channels_out, per_group, kernel @ ..]) =
        (shape.output_dims(), shape.weight_dims());
    let most = (shape.multiplications() / OF_A_PART).min(batch_size * depth * height).clamp(1, MOST_PARTS);
    let parts = (BUSY / shape.weight_len().max(1)).clamp(1, most);
    [parts, channels_out, kernel.iter().product(), per_group]
}
