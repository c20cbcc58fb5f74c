//! Rules that the configurations of models, blocks and losses share.

use leanburn_common::Validation;

/// As many levels as can halve the largest volume.
pub(crate) const MAX_LEVELS: usize = 16;

/// The largest number of channels, or of anything else that is counted, that makes sense.
const MAX_COUNT: usize = 1 << 16;

/// The longest window whose table of relative positions is not larger than a model.
const MAX_WINDOW: usize = 64;

/// Checks of single values, with what to do about a wrong one.
pub(crate) trait Rules {
    /// Channels, kernel sizes, groups: from 1 to 65536.
    fn count(&mut self, key: &str, count: usize);

    /// Several [counts](Self::count).
    fn counts<const N: usize>(&mut self, counts: [(&str, usize); N]) {
        counts.into_iter().for_each(|(key, count)| self.count(key, count));
    }

    /// A list of counts, with as many entries as there are levels.
    fn levels(&mut self, key: &str, counts: &[usize]);

    /// A list with an entry for each entry of `levels_key`.
    fn one_per_level(&mut self, key: &str, length: usize, levels_key: &'static str, levels: usize);

    /// Any number but 0.
    fn at_least_one(&mut self, key: &str, count: usize);

    /// A finite number above 0.
    fn positive(&mut self, key: &str, value: f64, help: &str);

    /// A finite number of at least 0.
    fn weight(&mut self, key: &str, value: f64);

    /// A number of at least 0 and below 1.
    fn below_one(&mut self, key: &str, value: f64);

    /// Groups that divide the channels of every norm.
    fn groups(&mut self, key: &str, groups: usize, channels_key: &'static str, channels: &[usize]);

    /// Lengths of a window, of which a table of relative positions is made.
    fn window(&mut self, key: &str, window: [usize; 3]);

    /// A number of voxels that a kernel has on both sides of its middle.
    fn odd(&mut self, key: &str, kernel_size: usize);
}

impl Rules for Validation {
    fn count(&mut self, key: &str, count: usize) {
        let sound = (1..=MAX_COUNT).contains(&count);
        self.check(sound, key, &format!("an integer from 1 to {MAX_COUNT}"), count, "correct this number");
    }

    fn levels(&mut self, key: &str, counts: &[usize]) {
        let levels = counts.len();
        let expected = format!("1 to {MAX_LEVELS} levels");
        let help = "list the channels of each level, as in [16, 32, 64]";
        self.check((1..=MAX_LEVELS).contains(&levels), key, &expected, format!("{levels} levels"), help);
        counts.iter().for_each(|count| self.count(key, *count));
    }

    fn one_per_level(&mut self, key: &str, length: usize, levels_key: &'static str, levels: usize) {
        let expected = format!("{levels}, one for each entry of `{levels_key}`");
        let found = format!("{length} entries");
        self.check_together(length == levels, &[levels_key], key, &expected, found, "make the two lists equally long");
    }

    fn at_least_one(&mut self, key: &str, count: usize) {
        self.check(count > 0, key, "an integer of at least 1", count, "correct this number");
    }

    fn positive(&mut self, key: &str, value: f64, help: &str) {
        self.check(value.is_finite() && value > 0.0, key, "a number above 0", value, help);
    }

    fn weight(&mut self, key: &str, value: f64) {
        self.check(value.is_finite() && value >= 0.0, key, "a number of at least 0", value, "correct this number");
    }

    fn below_one(&mut self, key: &str, value: f64) {
        let sound = (0.0..1.0).contains(&value);
        self.check(sound, key, "a number of at least 0 and below 1", value, "correct this number");
    }

    fn groups(&mut self, key: &str, groups: usize, channels_key: &'static str, channels: &[usize]) {
        self.count(key, groups);
        let common = channels.iter().copied().reduce(greatest_common_divisor).unwrap_or(groups);
        self.check_together(
            groups == 0 || common.is_multiple_of(groups),
            &[channels_key],
            key,
            "groups that divide every channel count",
            format!("{groups} groups for channels {channels:?}"),
            format!("set `{key}` to {common} or a divisor of it"),
        );
    }

    fn window(&mut self, key: &str, window: [usize; 3]) {
        let sound = window.iter().all(|length| (1..=MAX_WINDOW).contains(length));
        let expected = format!("lengths from 1 to {MAX_WINDOW}");
        self.check(sound, key, &expected, format!("{window:?}"), "use 7 along each axis");
    }

    fn odd(&mut self, key: &str, kernel_size: usize) {
        let sound = !kernel_size.is_multiple_of(2);
        let help = "with an odd kernel and zeros at both ends a volume keeps its size; use 3";
        self.check(sound, key, "an odd number", kernel_size, help);
    }
}

fn greatest_common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

/// The fields that are wrong, for tests.
#[cfg(test)]
pub(crate) fn keys(errors: Vec<leanburn_common::ValidationError>) -> Vec<String> {
    errors.into_iter().map(|error| error.key).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_that_fit_are_suggested() {
        let mut validation = Validation::default();
        validation.groups("norm_num_groups", 4, "channels", &[8, 16]);
        validation.groups("norm_num_groups", 32, "channels", &[24, 64]);
        let errors = validation.errors();
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].with, ["channels"]);
        assert_eq!(errors[0].help, "set `norm_num_groups` to 8 or a divisor of it");
    }

    #[test]
    fn numbers_that_are_none_are_found() {
        let mut validation = Validation::default();
        validation.positive("a", f64::NAN, "");
        validation.weight("b", f64::INFINITY);
        validation.below_one("c", f64::NAN);
        validation.count("d", usize::MAX);
        assert_eq!(keys(validation.errors()), ["a", "b", "c", "d"]);
    }
}
