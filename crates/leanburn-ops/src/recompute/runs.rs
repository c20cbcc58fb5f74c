//! The two runs of a recomputed segment, and the one run of a segment that is kept.

use std::sync::Arc;

use burn::backend::{DispatchTensor, TensorMetadata};
use burn::module::Module;
use burn::tensor::Device;

use super::meeting::Replay;
use super::parameters::{flags_of, tensors_of, with_tensors};
use super::segment::{is_tracked, run_and_register};
use super::tensors::Tensors;
use crate::autodiff::on_backend_of;
use crate::random;
use crate::recording::{in_first_run, is_recording};
use crate::storage::{self, Scope};

/// Runs `forward(module, inputs)` without saving its intermediate results, and runs it again in backward.
///
/// Works for any Burn module. Segments may be nested. Random layers draw the same numbers in both runs ([`random`]), running
/// statistics of batch normalisation move once. Where nothing has a gradient it is a plain call.
///
/// # Memory
///
/// Saved for backward: the inputs (shared with their producers). During this segment's backward also all that plain
/// autodiff would have saved of it. The outputs are held only if the next operation saves them.
///
/// One more forward of the segment is the price, without the operation that makes its only output where that is a convolution or a
/// [spectral layer](crate::spectral_conv); a segment inside `n` recomputed others runs `n + 1` more times.
///
/// # Numerics
///
/// Outputs and gradients are those of the plain path bit for bit on a deterministic backend, in any dtype, as long as
/// no tensor that enters the segment collects three or more gradients (addition is commutative, not associative).
///
/// Where that operation is left out, what reads its values in the second run, inside of `forward`, finds zeros.
///
/// # Panics
///
/// If an output depends on a tensor with a gradient that `forward` captures: all such tensors must be among the inputs or in
/// the module. In backward, if the second run computes something else than the first (which is noticed on the CPU; on GPUs only where
/// it ends with another operation): `forward` depends on something that has changed, or draws from Burn's generator while another thread
/// draws from it too.
///
/// # Example
///
/// ```
/// use burn::nn::{Linear, LinearConfig};
/// use burn::prelude::*;
/// use burn::tensor::Distribution;
///
/// let device = Device::flex().autodiff();
/// let layer = LinearConfig::new(8, 8).init(&device);
/// let x = Tensor::<2>::random([4, 8], Distribution::Default, &device).require_grad();
///
/// let forward = |layer: &Linear, x: Tensor<2>| layer.forward(x).tanh();
/// let plain = forward(&layer, x.clone());
/// let lean = leanburn_ops::recompute(&layer, x.clone(), forward);
///
/// let gradient = |y: Tensor<2>| x.grad(&y.sum().backward()).unwrap().into_data();
/// assert_eq!(gradient(lean), gradient(plain));
/// ```
#[must_use]
pub fn recompute<M, I, O, F>(module: &M, inputs: I, forward: F) -> O
where
    M: Module + 'static,
    I: Tensors,
    O: Tensors,
    F: Fn(&M, I) -> O + Send + Sync + 'static,
{
    let mut tensors = Vec::new();
    let input_layout = inputs.flatten(&mut tensors);
    let input_count = tensors.len();

    let Some(tracked) = tensors.iter().cloned().chain(tensors_of(module)).find(is_tracked) else {
        let device = tensors.first().map(device_of);
        let inputs = I::assemble(&input_layout, &mut tensors.into_iter());
        return random::kept(device.as_ref(), || forward(module, inputs));
    };
    let device = device_of(&tracked);
    let seed = random::next_key(&device);
    let detached = detach(module, &device);
    tensors.extend(tensors_of(module)); // after `detach`, which settles running statistics
    let flags = flags_of(module);
    let run = Arc::new(move |module: M, mut tensors: Vec<DispatchTensor>| -> O {
        let parameters = tensors.split_off(input_count);
        let module = with_tensors(module, parameters, flags.clone());
        let inputs = I::assemble(&input_layout, &mut tensors.into_iter());
        storage::within(Scope::default(), || random::recomputed(&device, seed, || forward(&module, inputs)))
    });

    let mut output_layout = None;
    let first = |tensors: Vec<DispatchTensor>| {
        let mut outputs = Vec::new();
        let result = in_first_run(tensors, |tensors| run(module.clone(), tensors));
        output_layout = Some(result.flatten(&mut outputs));
        outputs
    };
    let run_again = run.clone();
    let replay: Replay = Box::new(move |tensors| {
        let mut outputs = Vec::new();
        run_again(detached, tensors).flatten(&mut outputs);
        outputs
    });
    let outputs = on_backend_of!(&tracked, run_and_register(tensors, first, replay));
    let layout = output_layout.expect("the first run has taken place");
    O::assemble(&layout, &mut outputs.into_iter())
}

/// Runs a segment plainly, with the random numbers that [`recompute`] would have drawn.
pub(crate) fn keep<M: Module, I: Tensors, O>(module: &M, inputs: I, forward: impl Fn(&M, I) -> O) -> O {
    tensors_of(module); // initialises lazy parameters, before the segment's seed as in `recompute`
    let device = inputs.device();
    random::kept(device.as_ref(), || forward(module, inputs))
}

/// A copy of the module whose running statistics are its own, so that the second run does not move the first's.
///
/// A recording device has no values and rejects `Module::valid`; there the copy shares them.
fn detach<M: Module>(module: &M, device: &Device) -> M {
    match is_recording(device) {
        true => module.clone(),
        false => module.valid(),
    }
}

fn device_of(tensor: &DispatchTensor) -> Device {
    Device::new(tensor.device())
}
