use crate::foreground::Foreground;
use crate::patch::Region;
use crate::volume::Volume;

/// A patch with less foreground than this is taken only where there is no better one.
const ENOUGH_FOREGROUND: f64 = 0.1;

/// A patch for validation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Place {
    /// Index of the volume.
    pub(crate) volume: usize,
    /// What of the volume may be read.
    pub(crate) region: Region,
    pub(crate) start: [i64; 3],
    pub(crate) size: [usize; 3],
    /// Share of foreground.
    share: f64,
}

/// All patches side by side in a held-out region.
pub(crate) fn candidates(volume: &Volume, index: usize, region: Region, patch_size: Option<[usize; 3]>) -> Vec<Place> {
    let size = patch_size.unwrap_or(region.extent());
    let foreground = Foreground::of(volume, region);
    let place = |start: [i64; 3]| {
        let inside = |axis: usize, at: i64| at.clamp(region.start[axis] as i64, region.end[axis] as i64) as usize;
        let covered = Region {
            start: [0, 1, 2].map(|axis| inside(axis, start[axis])),
            end: [0, 1, 2].map(|axis| inside(axis, start[axis] + size[axis] as i64)),
        };
        Place { volume: index, region, start, size, share: foreground.share(volume, &covered) }
    };
    region.grid(size).into_iter().map(place).collect()
}

/// At most `most` of the patches, spread evenly, those with foreground first; order is kept.
pub(crate) fn choose(candidates: &[Place], most: usize) -> Vec<Place> {
    let (rich, poor): (Vec<usize>, Vec<usize>) =
        (0..candidates.len()).partition(|index| candidates[*index].share >= ENOUGH_FOREGROUND);
    let mut chosen = evenly(&rich, most);
    chosen.extend(evenly(&poor, most - chosen.len()));
    chosen.sort_unstable();
    chosen.into_iter().map(|index| candidates[index]).collect()
}

fn evenly(indices: &[usize], most: usize) -> Vec<usize> {
    let count = indices.len().min(most);
    (0..count).map(|step| indices[(2 * step + 1) * indices.len() / (2 * count)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affine::IDENTITY;

    #[test]
    fn chooses_evenly_and_prefers_foreground() {
        assert_eq!(evenly(&[0, 1, 2, 3, 4, 5], 3), [1, 3, 5]);
        assert_eq!(evenly(&[7, 8], 5), [7, 8]);
        // Foreground in the second half of a line of 8, patches of 1.
        let data = vec![0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0];
        let volume = Volume::new(data, [1, 1, 1, 8], IDENTITY).unwrap();
        let all = candidates(&volume, 0, Region::whole([1, 1, 8]), Some([1, 1, 1]));
        let starts = |most| -> Vec<i64> { choose(&all, most).iter().map(|place| place.start[2]).collect() };
        assert_eq!(starts(2), [5, 7]);
        assert_eq!(starts(4), [4, 5, 6, 7]);
        assert_eq!(starts(6), [1, 3, 4, 5, 6, 7]);
        assert_eq!(starts(100).len(), 8);
        let whole = candidates(&volume, 0, Region { start: [0, 0, 2], end: [1, 1, 8] }, None);
        assert_eq!((whole.len(), whole[0].start, whole[0].size), (1, [0, 0, 2], [1, 1, 6]));
    }
}
