//! What a sample takes while it is augmented, counted on the heap.

use leanburn_data::{AugmentationConfig, DataConfig, Dataset, LabelsConfig, PhantomConfig, Strength};
use leanburn_kernels::CountingAllocator;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// Generators, rows of voxels, names.
const SMALL: u64 = 96 << 10;

#[test]
fn a_sample_takes_itself_and_what_is_planned() {
    let always = |strength: Strength| Strength { probability: 1.0, ..strength };
    let AugmentationConfig { rotation, scaling, elastic, bias_field, noise, blur, contrast, gamma, .. } =
        AugmentationConfig::default();
    let config = AugmentationConfig {
        rotation: always(rotation),
        scaling: always(scaling),
        elastic: always(elastic),
        bias_field: always(bias_field),
        noise: always(noise),
        blur: always(blur),
        contrast: always(contrast),
        gamma: always(gamma),
        ..AugmentationConfig::default()
    };
    let whole = Strength { probability: 1.0, range: [1.0, 1.0] };
    let coarse = AugmentationConfig { low_resolution: whole, ..config.clone() };
    for (augmentation, scratch) in [(config, 0), (coarse, 4 * 56 * 48 * 40)] {
        assert_eq!(augmentation.scratch_bytes([56, 48, 40]), scratch);
        let data = DataConfig {
            phantom: Some(PhantomConfig { count: 1, shape: [64; 3], noise: 0.1 }),
            labels: Some(LabelsConfig::default()),
            patch_size: Some([56, 48, 40]),
            val_fraction: 0.0,
            augmentation: Some(augmentation),
            ..DataConfig::default()
        };
        let dataset = Dataset::open(&data, 1).unwrap();
        dataset.train_sample(0).unwrap(); // what is made once
        let before = HEAP.current_usage() as u64;
        HEAP.reset_peak_usage();
        let sample = dataset.train_sample(1).unwrap();
        let own = (4 * sample.data.len() + sample.labels.unwrap().len()) as u64;
        let taken = HEAP.peak_usage() as u64 - before;
        assert!((own + scratch..own + scratch + SMALL).contains(&taken), "{taken} for {own} and {scratch}");
    }
}
