//! A streamed segment as an operation with a backward of its own.

use burn::backend::DispatchTensor;
use burn::tensor::Tensor;

use super::chain::{Chain, Node};
use super::march::March;
use super::passes;
use super::settings::StreamSettings;
use super::slab::ParameterGradients;
use super::stage::{Parameters, Stage};
use super::stages::{Stages, Volumes};
use super::statistics::BatchStatistics;
use crate::autodiff::{has_autodiff, inner, on_backend_of};
use crate::operations::norm_act::{ChannelStatistics, Normalization};
use crate::recompute::{OwnBackward, Tensors, is_tracked, run_with_own_backward, without_graph};
use crate::recording::{current_segment, in_segment};
use crate::share::Share;

/// Runs stages in slabs along the depth, forward and backward: exactly what they compute whole, in a fraction of the memory.
///
/// Norms are exact: their statistics, and in backward their sums, are those of the whole volume, of all volumes of the batch where it is a
/// norm over these, which takes a pass over the slabs for each of them. Planes that two slabs need are kept from one to the next. Statistics of forward are used again in backward.
///
/// # Shapes
///
/// - inputs, one or two: `[batch_size, channels, depth, height, width]`, no axis empty
/// - output: that of the last stage
///
/// Of [several processes](crate::with_volume_ranks) that hold the volume together each gives and gets its own planes.
///
/// # Memory
///
/// Saved for backward: the inputs, shared with their producers, and mean and deviation of each norm's groups. While it runs: the volumes that
/// [`StreamKeep`](super::StreamKeep) names, what is cached, and a few slabs; the output. In backward a volume gives way to its gradient slab by slab.
///
/// # Numerics
///
/// In one slab, outputs and gradients are bit for bit those of the operations that the stages are made of. In several, convolutions may
/// choose another of their methods for a slab than for the whole, and sums are added up in another order: outputs and gradients differ by
/// about 1e-6 of their size in float32. The number of threads changes nothing. Processes are as slabs: their number is like that of slabs.
///
/// # Panics
///
/// Panics if there are no stages, shapes or dtypes do not go together, or the kernel of a stage is shorter along the depth than its
/// stride, not longer than its padding, or its length less one is no multiple of the enlargement in front of it. Where several
/// processes hold the volume, if the planes of one of them cannot be shared out evenly, or a share has fewer planes than a kernel reaches over.
#[must_use]
pub fn stream<I: Volumes>(inputs: I, stages: Stages, settings: StreamSettings) -> Tensor<5> {
    let Stages { inputs: count, stages } = stages;
    let (stages, parameters): (Vec<_>, Vec<_>) = stages.into_iter().map(Stage::apart).unzip();
    let mut tensors: Vec<_> = inputs.into_volumes().into_iter().map(Tensor::into_dispatch).collect();
    assert_eq!(tensors.len(), count, "stream: as many volumes go in as the stages have inputs");
    let layout = parameters.flatten(&mut tensors);
    let trained: Vec<bool> = tensors.iter().map(is_tracked).collect();
    let share = Share::here();
    let chain_of = move |tensors: Vec<DispatchTensor>| {
        let mut tensors = tensors.into_iter();
        let inputs: Vec<_> = tensors.by_ref().take(count).map(Tensor::<5>::from_dispatch).collect();
        let parameters = Vec::<Parameters>::assemble(&layout, &mut tensors);
        let stages = stages.clone().into_iter().zip(parameters).map(Stage::together).collect();
        (Chain::new(&inputs, Stages { inputs: count, stages }, share), inputs)
    };
    let under_autodiff = tensors.iter().find(|tensor| has_autodiff(tensor)).cloned();
    let Some(under_autodiff) = under_autodiff else {
        let (chain, inputs) = chain_of(tensors);
        let Forward { output, of_batch, .. } = forward(&chain, inputs, settings);
        of_batch.into_iter().for_each(|(told, statistics)| told.tell(statistics));
        return output;
    };
    let segment = current_segment();
    let mut of_batch = Vec::new();
    let first = |tensors: Vec<DispatchTensor>| {
        let (chain, inputs) = chain_of(tensors);
        let Forward { output, norms, of_batch: found } = forward(&chain, inputs, settings);
        of_batch = found;
        let backward: OwnBackward = Box::new(move |tensors, gradients| {
            let (chain, inputs) = chain_of(tensors);
            let gradient = gradients.into_iter().next().flatten().expect("backward comes from the output");
            let device = inputs[0].device();
            let run = || backward(&chain, inputs, norms, Tensor::from_dispatch(gradient), &trained, settings);
            match segment {
                Some(segment) => in_segment(&segment, Some(&device), run),
                None => run(),
            }
        });
        (output.into_dispatch(), backward)
    };
    let output = match tensors.iter().any(is_tracked) {
        true => on_backend_of!(&under_autodiff, run_with_own_backward(tensors, first)),
        false => {
            let output = first(tensors.into_iter().map(inner).collect()).0;
            on_backend_of!(&under_autodiff, without_graph(output))
        }
    };
    let raised = |tensor: Tensor<1>| {
        Tensor::from_dispatch(on_backend_of!(&under_autodiff, without_graph(tensor.into_dispatch())))
    };
    for (told, ChannelStatistics { mean, variance, count }) in of_batch {
        told.tell(ChannelStatistics { mean: raised(mean), variance: raised(variance), count });
    }
    Tensor::from_dispatch(output)
}

