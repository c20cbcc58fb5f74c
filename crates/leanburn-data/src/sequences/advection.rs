//! Smooth periodic fields that a flow carries along, so that every later frame is known exactly.

use crate::error::DataError;
use crate::random::{Stream, generator};
use crate::sequences::sequence::Sequence;
use crate::volumes::{count, zeros};
use leanburn_common::{Validation, ValidationError};
use rand::{Rng, RngExt};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::f64::consts::TAU;

/// How the fields of an [`Advection`] are carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flow {
    /// Always in the same direction.
    #[default]
    Constant,
    /// In a direction that turns with time.
    Rotating,
}

/// A synthetic sequence for trying things out; see [`Advection`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdvectionConfig {
    /// Number of frames.
    pub steps: usize,
    /// Height and width.
    pub shape: [usize; 2],
    /// How the field is carried.
    pub flow: Flow,
    /// Places that it moves in a step.
    pub speed: f64,
    /// Steps in which a rotating flow turns once.
    pub turn_steps: f64,
    /// How strongly sources and sinks act; the field has a variance of 1.
    pub forcing: f64,
}

impl Default for AdvectionConfig {
    fn default() -> Self {
        Self { steps: 120, shape: [32, 32], flow: Flow::Constant, speed: 3.0, turn_steps: 40.0, forcing: 0.3 }
    }
}

impl AdvectionConfig {
    /// Everything that is wrong with the values.
    pub fn validate(&self) -> Vec<ValidationError> {
        let mut validation = Validation::default();
        let [height, width] = self.shape;
        validation.check(self.steps > 0, "steps", "1 or more", self.steps, "make at least one frame");
        let grid = height > 0 && width > 0 && count(&[self.steps, CHANNELS, height, width]).is_ok();
        let (expected, found) = ("two lengths of 1 or more that fit in memory", format!("{:?}", self.shape));
        validation.check(grid, "shape", expected, found, "use a smaller grid, or fewer steps");
        let sound = |number: f64| number.is_finite() && number.abs() <= 1e6;
        let (number, positive) = ("a number of at most 1e6", "a positive number of at most 1e6");
        validation.check(sound(self.speed), "speed", number, self.speed, "write places a step, such as 3");
        let turn = sound(self.turn_steps) && self.turn_steps > 0.0;
        validation.check(turn, "turn_steps", positive, self.turn_steps, "write steps a turn, such as 40");
        validation.check(sound(self.forcing), "forcing", number, self.forcing, "write a share of 1, such as 0.3");
        validation.errors()
    }
}

/// The field, its two velocities (along height and width, places a step) and its source.
const CHANNELS: usize = 4;
/// Waves that make up a field.
const WAVES: usize = 8;
/// Waves across the grid, at most.
const HIGHEST: i32 = 3;
/// Steps in which the sources swell and ebb once.
const FORCING_STEPS: f64 = 20.0;

/// `amplitude * cos(2 pi (rows y / height + columns x / width) + phase)`.
#[derive(Debug, Clone)]
struct Wave {
    rows: f64,
    columns: f64,
    amplitude: f64,
    phase: f64,
}

/// Waves of random directions and phases, the longer the higher; their sum has a variance of 1.
fn waves(random: &mut impl Rng) -> Vec<Wave> {
    let mut waves: Vec<Wave> = (0..WAVES)
        .map(|_| {
            let rows = f64::from(random.random_range(1..=HIGHEST));
            let columns = f64::from(random.random_range(-HIGHEST..=HIGHEST));
            Wave { rows, columns, amplitude: 1.0 / rows.hypot(columns), phase: random.random_range(0.0..TAU) }
        })
        .collect();
    let variance: f64 = waves.iter().map(|wave| wave.amplitude.powi(2) / 2.0).sum();
    waves.iter_mut().for_each(|wave| wave.amplitude /= variance.sqrt());
    waves
}

