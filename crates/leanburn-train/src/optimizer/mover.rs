//! An optimizer that moves the states of another.
//!
//! Burn's `ModuleOptimizer` gives its states to the steps of its optimizer alone. So an optimizer whose step moves states stands in for
//! the real one, and gradients, whatever their values, say for which parameters.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex};

use burn::optim::{DynState, Optimizer};
use burn::tensor::{Device, Tensor};

/// States on their way, in the order of parameters; of a parameter that has none yet, none.
pub(crate) type Moved = Arc<Mutex<VecDeque<Option<DynState>>>>;

/// An optimizer that takes no step: it takes states out, or puts in what was taken.
pub(crate) struct Mover<O> {
    moved: Moved,
    puts: bool,
    states_of: PhantomData<fn() -> O>,
}

impl<O> Mover<O> {
    /// One for the states of this optimizer.
    pub fn of(_: &O, moved: &Moved, puts: bool) -> Self {
        Self { moved: moved.clone(), puts, states_of: PhantomData }
    }
}

impl<O> Clone for Mover<O> {
    fn clone(&self) -> Self {
        Self { moved: self.moved.clone(), ..*self }
    }
}

impl<O: Optimizer> Optimizer for Mover<O> {
    type State<const D: usize> = O::State<D>;

    fn step<const D: usize>(
        &self,
        _: f64,
        tensor: Tensor<D>,
        _: Tensor<D>,
        state: Option<O::State<D>>,
    ) -> (Tensor<D>, Option<O::State<D>>) {
        let mut moved = self.moved.lock().expect("a step that panics ends both optimizers");
        let put = match self.puts {
            true => moved.pop_front().flatten().map(DynState::downcast),
            false => {
                moved.push_back(state.map(|state| DynState::create(state, D)));
                None
            }
        };
        (tensor, put)
    }

    fn to_device<const D: usize>(state: O::State<D>, device: &Device) -> O::State<D> {
        O::to_device(state, device)
    }
}
