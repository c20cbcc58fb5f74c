//! Planes of several volumes in one: a slab of a volume that is kept in pieces along its depth.

use std::ops::Range;

use rayon::prelude::*;

use crate::Stored;
use crate::buffer::filled;
use crate::size::product;

/// A piece of a volume, `[items, planes, plane]`, and which of its planes are taken.
#[derive(Clone, Debug)]
pub struct Piece<'a, E> {
    /// The values, `items * planes` planes.
    pub values: &'a [E],
    /// Planes of each item.
    pub planes: usize,
    /// Those that are taken.
    pub taken: Range<usize>,
}

/// The taken planes of all pieces, one behind the other: `[items, planes, plane]`, where an item is a channel of an item of the batch.
///
/// # Memory
///
/// The result. Reads and writes it once.
///
/// # Panics
///
/// If a piece does not have so many planes of `plane` values for each of the `items`.
pub fn gather<E: Stored>(items: usize, plane: usize, pieces: &[Piece<'_, E>]) -> Vec<E> {
    for piece in pieces {
        assert_eq!(
            piece.values.len(),
            product(&[items, piece.planes, plane]),
            "a piece has planes of the same size for each item"
        );
        assert!(piece.taken.end <= piece.planes, "{:?} of a piece of {} planes", piece.taken, piece.planes);
    }
    let planes = pieces.iter().fold(0_usize, |planes, piece| planes.saturating_add(piece.taken.len()));
    let each = product(&[planes, plane]);
    let run = |target: &mut [std::mem::MaybeUninit<E>]| {
        if each == 0 {
            return;
        }
        target.par_chunks_mut(each).enumerate().for_each(|(item, mut target)| {
            for Piece { values, planes, taken } in pieces {
                let (part, rest) = target.split_at_mut(taken.len() * plane);
                let first = (item * planes + taken.start) * plane;
                part.write_copy_of_slice(&values[first..first + part.len()]);
                target = rest;
            }
        });
    };
    // SAFETY: the pieces' planes add up to those of the result, and each of them is as long as was checked.
    unsafe { filled(product(&[items, each]), run) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn planes_of_pieces_follow_each_other_in_each_item() {
        // Two items of planes of two values; the tens say which piece, the ones which plane.
        let first = [0.0f32, 0.5, 1.0, 1.5, 2.0, 2.5, 100.0, 100.5, 101.0, 101.5, 102.0, 102.5];
        let second = [10.0f32, 10.5, 110.0, 110.5];
        let pieces = [
            Piece { values: first.as_slice(), planes: 3, taken: 1..3 },
            Piece { values: &second, planes: 1, taken: 0..1 },
        ];
        let expected = [1.0, 1.5, 2.0, 2.5, 10.0, 10.5, 101.0, 101.5, 102.0, 102.5, 110.0, 110.5];
        assert_eq!(gather(2, 2, &pieces), expected);
        assert_eq!(gather::<f32>(2, 2, &[]), []);
    }

    #[test]
    #[should_panic(expected = "a piece has planes of the same size for each item")]
    fn a_piece_of_another_size_is_rejected() {
        gather(2, 2, &[Piece { values: &[0f32; 6], planes: 1, taken: 0..1 }]);
    }
}
