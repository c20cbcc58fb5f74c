//! Splitting volumes into training and validation.

use crate::random::{Stream, generator};
use crate::sampling::patch::Region;
use rand::seq::SliceRandom;

/// Which part of a volume is trained on and which is validated on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// All of it trains.
    Train,
    /// All of it validates.
    Validate,
    /// The only volume there is: its last slab validates.
    Both,
}

/// The roles of `count` volumes. Of several, a random `fraction` is set apart, at least one and not
/// all; of one volume, a slab.
pub(crate) fn roles(count: usize, fraction: f64, seed: u64) -> Vec<Role> {
    if fraction <= 0.0 || count == 0 {
        return vec![Role::Train; count];
    }
    if count == 1 {
        return vec![Role::Both];
    }
    let mut order: Vec<usize> = (0..count).collect();
    order.shuffle(&mut generator(seed, Stream::Split, 0));
    let held_out = share(count, fraction);
    let mut roles = vec![Role::Train; count];
    order[..held_out].iter().for_each(|index| roles[*index] = Role::Validate);
    roles
}

impl Role {
    /// The parts for training and for validation of a volume of `extent` voxels.
    ///
    /// The slab is the last `fraction` of the longest axis. A volume of one voxel has none.
    pub(crate) fn regions(self, extent: [usize; 3], fraction: f64) -> [Option<Region>; 2] {
        let whole = Region::whole(extent);
        match self {
            Self::Train => [Some(whole), None],
            Self::Validate => [None, Some(whole)],
            Self::Both => {
                let longest = (0..3).rev().max_by_key(|axis| extent[*axis]).unwrap_or(0);
                if extent[longest] < 2 {
                    return [Some(whole), None];
                }
                let border = extent[longest] - share(extent[longest], fraction);
                let (mut train, mut validation) = (whole, whole);
                train.end[longest] = border;
                validation.start[longest] = border;
                [Some(train), Some(validation)]
            }
        }
    }
}

/// A fraction of `count`, at least 1 and at most all but one.
pub(crate) fn share(count: usize, fraction: f64) -> usize {
    ((count as f64 * fraction).round() as usize).clamp(1, count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_follow_the_seed_and_the_fraction() {
        let held_out = |roles: &[Role]| roles.iter().filter(|role| **role == Role::Validate).count();
        assert_eq!(held_out(&roles(10, 0.2, 1)), 2);
        assert_eq!(held_out(&roles(3, 0.01, 1)), 1);
        assert_eq!(held_out(&roles(2, 0.9, 1)), 1);
        assert_eq!(roles(10, 0.2, 1), roles(10, 0.2, 1));
        assert!((2..9).any(|seed| roles(10, 0.2, seed) != roles(10, 0.2, 1)));
        assert_eq!(roles(3, 0.0, 1), [Role::Train; 3]);
        assert_eq!(roles(1, 0.2, 1), [Role::Both]);
    }

    #[test]
    fn the_slab_ends_the_longest_axis() {
        let [train, validation] = Role::Both.regions([5, 20, 20], 0.25);
        assert_eq!(train.unwrap(), Region { start: [0; 3], end: [5, 15, 20] });
        assert_eq!(validation.unwrap(), Region { start: [0, 15, 0], end: [5, 20, 20] });
        assert_eq!(Role::Both.regions([1, 1, 1], 0.5)[1], None);
    }
}