/// What forward gives.
struct Forward {
    output: Tensor<5>,
    /// Of each stage, with its statistics.
    norms: Vec<Option<Normalization>>,
    /// The statistics of batches, with those who are told them.
    of_batch: Vec<(BatchStatistics, ChannelStatistics)>,
}

fn forward(chain: &Chain, inputs: Vec<Tensor<5>>, settings: StreamSettings) -> Forward {
    let unknown = chain.stages().iter().map(|_| None).collect();
    let passes = passes::forward(chain, settings);
    let mut march = March::new(chain, inputs, settings, unknown).run(&passes);
    let output = march.take(Node::Value(chain.last())).expect("the last pass makes it");
    let (norms, statistics) = march.into_norms();
    let mut of_batch: Vec<(BatchStatistics, ChannelStatistics)> = Vec::new();
    for (stage, statistics) in chain.stages().iter().zip(statistics) {
        // Two stages may read the same norm of a volume.
        let new = stage.batch().filter(|told| of_batch.iter().all(|(other, _)| !other.is(told)));
        of_batch.extend(new.cloned().zip(statistics));
    }
    Forward { output, norms, of_batch }
}

/// The gradients of the inputs and of the parameters, in the order of the tensors; `trained` says which of them need one.
fn backward(
    chain: &Chain,
    inputs: Vec<Tensor<5>>,
    norms: Vec<Option<Normalization>>,
    gradient: Tensor<5>,
    trained: &[bool],
    settings: StreamSettings,
) -> Vec<Option<DispatchTensor>> {
    chain.check_gradient(&gradient, inputs[0].dtype());
    let (for_inputs, of_parameters) = trained.split_at(inputs.len());
    let mut of_parameters = of_parameters.iter();
    let is_trained = |stage: &Stage| {
        let [weight, bias, ..] =
            stage.parameters.present().map(|is_there| is_there && of_parameters.next() == Some(&true));
        weight || bias
    };
    let weights: Vec<bool> = chain.stages().iter().map(is_trained).collect();
    let passes = passes::backward(chain, settings, &weights, for_inputs);
    let march = March::new(chain, inputs, settings, norms).with_gradient(gradient);
    let mut march = march.run(&passes);
    let of_input = |input| march.take(Node::Gradient(input)).map(Tensor::into_dispatch);
    let of_inputs: Vec<_> = chain.inputs().map(of_input).collect();
    let of_stages = march.into_gradients().into_iter().zip(chain.stages());
    let of_parameters = of_stages.flat_map(|(gradients, stage)| in_order(gradients, stage.parameters.present()));
    let all = of_inputs.into_iter().chain(of_parameters).zip(trained);
    all.map(|(gradient, is_trained)| gradient.filter(|_| *is_trained)).collect()
}

/// The gradients of a stage in the order of its parameters, of which these are present.
fn in_order((weight, vectors): ParameterGradients, present: [bool; 5]) -> Vec<Option<DispatchTensor>> {
    let vectors = vectors.map(|gradient| gradient.map(Tensor::into_dispatch));
    let all = [weight.map(Tensor::into_dispatch)].into_iter().chain(vectors);
    all.zip(present).filter_map(|(gradient, is_present)| is_present.then_some(gradient)).collect()
}
