//! Pseudo numerical methods: Runge-Kutta steps, then linear multi-step ones of fourth order.
//!
//! Liu et al., [Pseudo Numerical Methods for Diffusion Models on Manifolds](https://arxiv.org/abs/2202.09778), equations 9, 12 and 13. Without
//! Runge-Kutta steps the first step is taken twice, the second time with the mean of the noise at both its ends.
//!
//! What MONAI does differently: it rounds the distance of two steps down to whole times, so that it begins far below the last time where the
//! steps do not divide the times; it divides the times by the number of evaluations where it should divide them by the number of steps; it
//! goes on from the second time, not from the first, when it has corrected the first step; and it takes the velocities in the middle of a
//! Runge-Kutta step for ones at its begin.

use burn::tensor::Tensor;

use super::process::{DiffusionProcess, Prediction};
use super::sampler::{Compatible, Network, Sampler, assert_steps, with_following};

/// Steps that are taken by Runge-Kutta's method, for the multi-step method to begin with.
const RUNGE_KUTTA_STEPS: usize = 3;
/// Evaluations of such a step.
const EVALUATIONS: usize = 4;

/// Pseudo numerical sampling in a number of steps.
#[derive(Clone, Debug)]
pub struct Pndm {
    process: DiffusionProcess,
    steps: usize,
    skip_prk_steps: bool,
    set_alpha_to_one: bool,
    compatible: Compatible,
}

impl Pndm {
    /// The sampler, with Runge-Kutta steps where there are enough steps for them (four). They cost three evaluations more each.
    ///
    /// # Panics
    ///
    /// Panics if there are no steps, or more than the process has times.
    pub fn new(process: DiffusionProcess, steps: usize) -> Self {
        assert_steps("Pndm", steps, process.num_train_timesteps());
        let skip_prk_steps = steps <= RUNGE_KUTTA_STEPS;
        Self { process, steps, skip_prk_steps, set_alpha_to_one: false, compatible: Compatible::default() }
    }

    /// Sets whether there are no Runge-Kutta steps. There are none if there are fewer than four steps.
    #[must_use]
    pub fn with_skip_prk_steps(self, skip_prk_steps: bool) -> Self {
        Self { skip_prk_steps: skip_prk_steps || self.steps <= RUNGE_KUTTA_STEPS, ..self }
    }

    /// Sets whether the last step takes all noise away, or what the process has at time 0 stays.
    #[must_use]
    pub fn with_set_alpha_to_one(self, set_alpha_to_one: bool) -> Self {
        Self { set_alpha_to_one, ..self }
    }

    /// Sets whose arithmetic it has.
    #[must_use]
    pub fn with_compatible(self, compatible: Compatible) -> Self {
        Self { compatible, ..self }
    }

    /// The time at which a step begins; the last step is number 0.
    fn time(&self, step: usize) -> usize {
        let times = self.process.num_train_timesteps();
        match self.compatible {
            Compatible::Papers => step * times / self.steps,
            Compatible::Monai => step * (times / self.steps),
        }
    }

    /// Times of the Runge-Kutta evaluations, four for each step.
    fn runge_kutta_times(&self) -> Vec<usize> {
        let steps = if self.skip_prk_steps { 0 } else { RUNGE_KUTTA_STEPS };
        let of_step = |step: usize| {
            let (begin, end) = (self.time(step), self.time(step - 1));
            let middle = end.midpoint(begin); // a whole time
            [begin, middle, middle, end]
        };
        (self.steps - steps..self.steps).rev().flat_map(of_step).collect()
    }

    /// Times of the multi-step evaluations.
    fn multi_step_times(&self) -> Vec<usize> {
        let first = if self.skip_prk_steps { self.steps } else { self.steps - RUNGE_KUTTA_STEPS };
        let mut times: Vec<usize> = (0..first).rev().map(|step| self.time(step)).collect();
        if self.skip_prk_steps && self.compatible == Compatible::Papers && times.len() > 1 {
            times.insert(1, times[1]);
        }
        times
    }

    /// Times that a step of MONAI's advances by.
    fn advance(&self) -> usize {
        self.process.num_train_timesteps() / self.times().len()
    }