/// A field that solves the advection equation `df/dt + u . grad f = s` on a periodic grid.
///
/// With displacement `X(t)`, the integral of the velocity, and `a(t)` that swells and ebbs,
/// `f(x, t) = f0(x - X(t)) + a(t) g(x - X(t))` and `s(x, t) = a'(t) g(x - X(t))`: any frame, past or
/// future, is known exactly. At the usual speed, the last frame is a bad forecast of the next.
///
/// # Shapes
/// Frames `[4, height, width]`: the field, its velocities along height and width, its source.
///
/// # Example
/// ```
/// use leanburn_data::{Advection, AdvectionConfig};
/// let fields = Advection::new(&AdvectionConfig { steps: 10, ..Default::default() }, 1)?;
/// assert_eq!(fields.sequence()?.shape(), [10, 4, 32, 32]);
/// assert_eq!(fields.frame(12.5).len(), 4 * 32 * 32);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Advection {
    config: AdvectionConfig,
    heading: f64,
    field: Vec<Wave>,
    source: Vec<Wave>,
}

impl Advection {
    /// The fields of a seed.
    ///
    /// # Errors
    /// Every validation error of the configuration.
    pub fn new(config: &AdvectionConfig, seed: u64) -> Result<Self, DataError> {
        DataError::if_invalid(config.validate())?;
        let mut random = generator(seed, Stream::Advection, 0);
        let heading = random.random_range(0.0..TAU);
        Ok(Self { config: config.clone(), heading, field: waves(&mut random), source: waves(&mut random) })
    }

    fn velocity(&self, time: f64) -> [f64; 2] {
        let angle = match self.config.flow {
            Flow::Constant => self.heading,
            Flow::Rotating => self.heading + TAU * time / self.config.turn_steps,
        };
        [self.config.speed * angle.cos(), self.config.speed * angle.sin()]
    }

    /// The integral of the velocity from 0 to `time`.
    fn displacement(&self, time: f64) -> [f64; 2] {
        match self.config.flow {
            Flow::Constant => self.velocity(0.0).map(|velocity| velocity * time),
            Flow::Rotating => {
                let turning = TAU / self.config.turn_steps;
                let ([row, column], [row_then, column_then]) = (self.velocity(0.0), self.velocity(time));
                [(column_then - column) / turning, (row - row_then) / turning]
            }
        }
    }

    /// The frame at any time, counted in steps.
    pub fn frame(&self, time: f64) -> Vec<f32> {
        let [height, width] = self.config.shape;
        let displacement = self.displacement(time);
        let field = self.sum(&self.field, displacement);
        let source = self.sum(&self.source, displacement);
        let (sine, cosine) = (TAU * time / FORCING_STEPS).sin_cos();
        let (grown, growing) = (self.config.forcing * sine, self.config.forcing * TAU / FORCING_STEPS * cosine);
        let mut frame = Vec::with_capacity(CHANNELS * height * width);
        frame.extend(field.iter().zip(&source).map(|(field, source)| (field + grown * source) as f32));
        for velocity in self.velocity(time) {
            frame.resize(frame.len() + height * width, velocity as f32);
        }
        frame.extend(source.iter().map(|source| (growing * source) as f32));
        frame
    }

    /// The sum of waves that were carried along, by one cosine and sine for each row and column.
    fn sum(&self, waves: &[Wave], [down, right]: [f64; 2]) -> Vec<f64> {
        let [height, width] = self.config.shape;
        let mut sum = vec![0.0; height * width];
        for wave in waves {
            let angle = |count: f64, at: f64, length: usize| TAU * count * at / length as f64;
            let columns: Vec<(f64, f64)> =
                (0..width).map(|x| angle(wave.columns, x as f64 - right, width).sin_cos()).collect();
            for (y, row) in sum.chunks_exact_mut(width).enumerate() {
                let (sine, cosine) = (angle(wave.rows, y as f64 - down, height) + wave.phase).sin_cos();
                for (value, (column_sine, column_cosine)) in row.iter_mut().zip(&columns) {
                    *value += wave.amplitude * (cosine * column_cosine - sine * column_sine);
                }
            }
        }
        sum
    }

