//! Patches for validation.

use crate::random::{Stream, generator};
use crate::sampling::foreground::Foreground;
use crate::sampling::patch::Region;
use crate::volumes::Volume;

/// A patch for validation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    /// Index of the volume.
    pub(crate) volume: usize,
    /// What of the volume may be read.
    pub(crate) region: Region,
    pub(crate) start: [i64; 3],
    pub(crate) size: [usize; 3],
}

/// At most `most` patches around foreground voxels of a held-out region, drawn once and for all; the whole region
/// where patches have no size.
///
/// They are like those that training draws: a validation loss measures what the model does with new data, not with
/// other data.
pub(crate) fn places(
    volume: &Volume,
    index: usize,
    region: Region,
    patch_size: Option<[usize; 3]>,
    most: usize,
    seed: u64,
) -> Vec<Place> {
    let Some(size) = patch_size else {
        return vec![Place { volume: index, region, start: region.start.map(|at| at as i64), size: region.extent() }];
    };
    let foreground = Foreground::of(volume, region);
    let place = |patch: usize| {
        let mut random = generator(seed, Stream::Validation, (index * most + patch) as u64);
        let start = match foreground.draw(volume, &mut random) {
            Some(centre) => region.start_around(centre, size),
            None => region.random_start(size, &mut random),
        };
        Place { volume: index, region, start, size }
    };
    (0..most).map(place).collect()
}

/// At most `most` of the places, spread evenly.
pub(crate) fn choose(places: &[Place], most: usize) -> Vec<Place> {
    let count = places.len().min(most);
    (0..count).map(|step| places[(2 * step + 1) * places.len() / (2 * count)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::volumes::affine::IDENTITY;

    #[test]
    fn patches_lie_around_the_foreground_of_the_region() {
        let data = vec![1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0];
        let volume = Volume::new(data, [1, 1, 1, 8], IDENTITY).unwrap();
        let region = Region { start: [0, 0, 2], end: [1, 1, 8] };
        let starts = |most: usize, seed: u64| -> Vec<i64> {
            places(&volume, 0, region, Some([1, 1, 1]), most, seed).iter().map(|place| place.start[2]).collect()
        };
        assert_eq!(starts(5, 1), [6; 5], "the voxel before the region is out of reach");
        let whole = places(&volume, 0, region, None, 9, 1);
        assert_eq!((whole.len(), whole[0].start, whole[0].size), (1, [0, 0, 2], [1, 1, 6]));
    }

    #[test]
    fn draws_depend_on_seed_volume_and_patch() {
        let volume = Volume::new((0..64).map(|value| value as f32).collect(), [1, 1, 1, 64], IDENTITY).unwrap();
        let starts = |index, seed| -> Vec<i64> {
            let places = places(&volume, index, Region::whole([1, 1, 64]), Some([1, 1, 1]), 4, seed);
            places.iter().map(|place| place.start[2]).collect()
        };
        assert_eq!(starts(0, 1), starts(0, 1));
        assert_ne!(starts(0, 1), starts(1, 1));
        assert_ne!(starts(0, 1), starts(0, 2));
        assert!(starts(0, 1).iter().any(|&start| start != starts(0, 1)[0]));
    }

    #[test]
    fn chooses_evenly() {
        let volume = Volume::new(vec![1.0; 6], [1, 1, 1, 6], IDENTITY).unwrap();
        let all: Vec<Place> =
            (0..6).flat_map(|index| places(&volume, index, Region::whole([1, 1, 6]), None, 1, 1)).collect();
        let chosen = |most| -> Vec<usize> { choose(&all, most).iter().map(|place| place.volume).collect() };
        assert_eq!(chosen(3), [1, 3, 5]);
        assert_eq!(chosen(100), [0, 1, 2, 3, 4, 5]);
        assert!(chosen(0).is_empty());
    }
}
