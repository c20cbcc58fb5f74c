//! Flows from random beginnings, as sequences of frames.

use super::config::NavierStokesConfig;
use super::solver::Solver;
use crate::datasets::Progress;
use crate::error::DataError;
use crate::fourier::{Grid, Value};
use crate::random::{Stream, generator};
use crate::sequences::sequence::Sequence;
use crate::volumes::zeros;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;
use rustfft::num_complex::Complex;

/// Waves of the initial vorticity along an axis, at most.
const HIGHEST: i64 = 8;

/// Flows that each thread computes, about, before progress is told.
const FLOWS_OF_A_THREAD: usize = 4;

/// The vorticity of incompressible flows on the periodic unit square, by a pseudo-spectral solver.
///
/// `dw/dt + u . grad w = viscosity * laplace w + f` with the data of the
/// [Fourier neural operator](https://arxiv.org/abs/2010.08895): the initial vorticity is a Gaussian random field with the
/// covariance `(-laplace + 49)^-2.5`, here of the waves up to 8 and scaled to a variance of 1, and
/// `f = forcing * (sin(2 pi (x + y)) + cos(2 pi (x + y)))`.
///
/// A flow depends on the seed, its index and the solver's grid, not on the size of the frames: these show the waves of the
/// solver that they have positions for. Every processor gets the same bits.
///
/// # Shapes
/// Frames `[1, size, size]`, `y` before `x`.
///
/// # Example
/// ```
/// use leanburn_data::{NavierStokes, NavierStokesConfig};
/// let config = NavierStokesConfig { trajectories: 2, steps: 3, size: 16, solver_size: 32, ..Default::default() };
/// let flows = NavierStokes::new(&config, 1)?;
/// assert_eq!(flows.sequence()?.shape(), [6, 1, 16, 16]);
/// # Ok::<(), leanburn_data::DataError>(())
/// ```
#[derive(Debug, Clone)]
pub struct NavierStokes {
    config: NavierStokesConfig,
    seed: u64,
}

impl NavierStokes {
    /// The flows of a seed.
    ///
    /// # Errors
    /// Every validation error of the configuration.
    pub fn new(config: &NavierStokesConfig, seed: u64) -> Result<Self, DataError> {
        DataError::if_invalid(config.validate())?;
        Ok(Self { config: config.clone(), seed })
    }

    /// The frames of all flows, one flow after the other.
    ///
    /// # Errors
    /// If there is no memory, or a flow does not stay finite, as the time step is too long.
    pub fn sequence(&self) -> Result<Sequence, DataError> {
        self.sequence_with(|_| {})
    }

