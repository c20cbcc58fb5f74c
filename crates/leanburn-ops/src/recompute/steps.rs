//! The backward of a segment's steps: outputs leave their gradients, the hub runs the segment again, gates pass on.

use std::fmt;

use burn::backend::autodiff::NodeId;
use burn::backend::autodiff::checkpoint::{base::Checkpointer, strategy::CheckpointStrategy};
use burn::backend::autodiff::grads::Gradients;
use burn::backend::autodiff::ops::{Backward, Ops};
use burn::backend::tensor::FloatTensor;
use burn::backend::{Backend, DispatchKindConversion, DispatchTensor, TensorMetadata};
use burn::tensor::Device;

use super::early_stop::{LastOperation, leaving_out};
use super::meeting::{OwnBackward, Place, Replay, Saved, Second};
use super::samples::{agree, sample};
use super::second_run::{Leaf, backward_through};
use crate::autodiff::{Reachable, lower, lower_plain, raise_plain};
use crate::recording::{Pass, in_pass};

/// Leaves the gradient of one output for the hub.
#[derive(Debug)]
pub(super) struct Output;

impl<B: Backend> Backward<B, 1> for Output {
    type State = (Place<B>, usize);

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let gradient = grads.consume::<B>(&ops.node);
        let (place, index) = ops.state;
        place.with(|meeting| meeting.output_gradients[index] = Some(gradient));
        pass_on(ops.parents[0].as_ref().map(|parent| parent.id), &place, grads);
    }
}

/// Passes the gradient that the second run left on to one input.
#[derive(Debug)]
pub(super) struct Gate;

impl<B: Backend> Backward<B, 2> for Gate {
    type State = (Place<B>, usize);

    fn backward(self, ops: Ops<Self::State, 2>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        grads.consume::<B>(&ops.node);
        let (place, index) = ops.state;
        let gradient = place.with(|meeting| meeting.input_gradients[index].take());
        if let (Some(input), Some(gradient)) = (&ops.parents[0], gradient) {
            grads.register::<B>(input.id, gradient);
        }
        pass_on(ops.parents[1].as_ref().map(|parent| parent.id), &place, grads);
    }
}

/// Hands the token to the step before.
fn pass_on<B: Backend>(parent: Option<NodeId>, place: &Place<B>, grads: &mut Gradients) {
    if let Some(parent) = parent {
        grads.register::<B>(parent, place.token.clone());
    }
}

/// Runs the segment again and backward through it.
pub(super) struct Hub<C>(std::marker::PhantomData<fn() -> C>);

impl<C> Hub<C> {
    pub(super) fn new() -> Self {
        Self(std::marker::PhantomData)
    }
}

impl<C> fmt::Debug for Hub<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hub")
    }
}

impl<B: Backend, C: CheckpointStrategy> Backward<B, 1> for Hub<C>
where
    DispatchTensor: Reachable<B, C>,
{
    type State = Place<B>;

    fn backward(self, ops: Ops<Self::State, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        grads.consume::<B>(&ops.node);
        let place = ops.state;
        let (saved, second, samples, output_gradients) = place.with(|meeting| {
            let second = meeting.second.take().expect("backward consumes a graph once");
            let samples = std::mem::take(&mut meeting.samples);
            (std::mem::take(&mut meeting.saved), second, samples, std::mem::take(&mut meeting.output_gradients))
        });
        let input_gradients = match second {
            Second::Replay(replay, last) => {
                let outputs = Outputs { last, samples, gradients: output_gradients };
                replayed::<B, C>(saved, replay, outputs, &place.token, grads)
            }
            Second::Own(backward) => own(saved, backward, output_gradients, &place.token, grads),
        };
        place.with(|meeting| meeting.input_gradients = input_gradients);
        pass_on(ops.parents[0].as_ref().map(|parent| parent.id), &place, grads);
    }
}

