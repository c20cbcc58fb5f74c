//! The pseudo-spectral solver: derivatives of waves, products of values.

use crate::fourier::{Grid, Value};
use rustfft::num_complex::Complex;

/// `dw/dt + u . grad w = viscosity * laplace w + force` for the vorticity `w` of an incompressible flow on the periodic unit
/// square, with `u = (dp/dy, -dp/dx)` and `laplace p = -w`.
///
/// Time steps are of second order: Crank-Nicolson for the viscosity, Heun's method for the advection. Products lose the
/// upper third of their waves, so that nothing is aliased
/// ([Orszag, 1971](https://doi.org/10.1175/1520-0469(1971)028%3C1074:OTEOAI%3E2.0.CO;2)).
pub(super) struct Solver {
    grid: Grid,
    gradients: Vec<Value>,
    force: Vec<Value>,
    viscosity: f64,
    time_step: f64,
}

impl Solver {
    /// `force` are amplitudes of waves on the grid.
    pub(super) fn new(grid: Grid, viscosity: f64, force: Vec<Value>, time_step: f64) -> Self {
        Self { gradients: grid.gradients(), grid, force, viscosity, time_step }
    }

    /// The amplitudes of the vorticity's waves after a time step.
    pub(super) fn step(&self, vorticity: &mut [Value]) {
        let first = self.advection(vorticity);
        let mut ahead = vorticity.to_vec();
        self.advance(&mut ahead, |place| first[place]);
        let second = self.advection(&ahead);
        self.advance(vorticity, |place| 0.5 * (first[place] + second[place]));
    }

    /// Crank-Nicolson's step under viscosity, force and what else changes the vorticity.
    fn advance(&self, vorticity: &mut [Value], change: impl Fn(usize) -> Value) {
        for (place, value) in vorticity.iter_mut().enumerate() {
            let damping = 0.5 * self.time_step * self.viscosity * self.gradients[place].norm_sqr();
            let gain = (change(place) + self.force[place]) * self.time_step;
            *value = (*value * (1.0 - damping) + gain) / (1.0 + damping);
        }
    }

    /// `-u . grad w` without its upper third of waves.
    fn advection(&self, vorticity: &[Value]) -> Vec<Value> {
        // With c = 2 pi (k_x + i k_y), both velocities are one transform of c p, and both derivatives one of i c w.
        let mut velocities: Vec<Value> =
            self.stream(vorticity).zip(&self.gradients).map(|(stream, gradient)| gradient * stream).collect();
        let mut derivatives: Vec<Value> =
            vorticity.iter().zip(&self.gradients).map(|(value, gradient)| Value::I * gradient * value).collect();
        self.grid.to_values(&mut velocities);
        self.grid.to_values(&mut derivatives);
        for (velocity, derivative) in velocities.iter_mut().zip(&derivatives) {
            *velocity = Complex::new(-(*velocity * derivative.conj()).re, 0.0);
        }
        self.grid.to_spectrum(&mut velocities);
        for (value, waves) in velocities.iter_mut().zip(self.grid.waves()) {
            if !self.grid.resolves(waves) {
                *value = Complex::default();
            }
        }
        velocities
    }

