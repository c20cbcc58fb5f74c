use crate::volume::count;

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
}