/// What is known of a segment's outputs when it runs again.
struct Outputs<B: Backend> {
    /// What made the only one.
    last: Option<LastOperation>,
    samples: Option<Vec<Vec<f32>>>,
    gradients: Vec<Option<FloatTensor<B>>>,
}

/// Runs the segment again and backward through it; the gradients of its inputs.
fn replayed<B: Backend, C: CheckpointStrategy>(
    saved: Vec<Saved<B>>,
    replay: Replay,
    Outputs { last, samples, gradients }: Outputs<B>,
    token: &FloatTensor<B>,
    grads: &mut Gradients,
) -> Vec<Option<FloatTensor<B>>>
where
    DispatchTensor: Reachable<B, C>,
{
    let (leaves, tensors): (Vec<_>, Vec<_>) = saved.into_iter().map(|saved| Leaf::of::<C>(saved, token)).unzip();
    let device = device_of::<B>(token);
    let mut inner = in_pass(Pass::SecondRun, &device, || {
        let (outputs, left_out) = leaving_out(last, || replay(tensors));
        let is_same = match (left_out, samples) {
            (Some(node), _) => {
                outputs.iter().all(|output| lower::<B, C>(output).is_some_and(|output| output.id() == node))
            }
            (None, Some(samples)) => agree_with::<B, C>(&samples, &outputs),
            (None, None) => true,
        };
        assert!(
            is_same,
            "a recomputed segment computed other values in backward than in forward. It depends on something outside of its \
             module and inputs that has changed: a random layer of Burn while another thread draws from Burn's generator (draw \
             there with leanburn_ops::random::normal), or a value that its closure reads"
        );
        in_pass(Pass::Backward, &device, || backward_through::<B, C>(outputs, gradients, token))
    });
    leaves.into_iter().map(|leaf| leaf.hand_over(inner.as_mut(), grads)).collect()
}

/// Runs the segment's own backward; the gradients of its inputs.
fn own<B: Backend>(
    saved: Vec<Saved<B>>,
    backward: OwnBackward,
    output_gradients: Vec<Option<FloatTensor<B>>>,
    token: &FloatTensor<B>,
    grads: &mut Gradients,
) -> Vec<Option<FloatTensor<B>>>
where
    DispatchTensor: DispatchKindConversion<B>,
{
    let device = device_of::<B>(token);
    let leaves: Vec<Option<NodeId>> = saved
        .iter()
        .map(|saved| match saved {
            Saved::Leaf(_, id) => Some(*id),
            _ => None,
        })
        .collect();
    let tensors = saved.into_iter().map(Saved::plain).collect();
    let output_gradients = output_gradients.into_iter().map(|gradient| gradient.map(raise_plain::<B>)).collect();
    let gradients =
        in_pass(Pass::SecondRun, &device, || in_pass(Pass::Backward, &device, || backward(tensors, output_gradients)));
    let hand_over = |(leaf, gradient): (Option<NodeId>, Option<DispatchTensor>)| {
        let gradient = gradient.map(lower_plain::<B>);
        match (leaf, gradient) {
            (Some(id), Some(gradient)) => {
                grads.register::<B>(id, gradient);
                None
            }
            (_, gradient) => gradient,
        }
    };
    leaves.into_iter().zip(gradients).map(hand_over).collect()
}

fn device_of<B: Backend>(token: &FloatTensor<B>) -> Device
where
    DispatchTensor: DispatchKindConversion<B>,
{
    Device::new(raise_plain::<B>(token.clone()).device())
}

/// Whether the second run has computed the outputs of the first: if not, its gradients would be wrong.
fn agree_with<B: Backend, C: CheckpointStrategy>(samples: &[Vec<f32>], outputs: &[DispatchTensor]) -> bool
where
    DispatchTensor: Reachable<B, C>,
{
    samples.iter().zip(outputs).all(|(first, output)| {
        let second = lower::<B, C>(output).map_or_else(Vec::new, |output| sample::<B>(&output.into_primitive()));
        agree(first, &second)
    })
}