    /// The network's output: the noise, or as it is where it becomes noise only in [`transfer`](Self::transfer).
    fn evaluate(&self, network: &mut Network<'_>, x: &Tensor<5>, time: usize) -> Tensor<5> {
        let output = network(x.clone(), time as f64);
        match self.compatible {
            Compatible::Papers => self.process.consistent_split(output, x, time).1,
            Compatible::Monai => output,
        }
    }

    /// Equation 9: the volume at another time, if the noise is what it is said to be. Before time 0 there is the end.
    fn transfer(&self, x: Tensor<5>, from: usize, to: Option<usize>, noise: Tensor<5>) -> Tensor<5> {
        let alpha = self.process.alpha_cumprod(from);
        let end = if self.set_alpha_to_one { 1.0 } else { self.process.alpha_cumprod(0) };
        let alpha_to = to.map_or(end, |time| self.process.alpha_cumprod(time));
        let noise = match (self.compatible, self.process.prediction()) {
            (Compatible::Monai, Prediction::VPrediction) => noise * alpha.sqrt() + x.clone() * (1.0 - alpha).sqrt(),
            _ => noise,
        };
        let divisor = alpha * (1.0 - alpha_to).sqrt() + (alpha * (1.0 - alpha) * alpha_to).sqrt();
        x * (alpha_to / alpha).sqrt() - noise * ((alpha_to - alpha) / divisor)
    }
}

impl Sampler for Pndm {
    fn times(&self) -> Vec<f64> {
        self.runge_kutta_times().into_iter().chain(self.multi_step_times()).map(|time| time as f64).collect()
    }

    fn sample_with(
        &self,
        noise: Tensor<5>,
        network: &mut Network<'_>,
        _draw: &mut dyn FnMut(&Tensor<5>) -> Tensor<5>,
    ) -> Tensor<5> {
        let advance = self.advance();
        let (mut x, mut history) = (noise, Vec::new());
        for times in self.runge_kutta_times().chunks(EVALUATIONS) {
            let [begin, middle, other_middle, end] = *times else { unreachable!("four evaluations a step") };
            let half = advance / 2;
            let [to_middle, to_end] = match self.compatible {
                Compatible::Papers => [Some(middle), Some(end)],
                Compatible::Monai => [begin.checked_sub(half), other_middle.checked_sub(half)],
            };
            let first = self.evaluate(network, &x, begin);
            history.push(first.clone());
            let there = self.transfer(x.clone(), begin, to_middle, first.clone());
            let second = self.evaluate(network, &there, middle);
            let there = self.transfer(x.clone(), begin, Some(middle), second.clone());
            let third = self.evaluate(network, &there, other_middle);
            let there = self.transfer(x.clone(), begin, to_end, third.clone());
            let fourth = self.evaluate(network, &there, end);
            x = self.transfer(x, begin, Some(end), first / 6.0 + second / 3.0 + third / 3.0 + fourth / 6.0);
        }
        let mut before_correction = None;
        for (evaluation, (time, following)) in with_following(&self.multi_step_times()).enumerate() {
            let noise = self.evaluate(network, &x, time);
            if let Some((begin, start)) = before_correction.take() {
                let mean: Tensor<5> = (noise + history[0].clone()) / 2.0;
                // from where the first step began, to where it ended
                let begin = if self.compatible == Compatible::Monai { time + advance } else { begin };
                x = self.transfer(start, begin, Some(time), mean);
                continue;
            }
            if history.len() == 4 {
                history.remove(0);
            }
            history.push(noise);
            if evaluation == 0 && self.skip_prk_steps {
                before_correction = Some((time, x.clone()));
            }
            let to = match self.compatible {
                Compatible::Papers => following,
                Compatible::Monai => time.checked_sub(advance),
            };
            x = self.transfer(x, time, to, multi_step(&history));
        }
        x
    }
}

/// The noise of a step, of as high an order as there are evaluations.
fn multi_step(history: &[Tensor<5>]) -> Tensor<5> {
    let weights: &[f64] = match history.len() {
        1 => &[1.0],
        2 => &[-0.5, 1.5],
        3 => &[5.0 / 12.0, -16.0 / 12.0, 23.0 / 12.0],
        _ => &[-9.0 / 24.0, 37.0 / 24.0, -59.0 / 24.0, 55.0 / 24.0],
    };
    let terms = history.iter().zip(weights).map(|(noise, weight)| noise.clone() * *weight);
    terms.reduce(|a, b| a + b).expect("an evaluation")
}