    /// The amplitudes of the stream function.
    fn stream(&self, vorticity: &[Value]) -> impl Iterator<Item = Value> {
        vorticity.iter().zip(&self.gradients).map(|(value, gradient)| match gradient.norm_sqr() {
            0.0 => Complex::default(),
            square => value / square,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::PI;

    /// Energy, enstrophy, and the power of the force, means over the square.
    fn balance(solver: &Solver, vorticity: &[Value]) -> [f64; 3] {
        let stream: Vec<Value> = solver.stream(vorticity).collect();
        let mean = |one: &[Value], two: &[Value]| one.iter().zip(two).map(|(a, b)| (a * b.conj()).re).sum::<f64>();
        [0.5 * mean(&stream, vorticity), 0.5 * mean(vorticity, vorticity), mean(&stream, &solver.force)]
    }

    /// Waves that act on each other; those that the products keep.
    fn some_waves(grid: &Grid, size: usize) -> Vec<Value> {
        let mut spectrum = vec![Complex::default(); size * size];
        for (waves, re, im) in [([1, 2], 0.3, 0.1), ([2, -1], -0.2, 0.4), ([0, 3], 0.25, -0.3), ([3, 1], 0.1, 0.2)] {
            spectrum[grid.place(waves).unwrap()] = Complex::new(re, im);
            spectrum[grid.place(waves.map(|wave: i64| -wave)).unwrap()] = Complex::new(re, -im);
        }
        spectrum
    }

    fn solver(size: usize, viscosity: f64, time_step: f64) -> (Solver, Vec<Value>) {
        let grid = Grid::new([size; 2]);
        let (waves, still) = (some_waves(&grid, size), vec![Complex::default(); size * size]);
        (Solver::new(grid, viscosity, still, time_step), waves)
    }

    fn after(time: f64, (solver, mut vorticity): (Solver, Vec<Value>)) -> (Solver, Vec<Value>) {
        (0..(time / solver.time_step).round() as usize).for_each(|_| solver.step(&mut vorticity));
        (solver, vorticity)
    }

    /// The distance of two spectra of any grids, of the first one's norm.
    fn distance((one, values): &(Solver, Vec<Value>), (other, others): &(Solver, Vec<Value>)) -> f64 {
        let of = |value: &Value, waves| {
            other.grid.place(waves).map_or(value.norm_sqr(), |at| (value - others[at]).norm_sqr())
        };
        let apart: f64 = values.iter().zip(one.grid.waves()).map(|(value, waves)| of(value, waves)).sum();
        (apart / values.iter().map(Complex::norm_sqr).sum::<f64>()).sqrt()
    }

    #[test]
    fn the_vortices_of_taylor_and_green_decay_as_they_must() {
        // w = cos(2 pi k x) cos(2 pi k y) is carried along itself: only viscosity acts, w(t) = w(0) exp(-8 pi^2 k^2 nu t).
        let (viscosity, time) = (2e-3, 1.5);
        let grid = Grid::new([32; 2]);
        let mut vorticity = vec![Complex::default(); 32 * 32];
        for waves in [[2, 2], [2, -2], [-2, 2], [-2, -2]] {
            vorticity[grid.place(waves).unwrap()] = Complex::new(0.25, 0.0);
        }
        let solver = Solver::new(grid, viscosity, vec![Complex::default(); 32 * 32], 5e-3);
        let (solver, vorticity) = after(time, (solver, vorticity));
        let expected = 0.25 * (-8.0 * PI * PI * 4.0 * viscosity * time).exp();
        let found = vorticity[solver.grid.place([2, -2]).unwrap()].re;
        assert!((found / expected - 1.0).abs() < 1e-5, "{found} of {expected}");
        let others = vorticity.iter().map(Complex::norm_sqr).sum::<f64>() - 4.0 * found * found;
        assert!(others.abs() < 1e-20, "{others:e}");
    }

    #[test]
    fn energy_and_enstrophy_balance() {
        // Without viscosity and force both stay, up to the error of time steps.
        let (still, waves) = solver(48, 0.0, 2e-3);
        let before = balance(&still, &waves);
        let (still, waves) = after(0.5, (still, waves));
        let after_it = balance(&still, &waves);
        for (before, after) in before.iter().zip(after_it).take(2) {
            assert!((after / before - 1.0).abs() < 1e-6, "{before} became {after}");
        }
        // With both, dE/dt = power - 2 nu Z; the integral by the trapezoidal rule.
        let (mut forced, mut waves) = solver(48, 5e-3, 2e-3);
        forced.force = waves.iter().map(|value| 0.3 * value * Value::I).collect();
        for waves in [[1, 2], [2, -1], [0, 3], [3, 1]] {
            let place = forced.grid.place(waves.map(|wave: i64| -wave)).unwrap();
            forced.force[place] = forced.force[forced.grid.place(waves).unwrap()].conj();
        }
        let rate = |[_, enstrophy, power]: [f64; 3]| power - 2.0 * 5e-3 * enstrophy;
        let (mut gained, start) = (0.0, balance(&forced, &waves));
        let mut now = start;
        for _ in 0..250 {
            forced.step(&mut waves);
            let next = balance(&forced, &waves);
            gained += 0.5 * forced.time_step * (rate(now) + rate(next));
            now = next;
        }
        let change = now[0] - start[0];
        assert!(change.abs() > 0.05 * start[0] && (gained / change - 1.0).abs() < 1e-4, "{gained} of {change}");
    }

    #[test]
    fn finer_grids_and_shorter_steps_agree() {
        // The waves of the coarse grid have decayed enough for the cut to be far below the tolerance.
        let coarse = after(0.5, solver(32, 5e-3, 5e-3));
        let fine = after(0.5, solver(64, 5e-3, 5e-3));
        let apart = distance(&coarse, &fine);
        assert!(apart < 1e-5, "{apart:e}");
        let still = distance(&solver(32, 5e-3, 5e-3), &coarse);
        assert!(still > 0.2, "the flow moves: {still}");
        // Of second order: half the step, a quarter of the error.
        let [one, half, exact] = [2e-2, 1e-2, 1.25e-3].map(|step| after(0.4, solver(32, 1e-3, step)));
        let ratio = distance(&one, &exact) / distance(&half, &exact);
        assert!((3.6..4.5).contains(&ratio), "{ratio}");
    }
}
