//! How good the predictions of an operator are.

use leanburn_data::Window;
use leanburn_data::metrics::{TopOctave, relative_error, skill, top_octave_energy};

use crate::error::Result;
use crate::evaluation::Metrics;

/// The error of what the predictions are compared with: the last field seen, or bicubic interpolation.
pub(super) const PERSISTENCE: &str = "relative_l2_persistence";

/// The errors of the first, the second, ... field of a prediction; of more than so many the first ones.
pub(super) const LEADS: [&str; 10] = [
    "relative_l2_lead_1",
    "relative_l2_lead_2",
    "relative_l2_lead_3",
    "relative_l2_lead_4",
    "relative_l2_lead_5",
    "relative_l2_lead_6",
    "relative_l2_lead_7",
    "relative_l2_lead_8",
    "relative_l2_lead_9",
    "relative_l2_lead_10",
];

/// What was found of the windows so far.
#[derive(Debug, Default)]
pub(super) struct Scores {
    /// Relative L2 errors of each window, and of what it is compared with.
    relative: Vec<[f64; 2]>,
    /// Those of each window's fields, by how far ahead they are.
    leads: Vec<Vec<f64>>,
    /// The last fields' energies in the top octave.
    octave: TopOctave,
    predictions: Vec<f32>,
    truth: Vec<f32>,
    persistence: Vec<f32>,
}

impl Scores {
    /// Adds a window, what was predicted of it, and what that is compared with.
    pub(super) fn add(&mut self, prediction: &[f32], persistence: &[f32], window: &Window) -> Result<()> {
        let (field, size) = last_field(window);
        let truth = &window.target;
        self.relative.push([relative_error(prediction, truth)?, relative_error(persistence, truth)?]);
        let fields = prediction.chunks_exact(size[0] * size[1]).zip(truth.chunks_exact(size[0] * size[1]));
        for (lead, (prediction, truth)) in fields.enumerate() {
            self.leads.resize_with(self.leads.len().max(lead + 1), Vec::new);
            self.leads[lead].push(relative_error(prediction, truth)?);
        }
        let energy = |fields: &[f32]| top_octave_energy(&fields[field..], size);
        self.octave.add(energy(prediction)?, energy(truth)?);
        self.predictions.extend_from_slice(prediction);
        self.persistence.extend_from_slice(persistence);
        self.truth.extend_from_slice(truth);
        Ok(())
    }

    /// Means over the windows; the skill and the ratio of energies are of all of them together. Empty without windows.
    pub(super) fn metrics(&self) -> Result<Metrics> {
        if self.truth.is_empty() {
            return Ok(Vec::new());
        }
        let skill = skill(&self.predictions, &self.truth, &self.persistence)?;
        let of_pairs = |index: usize| mean(&self.relative.iter().map(|pair| pair[index]).collect::<Vec<_>>());
        let mut metrics = vec![
            ("relative_l2", of_pairs(0)),
            ("skill", skill),
            (PERSISTENCE, of_pairs(1)),
            ("top_octave_ratio", self.octave.ratio()),
            ("top_octave_error", self.octave.error()),
        ];
        if self.leads.len() > 1 {
            metrics.extend(LEADS.into_iter().zip(self.leads.iter().map(|errors| mean(errors))));
        }
        Ok(metrics)
    }
}

/// Where the last field of a target begins, and its height and width.
pub(super) fn last_field(window: &Window) -> (usize, [usize; 2]) {
    let [.., height, width] = window.target_shape;
    (window.target.len() - height * width, [height, width])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_told_apart_by_lead_and_compared_with_persistence() {
        let wave = |amplitude: f32| (0..64).map(move |at| if at % 2 == 0 { amplitude } else { -amplitude });
        let window = Window {
            input: wave(1.0).collect(),
            input_shape: [1, 1, 8, 8],
            target: wave(1.0).chain(wave(2.0)).collect(),
            target_shape: [2, 1, 8, 8],
            start: 0,
        };
        let mut scores = Scores::default();
        assert!(scores.metrics().unwrap().is_empty());
        let prediction: Vec<f32> = wave(0.9).chain(wave(1.0)).collect();
        let persistence: Vec<f32> = wave(1.0).chain(wave(1.0)).collect();
        scores.add(&prediction, &persistence, &window).unwrap();
        let metrics = scores.metrics().unwrap();
        let of = |name: &str| metrics.iter().find(|metric| metric.0 == name).unwrap().1;
        assert!((of("relative_l2_lead_1") - 0.1).abs() < 1e-6 && (of("relative_l2_lead_2") - 0.5).abs() < 1e-6);
        assert!((of(PERSISTENCE) - 0.2_f64.sqrt()).abs() < 1e-6 && of("relative_l2") > of(PERSISTENCE));
        assert!((of("top_octave_ratio") - 0.25).abs() < 1e-6 && (of("top_octave_error") - 0.75).abs() < 1e-6);
        assert_eq!(metrics.len(), 7);
    }
}
