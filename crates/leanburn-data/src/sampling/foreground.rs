//! Foreground voxels of a volume, to draw patches around.

use crate::sampling::patch::Region;
use crate::volumes::Volume;
use rand::{Rng, RngExt};

/// Which voxels of a volume show something: those where any channel is above the mean of the whole
/// normalized volume. Holds a count for each plane, not a mask.
#[derive(Debug, Clone)]
pub(crate) struct Foreground {
    threshold: f32,
    region: Region,
    /// Foreground voxels of the region up to and with each of its x planes.
    counts: Vec<u64>,
}

impl Foreground {
    pub(crate) fn of(volume: &Volume, region: Region) -> Self {
        let sum: f64 = volume.data().iter().map(|value| f64::from(*value)).sum();
        let threshold = (sum / volume.data().len() as f64) as f32;
        let mut total = 0;
        let counts = (region.start[0]..region.end[0])
            .map(|x| {
                let plane =
                    Region { start: [x, region.start[1], region.start[2]], end: [x + 1, region.end[1], region.end[2]] };
                total += voxels(volume, &plane, threshold).count() as u64;
                total
            })
            .collect();
        Self { threshold, region, counts }
    }

    /// A foreground voxel of the region, each as likely as the other; none if there is none.
    pub(crate) fn draw(&self, volume: &Volume, random: &mut impl Rng) -> Option<[usize; 3]> {
        let total = *self.counts.last()?;
        if total == 0 {
            return None;
        }
        let chosen = random.random_range(0..total);
        let plane = self.counts.partition_point(|count| *count <= chosen);
        let before = if plane == 0 { 0 } else { self.counts[plane - 1] };
        let mut region = self.region;
        region.start[0] += plane;
        region.end[0] = region.start[0] + 1;
        voxels(volume, &region, self.threshold).nth((chosen - before) as usize)
    }
}

fn voxels<'a>(volume: &'a Volume, region: &Region, threshold: f32) -> impl Iterator<Item = [usize; 3]> + 'a {
    let Region { start, end } = *region;
    let [channels, width, height, depth] = volume.shape();
    let lines = (start[0]..end[0]).flat_map(move |x| (start[1]..end[1]).map(move |y| (x, y)));
    lines.flat_map(move |(x, y)| {
        (start[2]..end[2])
            .filter(move |z| {
                let above =
                    |channel: usize| volume.data()[((channel * width + x) * height + y) * depth + z] > threshold;
                (0..channels).any(above)
            })
            .map(move |z| [x, y, z])
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Stream, generator};
    use crate::volumes::affine::IDENTITY;
    use std::collections::HashSet;

    #[test]
    fn draws_every_foreground_voxel_of_the_region_and_no_other() {
        let mut data = vec![0.0; 2 * 4 * 3 * 5];
        let marked = [[0, 0, 0], [1, 2, 4], [2, 1, 1], [3, 0, 2]];
        for (index, [x, y, z]) in marked.into_iter().enumerate() {
            data[((index % 2 * 4 + x) * 3 + y) * 5 + z] = 1.0; // now in one channel, now in the other
        }
        let volume = Volume::new(data, [2, 4, 3, 5], IDENTITY).unwrap();
        let region = Region { start: [1, 0, 0], end: [4, 3, 5] };
        let foreground = Foreground::of(&volume, region);
        let drawn: HashSet<[usize; 3]> = (0..100)
            .map(|index| foreground.draw(&volume, &mut generator(3, Stream::TrainSample, index)).unwrap())
            .collect();
        assert_eq!(drawn, marked[1..].iter().copied().collect());
    }

    #[test]
    fn a_constant_volume_has_none() {
        let volume = Volume::new(vec![1.0; 8], [1, 2, 2, 2], IDENTITY).unwrap();
        let foreground = Foreground::of(&volume, Region::whole([2, 2, 2]));
        assert_eq!(foreground.draw(&volume, &mut generator(0, Stream::Split, 0)), None);
    }
}