    /// The frames at times 0, 1, 2 and so on, as many as the configuration says.
    ///
    /// # Errors
    /// If there is no memory.
    pub fn sequence(&self) -> Result<Sequence, DataError> {
        let AdvectionConfig { steps, shape: [height, width], .. } = self.config;
        let shape = [steps, CHANNELS, height, width];
        let mut data = zeros(&shape)?;
        data.par_chunks_exact_mut(CHANNELS * height * width)
            .enumerate()
            .for_each(|(time, frame)| frame.copy_from_slice(&self.frame(time as f64)));
        Sequence::new(data, shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::root_mean_squared_error;

    fn fields(config: AdvectionConfig) -> Advection {
        Advection::new(&config, 3).unwrap()
    }

    #[test]
    fn whole_steps_of_a_constant_flow_roll_the_field() {
        let mut fields = fields(AdvectionConfig { shape: [12, 20], forcing: 0.0, ..Default::default() });
        (fields.config.speed, fields.heading) = (5.0, (-4.0_f64).atan2(3.0)); // 3 down, 4 to the left
        let (first, second) = (fields.frame(0.0), fields.frame(1.0));
        for y in 0..12 {
            for x in 0..20 {
                let from = first[(y + 9) % 12 * 20 + (x + 4) % 20];
                assert!((second[y * 20 + x] - from).abs() < 1e-5);
            }
        }
        assert!((second[240] - 3.0).abs() < 1e-6 && (second[480] + 4.0).abs() < 1e-6);
    }

    #[test]
    fn a_rotating_flow_comes_back_and_its_velocity_is_that_of_the_field() {
        let config = AdvectionConfig { flow: Flow::Rotating, forcing: 0.0, ..Default::default() };
        let fields = fields(config.clone());
        let (first, turned) = (fields.frame(0.0), fields.frame(config.turn_steps));
        assert!(first.iter().zip(&turned).all(|(a, b)| (a - b).abs() < 1e-5));
        assert!(root_mean_squared_error(&fields.frame(10.0), &first).unwrap() > 0.3);
        let (before, after) = (fields.displacement(6.999), fields.displacement(7.001));
        for axis in 0..2 {
            let velocity = (after[axis] - before[axis]) / 0.002;
            assert!((velocity - fields.velocity(7.0)[axis]).abs() < 1e-4);
        }
    }

    #[test]
    fn the_source_is_what_a_resting_field_gains() {
        let fields = fields(AdvectionConfig { speed: 0.0, forcing: 0.5, ..Default::default() });
        let (before, now, after) = (fields.frame(2.99), fields.frame(3.0), fields.frame(3.01));
        let places = 32 * 32;
        for place in 0..places {
            let gained = f64::from(after[place] - before[place]) / 0.02;
            assert!((gained - f64::from(now[3 * places + place])).abs() < 1e-3);
        }
        assert!(now[3 * places..].iter().any(|source| source.abs() > 0.05));
    }

    #[test]
    fn persistence_is_a_bad_forecast() {
        for flow in [Flow::Constant, Flow::Rotating] {
            for seed in 0..4 {
                let fields = Advection::new(&AdvectionConfig { flow, ..Default::default() }, seed).unwrap();
                let (now, next) = (fields.frame(30.0), fields.frame(31.0));
                let error = root_mean_squared_error(&now[..1024], &next[..1024]).unwrap();
                let size = root_mean_squared_error(&next[..1024], &[0.0; 1024]).unwrap();
                assert!(error > 0.5 * size, "{flow:?} {seed}: {error} of {size}");
            }
        }
    }

    #[test]
    fn the_seed_decides_whatever_the_threads() {
        let config = AdvectionConfig { steps: 9, shape: [8, 10], ..Default::default() };
        let sequence = |seed| Advection::new(&config, seed).unwrap().sequence().unwrap();
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(sequence(1), threads.install(|| sequence(1)));
        assert_ne!(sequence(1), sequence(2));
        assert_eq!(sequence(1).data()[4 * 80 * 5..4 * 80 * 6], Advection::new(&config, 1).unwrap().frame(5.0));
    }
}
