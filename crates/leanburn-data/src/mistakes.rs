use crate::volume::count;

/// More threads than this are a slip of the pen.
const MOST_WORKERS: usize = 256;
const MOST_BATCHES: usize = 4096;

/// What is wrong with settings, key by key.
#[derive(Default)]
pub(crate) struct Mistakes(pub(crate) Vec<(String, String)>);

impl Mistakes {
    pub(crate) fn add(&mut self, key: &str, what: &str) {
        self.0.push((key.into(), what.into()));
    }

    pub(crate) fn unless(&mut self, sound: bool, key: &str, expected: &str, found: &dyn std::fmt::Debug) {
        if !sound {
            self.add(key, &format!("expected {expected}, found {found:?}"));
        }
    }

    pub(crate) fn fraction(&mut self, key: &str, value: f64) {
        self.unless((0.0..=1.0).contains(&value), key, "a number from 0 to 1", &value);
    }

    pub(crate) fn grid(&mut self, key: &str, extent: Option<[usize; 3]>) {
        if let Some(extent) = extent {
            let sound = !extent.contains(&0) && count(&extent).is_ok();
            self.unless(sound, key, "three lengths of 1 or more voxels that fit in memory", &extent);
        }
    }

    pub(crate) fn percentiles(&mut self, percentiles: [f64; 2]) {
        let [low, high] = percentiles;
        let ascending = 0.0 <= low && low < high && high <= 100.0;
        self.unless(ascending, "percentiles", "two ascending numbers from 0 to 100", &percentiles);
    }

    pub(crate) fn val_fraction(&mut self, fraction: f64) {
        let sound = (0.0..1.0).contains(&fraction);
        self.unless(sound, "val_fraction", "0 (no validation) up to, not with, 1", &fraction);
    }

    pub(crate) fn loading(&mut self, num_workers: usize, prefetch: usize) {
        let workers = format!("at most {MOST_WORKERS} threads");
        self.unless(num_workers <= MOST_WORKERS, "num_workers", &workers, &num_workers);
        let batches = format!("at most {MOST_BATCHES} batches");
        self.unless(prefetch <= MOST_BATCHES, "prefetch", &batches, &prefetch);
    }
}