    /// As [`NavierStokes::sequence`], calling `progress` for each flow, a few at a time.
    ///
    /// # Errors
    /// As [`NavierStokes::sequence`].
    pub fn sequence_with(&self, mut progress: impl FnMut(Progress<'_>)) -> Result<Sequence, DataError> {
        let NavierStokesConfig { trajectories, steps, size, .. } = self.config;
        let shape = [trajectories * steps, 1, size, size];
        let mut data = zeros(&shape)?;
        let (flow, together) = (steps * size * size, FLOWS_OF_A_THREAD * rayon::current_num_threads());
        for (group, frames) in data.chunks_mut(flow * together).enumerate() {
            let first = group * together;
            frames
                .par_chunks_exact_mut(flow)
                .enumerate()
                .try_for_each(|(index, frames)| self.trajectory((first + index) as u64, frames))?;
            for done in first + 1..=first + frames.len() / flow {
                progress(Progress { done, total: trajectories, name: &format!("flow {done}") });
            }
        }
        Sequence::new(data, shape)?.with_trajectory_length(steps)
    }

    /// The frames of a flow.
    fn trajectory(&self, index: u64, frames: &mut [f32]) -> Result<(), DataError> {
        let NavierStokesConfig { size, spin_up, interval, .. } = self.config;
        let (solver_grid, frame_grid) = (Grid::new([self.config.solver_size; 2]), Grid::new([size; 2]));
        let mut vorticity = self.beginning(index, &solver_grid);
        self.advance(&solver_grid, &mut vorticity, spin_up)?;
        for (step, frame) in frames.chunks_exact_mut(size * size).enumerate() {
            if step > 0 {
                self.advance(&solver_grid, &mut vorticity, interval)?;
            }
            show(&solver_grid, &vorticity, &frame_grid, frame);
        }
        Ok(())
    }

    /// The vorticity after a time, in steps of one length.
    fn advance(&self, grid: &Grid, vorticity: &mut [Value], time: f64) -> Result<(), DataError> {
        let NavierStokesConfig { viscosity, forcing, time_step, .. } = self.config;
        let steps = (time / time_step).ceil();
        if steps == 0.0 {
            return Ok(());
        }
        let mut force = vec![Complex::default(); vorticity.len()];
        // sin(a) + cos(a) is the real part of (1 - i) exp(i a).
        for (waves, half) in [([1, 1], Complex::new(0.5, -0.5)), ([-1, -1], Complex::new(0.5, 0.5))] {
            set(grid, &mut force, waves, half * forcing);
        }
        let solver = Solver::new(grid.clone(), viscosity, force, time / steps);
        (0..steps as u64).for_each(|_| solver.step(vorticity));
        match vorticity.iter().all(|value| value.is_finite()) {
            true => Ok(()),
            false => Err(DataError::malformed(
                "a flow that stays finite",
                format!("one that does not, in steps of {:.2e}", time / steps),
                "Use a smaller `time_step`, or more `viscosity`.",
            )),
        }
    }

    /// The initial vorticity of a flow. Its waves are drawn in an order that no grid changes.
    fn beginning(&self, index: u64, grid: &Grid) -> Vec<Value> {
        let mut random = generator(self.seed, Stream::NavierStokes, index);
        let half = (0..=HIGHEST).flat_map(|y| (-HIGHEST..=HIGHEST).map(move |x| [y, x]));
        // Of a wave and its opposite, which is its conjugate, one is drawn; there is no mean.
        let half = half.filter(|[y, x]| *y > 0 || *x > 0);
        let deviation =
            |[y, x]: [i64; 2]| (4.0 * std::f64::consts::PI.powi(2) * (x * x + y * y) as f64 + 49.0).powf(-1.25);
        let variance: f64 = half.clone().map(|waves| 4.0 * deviation(waves).powi(2)).sum();
        let mut spectrum = vec![Complex::default(); self.config.solver_size.pow(2)];
        for waves in half {
            let mut draw = || StandardNormal.sample(&mut random);
            let value = Complex::new(draw(), draw()) * (deviation(waves) / variance.sqrt());
            set(grid, &mut spectrum, waves, value);
            set(grid, &mut spectrum, waves.map(|wave| -wave), value.conj());
        }
        spectrum
    }
}

/// Gives a wave its amplitude, if the grid has it.
fn set(grid: &Grid, spectrum: &mut [Value], waves: [i64; 2], value: Value) {
    if let Some(place) = grid.place(waves) {
        spectrum[place] = value;
    }
}

/// Values on another grid, of the waves that both have.
fn show(from: &Grid, spectrum: &[Value], to: &Grid, frame: &mut [f32]) {
    let mut values = vec![Complex::default(); frame.len()];
    for (waves, value) in from.waves().zip(spectrum) {
        if from.place(waves).is_some() {
            set(to, &mut values, waves, *value);
        }
    }
    to.to_values(&mut values);
    frame.iter_mut().zip(values).for_each(|(place, value)| *place = value.re as f32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::root_mean_squared_error;

    fn small() -> NavierStokesConfig {
        NavierStokesConfig { trajectories: 3, steps: 4, size: 32, solver_size: 32, spin_up: 1.0, ..Default::default() }
    }

    fn frames(config: &NavierStokesConfig, seed: u64) -> Sequence {
        NavierStokes::new(config, seed).unwrap().sequence().unwrap()
    }

    #[test]
    fn the_seed_decides_whatever_the_threads() {
        let threads = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        let one = frames(&small(), 1);
        assert_eq!(one, threads.install(|| frames(&small(), 1)));
        assert_ne!(one, frames(&small(), 2));
        let few = frames(&NavierStokesConfig { trajectories: 2, ..small() }, 1);
        assert_eq!(one.data()[..few.data().len()], few.data()[..], "a flow does not depend on the others");
        assert_ne!(one.data()[..1024], one.data()[4 * 1024..5 * 1024], "each flow begins elsewhere");
    }

    #[test]
    fn progress_counts_every_flow() {
        let config = NavierStokesConfig { trajectories: 19, steps: 1, size: 16, spin_up: 0.0, ..small() };
        let mut done = Vec::new();
        let flows = NavierStokes::new(&config, 1).unwrap();
        flows.sequence_with(|progress| done.push((progress.done, progress.total, progress.name.to_string()))).unwrap();
        assert_eq!(done, (1..=19).map(|flow| (flow, 19, format!("flow {flow}"))).collect::<Vec<_>>());
    }

    #[test]
    fn frames_of_every_size_show_one_flow() {
        // 32 and 64 positions have every second in common; the waves that 32 have no room for were never there.
        let coarse = NavierStokesConfig { solver_size: 32, size: 32, trajectories: 1, ..small() };
        let fine = NavierStokesConfig { size: 64, ..coarse.clone() };
        let (coarse, fine) = (frames(&coarse, 7), frames(&fine, 7));
        for (frame, finer) in coarse.data().chunks_exact(32 * 32).zip(fine.data().chunks_exact(64 * 64)) {
            let picked: Vec<f32> = (0..1024).map(|at| finer[at / 32 * 2 * 64 + at % 32 * 2]).collect();
            assert!(root_mean_squared_error(&picked, frame).unwrap() < 1e-6);
        }
    }

    #[test]
    fn flows_move_and_are_as_strong_as_said() {
        let config = NavierStokesConfig { trajectories: 16, steps: 2, spin_up: 0.0, ..small() };
        let sequence = frames(&config, 5);
        let strength = |frame: usize| -> f32 {
            let all = sequence.data().chunks_exact(1024).skip(frame).step_by(2);
            (all.flatten().map(|value| value * value).sum::<f32>() / (16.0 * 1024.0)).sqrt()
        };
        assert!((strength(0) - 1.0).abs() < 0.25, "{}", strength(0));
        for flow in sequence.data().chunks_exact(2 * 1024) {
            let apart = root_mean_squared_error(&flow[..1024], &flow[1024..]).unwrap();
            assert!(apart > 0.15, "{apart}");
        }
    }

    #[test]
    fn a_step_that_is_too_long_is_named() {
        let config = NavierStokesConfig { time_step: 5.0, interval: 100.0, viscosity: 0.0, forcing: 50.0, ..small() };
        let error = NavierStokes::new(&config, 1).unwrap().sequence().unwrap_err().to_string();
        assert!(error.contains("`time_step`") && error.contains("5.00e0"), "{error}");
        let wrong = NavierStokesConfig { steps: 0, ..small() };
        assert!(NavierStokes::new(&wrong, 1).unwrap_err().is_config());
    }
}
