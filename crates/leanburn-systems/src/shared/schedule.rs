//! How long a training takes and how its learning rate falls, counted in steps or in epochs.

use leanburn_common::Validation;
use leanburn_train::{ScheduleConfig, ScheduleKind};

use super::training::{ENDLESS, TrainingSection};

impl TrainingSection {
    /// Steps to train for, of data with so many training samples; those of the epochs are not counted while that is not known.
    pub fn steps(&self, samples: Option<usize>) -> u64 {
        let of_epochs = self.max_epochs.and_then(|epochs| self.steps_of(epochs, samples));
        self.max_steps.min(of_epochs.unwrap_or(ENDLESS))
    }

    /// Steps in which so many epochs are seen, the last of them perhaps in part of its samples.
    fn steps_of(&self, epochs: f64, samples: Option<usize>) -> Option<u64> {
        let items_of_step = self.batch_size.saturating_mul(self.gradient_accumulation_steps).max(1);
        samples.map(|samples| ((epochs * samples as f64 / items_of_step as f64).ceil() as u64).max(1))
    }

    /// The learning rate over the steps of data with so many training samples, from a highest one.
    pub(crate) fn schedule(&self, learning_rate: f64, samples: Option<usize>) -> ScheduleConfig {
        let schedule = ScheduleConfig::new(learning_rate)
            .with_kind(self.lr_schedule)
            .with_warmup_steps(self.warmup_steps)
            .with_max_steps(self.steps(samples));
        let of_epochs = || self.lr_step_epochs.and_then(|epochs| self.steps_of(epochs, samples));
        let step_size = self.lr_step_size.or_else(of_epochs).unwrap_or(schedule.step_size);
        let gamma = self.lr_gamma.unwrap_or(schedule.gamma);
        schedule.with_falls(step_size, gamma)
    }

    /// That the keys of falls stand with the schedule that has some, and say once how far they are apart.
    pub(super) fn check_epochs_and_falls(&self, validation: &mut Validation) {
        let given = [("lr_step_size", self.lr_step_size.is_some()), ("lr_step_epochs", self.lr_step_epochs.is_some())];
        let falls = self.lr_schedule == ScheduleKind::Step;
        let intervals = given.iter().filter(|(_, is_given)| *is_given).count();
        let help = "write how far the falls are apart, such as `lr_step_epochs: 300`, or `lr_step_size` in steps";
        let found = ["neither", "one", "both"][intervals];
        let expected = "one of `lr_step_size` and `lr_step_epochs`";
        validation.check_together(!falls || intervals == 1, &["lr_step_size"], "lr_schedule", expected, found, help);
        let keys = given.into_iter().chain([("lr_gamma", self.lr_gamma.is_some())]);
        for (key, _) in keys.filter(|(_, is_given)| *is_given && !falls) {
            let help = "write `lr_schedule: step`, or drop the key";
            let expected = "`lr_schedule: step`, the schedule that falls in steps";
            validation.check_together(false, &["lr_schedule"], key, expected, "another", help);
        }
        for (key, value) in
            [("max_epochs", self.max_epochs), ("lr_gamma", self.lr_gamma), ("lr_step_epochs", self.lr_step_epochs)]
        {
            let value = value.unwrap_or(1.0);
            let (sound, help) = (value.is_finite() && value > 0.0, "write a number above 0, such as 0.5");
            validation.check(sound, key, "a number above 0", value, help);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_as_many_steps_as_their_samples_take() {
        let training = TrainingSection::default().with_max_steps(ENDLESS).with_max_epochs(Some(3.0));
        let training = training.with_batch_size(2).with_gradient_accumulation_steps(4);
        assert_eq!((training.steps(Some(20)), training.steps(Some(16)), training.steps(None)), (8, 6, ENDLESS));
        assert_eq!(training.clone().with_max_steps(5).steps(Some(20)), 5, "what ends first");
        assert_eq!(training.clone().with_max_epochs(Some(0.01)).steps(Some(20)), 1);
        assert_eq!(TrainingSection::default().steps(Some(1)), 1000);
    }

    #[test]
    fn falls_in_epochs_are_those_in_their_steps() {
        let training = TrainingSection::default().with_batch_size(4).with_max_epochs(Some(8.0)).with_max_steps(ENDLESS);
        let training = training.with_lr_schedule(ScheduleKind::Step).with_lr_gamma(Some(0.5));
        assert!(training.validate().iter().any(|error| error.key == "lr_schedule" && error.found == "neither"));
        let of_epochs = training.clone().with_lr_step_epochs(Some(2.0));
        let of_steps = training.with_lr_step_size(Some(5));
        assert!(of_epochs.validate().is_empty() && of_steps.validate().is_empty());
        let schedule = of_epochs.schedule(1e-3, Some(10));
        assert_eq!((&schedule, schedule.max_steps), (&of_steps.schedule(1e-3, Some(10)), 20));
        let mut schedule = schedule.init().unwrap();
        assert_eq!([0, 4, 5, 9, 10, 19].map(|step| schedule.at(step)), [1e-3, 1e-3, 5e-4, 5e-4, 2.5e-4, 1.25e-4]);
        // While the data is not open, as in a plan.
        assert_eq!(of_epochs.schedule(1e-3, None).init().unwrap().at(1000), 1e-3);
        let both = of_epochs.with_lr_step_size(Some(5));
        assert_eq!(both.validate()[0].found, "both");
        let other: Vec<String> = both
            .with_lr_schedule(ScheduleKind::Cosine)
            .with_lr_gamma(Some(-1.0))
            .validate()
            .into_iter()
            .map(|error| error.key)
            .collect();
        assert_eq!(other, ["lr_step_size", "lr_step_epochs", "lr_gamma", "lr_gamma"]);
    }
}
