//! What a recording device is told beyond Burn's operations: calls of kernels, segments, passes, what tensors are for.
//!
//! `Device::capture()` writes down the operations that reach it. Inside [`as_on_cpu`] the operations of this crate reach it
//! as the kernel calls that the CPU would run; outside, as the kernel calls and Burn's operations that a GPU would.
//! Everything that is not one of Burn's operations is an [`OperationIr::Custom`], which [`Note::of`] reads.

use std::cell::Cell;
use std::sync::Arc;

use burn::backend::autodiff::checkpoint::strategy::NoCheckpointing;
use burn::backend::ir::{CustomOpIr, OperationIr, ScalarIr, TensorIr};
use burn::backend::{Capture, DispatchAutodiffContext, DispatchDevice, DispatchTensor, TensorMetadata};
use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{DType, Device, Shape, Tensor};
use burn_capture::CaptureChannel;
use burn_router::{Client, RouterClient, get_client};

use crate::autodiff::{AutodiffTensor, inner, lower_plain, raise, raise_plain};

/// What a tensor is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Purpose {
    /// Trained weights and running statistics.
    Weights,
    /// Gradients of weights.
    Gradients,
    /// States of an optimizer.
    Optimizer,
    /// An average of weights.
    Average,
    /// A micro-batch.
    Batch,
}

impl Purpose {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Weights, "weights"),
        (Self::Gradients, "gradients"),
        (Self::Optimizer, "optimizer"),
        (Self::Average, "average"),
        (Self::Batch, "batch"),
    ];
}

/// A part of a training step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Pass {
    /// From a loss, or from the outputs of a second run, to gradients.
    Backward,
    /// The run of a recomputed segment that records no graph. Its note has the segment's tensors as inputs.
    FirstRun,
    /// Within backward, the run of a recomputed segment that records one.
    SecondRun,
    /// From gradients to new weights.
    Update,
}

impl Pass {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Backward, "leanburn:backward"),
        (Self::FirstRun, "leanburn:first-run"),
        (Self::SecondRun, "leanburn:second-run"),
        (Self::Update, "leanburn:update"),
    ];

    fn id(self) -> &'static str {
        Self::ALL.iter().find(|(pass, _)| *pass == self).expect("all are listed").1
    }
}

/// What is written down beside Burn's operations.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Note<'a> {
    /// A call of one of our kernels.
    Kernel {
        /// Its name.
        name: &'a str,
        /// Floating-point operations.
        flops: u64,
        /// Bytes of memory that are there only while it runs.
        workspace: u64,
        /// Input over which the first output is written where nobody else holds it.
        over: Option<usize>,
    },
    /// A segment begins; segments nest.
    SegmentBegins(&'a str),
    /// The innermost segment ends.
    SegmentEnds,
    /// A pass begins; passes nest.
    PassBegins(Pass),
    /// The innermost pass ends.
    PassEnds,
    /// An operation of this crate begins, with the note's inputs; what it runs until its end leaves no steps in the graph of
    /// autodiff but its own.
    OperationBegins,
    /// The operation ends.
    OperationEnds,
    /// Backward has gone through an operation of this crate, and has let go of what it kept.
    OperationConsumed,
    /// What follows is there once and runs several times, on parts of a whole.
    RepeatBegins {
        /// Size of the whole.
        whole: u64,
        /// Size of the part that is there.
        part: u64,
    },
    /// What runs several times ends.
    RepeatEnds,
    /// A training step begins; what came before has made it possible.
    StepBegins,
    /// The operation's inputs serve this purpose, and are alive here.
    Serves(Purpose),
}

const KERNEL: &str = "leanburn:kernel:";
const SEGMENT: &str = "leanburn:segment:";
const SEGMENT_END: &str = "leanburn:segment-end";
const STEP: &str = "leanburn:step";
const OPERATION: &str = "leanburn:operation";
const OPERATION_END: &str = "leanburn:operation-end";
const OPERATION_CONSUMED: &str = "leanburn:operation-consumed";
const REPEAT: &str = "leanburn:repeat";
const REPEAT_END: &str = "leanburn:repeat-end";
const PASS_END: &str = "leanburn:pass-end";
const PURPOSE: &str = "leanburn:purpose:";

impl<'a> Note<'a> {
    /// Reads a custom operation; `None` if it is not one of ours.
    pub fn of(operation: &'a CustomOpIr) -> Option<Self> {
        let id = operation.id.as_str();
        let number = |index: usize| match operation.scalars.get(index) {
            Some(ScalarIr::UInt(number)) => Some(*number),
            _ => None,
        };
        if let Some(name) = id.strip_prefix(KERNEL) {
            let over = number(2)?.checked_sub(1).map(|index| index as usize);
            return Some(Self::Kernel { name, flops: number(0)?, workspace: number(1)?, over });
        }
        if let Some(name) = id.strip_prefix(SEGMENT) {
            return Some(Self::SegmentBegins(name));
        }
        if let Some(name) = id.strip_prefix(PURPOSE) {
            return Purpose::ALL
                .iter()
                .find(|(_, purpose)| *purpose == name)
                .map(|(purpose, _)| Self::Serves(*purpose));
        }
        match id {
            SEGMENT_END => Some(Self::SegmentEnds),
            PASS_END => Some(Self::PassEnds),
            OPERATION => Some(Self::OperationBegins),
            OPERATION_END => Some(Self::OperationEnds),
            OPERATION_CONSUMED => Some(Self::OperationConsumed),
            STEP => Some(Self::StepBegins),
            REPEAT => Some(Self::RepeatBegins { whole: number(0)?, part: number(1)? }),
            REPEAT_END => Some(Self::RepeatEnds),
            _ => Pass::ALL.iter().find(|(_, pass)| *pass == id).map(|(pass, _)| Self::PassBegins(*pass)),
        }
    }
}

thread_local! {
    static AS_ON_CPU: Cell<bool> = const { Cell::new(false) };
    static SEGMENT_NAME: Cell<Option<Arc<str>>> = const { Cell::new(None) };
}

/// Runs `record`; on a recording device the operations of this crate are written down as the kernels that the CPU runs.
pub fn as_on_cpu<T>(record: impl FnOnce() -> T) -> T {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            AS_ON_CPU.set(self.0);
        }
    }
    let _restore = Restore(AS_ON_CPU.replace(true));
    record()
}

/// Says what the tensors of a module are for, and that they are alive; nothing on a device that computes.
pub fn serves<M: Module>(purpose: Purpose, module: &M) {
    struct Collect(Vec<DispatchTensor>);
    impl ModuleVisitor for Collect {
        fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
            self.0.push(param.val().into_dispatch());
        }
    }
    let mut collect = Collect(Vec::new());
    module.visit(&mut collect);
    tensors_serve(purpose, collect.0);
}

/// As [`serves`], for tensors.
pub fn tensors_serve(purpose: Purpose, tensors: Vec<DispatchTensor>) {
    let Some(client) = tensors.first().and_then(|tensor| client(&Device::new(tensor.device()))) else { return };
    let (_, name) = Purpose::ALL.iter().find(|(candidate, _)| *candidate == purpose).expect("all are listed");
    let inputs = tensors.into_iter().map(|tensor| lower_plain::<Capture>(inner(tensor)).into_ir()).collect();
    note(&client, format!("{PURPOSE}{name}"), inputs);
}

/// Notes that a training step begins; nothing on a device that computes.
pub fn step_begins(device: &Device) {
    if let Some(client) = client(device) {
        note(&client, STEP.to_string(), Vec::new());
    }
}

/// Whether the device records operations instead of running them.
pub fn is_recording(device: &Device) -> bool {
    crate::recompute::is_recording(device)
}

/// The tensor without autodiff; Burn's `without_autodiff`, and on a recording device as well.
pub fn without_autodiff<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    Tensor::from_dispatch(inner(tensor.into_dispatch()))
}

/// The module without autodiff; Burn's `Module::valid`, and on a recording device as well.
pub fn valid<M: Module>(module: &M) -> M {
    struct Inner;
    impl ModuleMapper for Inner {
        fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
            param.map(without_autodiff)
        }
    }
    match module.devices().iter().any(is_recording) {
        true => module.clone().map(&mut Inner),
        false => module.valid(),
    }
}

/// A recorded tensor without autodiff as one that takes a gradient (Burn's `from_inner` refuses it).
///
/// # Panics
///
/// Panics if the device does not record.
pub fn require_grad<const D: usize>(tensor: Tensor<D>) -> Tensor<D> {
    let tensor = <AutodiffTensor<Capture>>::new(lower_plain::<Capture>(tensor.into_dispatch())).require_grad();
    Tensor::from_dispatch(raise::<Capture, NoCheckpointing>(tensor))
}

/// Runs `pass`, noted as such on a recording device.
pub fn in_pass<T>(pass: Pass, device: &Device, run: impl FnOnce() -> T) -> T {
    between(device, pass.id(), PASS_END, run)
}

/// Runs `operation` on its inputs, noted with them on a recording device.
pub(crate) fn in_operation<T, const N: usize>(
    inputs: [Option<DispatchTensor>; N],
    operation: impl FnOnce([Option<DispatchTensor>; N]) -> T,
) -> T {
    let there = inputs.iter().flatten();
    let Some(client) = there.clone().next().and_then(|input| client(&Device::new(input.device()))) else {
        return operation(inputs);
    };
    let noted = there.map(|input| lower_plain::<Capture>(input.clone()).into_ir()).collect();
    noted_around(&client, OPERATION, noted, OPERATION_END, || operation(inputs))
}

/// Notes that backward has gone through an operation; nothing on a device that computes.
pub(crate) fn operation_consumed(device: &Device) {
    if let Some(client) = client(device) {
        note(&client, OPERATION_CONSUMED.to_string(), Vec::new());
    }
}

/// Runs the first run of a recomputed segment, noted with its tensors under autodiff on a recording device.
pub(crate) fn in_first_run<T>(tensors: Vec<DispatchTensor>, run: impl FnOnce(Vec<DispatchTensor>) -> T) -> T {
    let under_autodiff = tensors.iter().filter(|tensor| tensor.autodiff != DispatchAutodiffContext::Disabled);
    let Some(client) = under_autodiff.clone().next().and_then(|tensor| client(&Device::new(tensor.device()))) else {
        return run(tensors);
    };
    let noted = under_autodiff.map(|tensor| lower_plain::<Capture>(inner(tensor.clone())).into_ir()).collect();
    noted_around(&client, Pass::FirstRun.id(), noted, PASS_END, || run(tensors))
}

/// Runs `segment`, noted by its name on a recording device.
pub(crate) fn in_segment<T>(name: &str, device: Option<&Device>, segment: impl FnOnce() -> T) -> T {
    match device.filter(|device| is_recording(device)) {
        None => segment(),
        Some(device) => {
            struct Restore(Option<Arc<str>>);
            impl Drop for Restore {
                fn drop(&mut self) {
                    SEGMENT_NAME.set(self.0.take());
                }
            }
            let _restore = Restore(SEGMENT_NAME.replace(Some(name.into())));
            between(device, &format!("{SEGMENT}{name}"), SEGMENT_END, segment)
        }
    }
}

/// Runs `run` on a recording device, noted as what is done to each part of a whole.
pub(crate) fn repeated<T>(device: &Device, whole: usize, part: usize, run: impl FnOnce() -> T) -> T {
    let Some(client) = client(device) else { return run() };
    let scalars = [whole, part].map(|size| ScalarIr::UInt(size as u64)).to_vec();
    let (id, inputs, outputs) = (REPEAT.to_string(), Vec::new(), Vec::new());
    client.register_op(OperationIr::Custom(CustomOpIr { id, inputs, outputs, scalars }));
    let result = run();
    note(&client, REPEAT_END.to_string(), Vec::new());
    result
}

/// The innermost segment that is being recorded.
pub(crate) fn segment() -> Option<Arc<str>> {
    let name = SEGMENT_NAME.take();
    SEGMENT_NAME.set(name.clone());
    name
}

/// The value of a tensor of one element; `stand_in` on a recording device, where there are no values.
pub fn value_or(tensor: Tensor<1>, stand_in: f32) -> f32 {
    if is_recording(&tensor.device()) { stand_in } else { tensor.into_scalar() }
}

fn between<T>(device: &Device, begin: &str, end: &str, run: impl FnOnce() -> T) -> T {
    match client(device) {
        None => run(),
        Some(client) => noted_around(&client, begin, Vec::new(), end, run),
    }
}

fn noted_around<T>(
    client: &CaptureClient,
    begin: &str,
    inputs: Vec<TensorIr>,
    end: &str,
    run: impl FnOnce() -> T,
) -> T {
    note(client, begin.to_string(), inputs);
    let result = run();
    note(client, end.to_string(), Vec::new());
    result
}

type CaptureClient = Client<CaptureChannel>;

/// What records, if the device does.
fn client(device: &Device) -> Option<CaptureClient> {
    match device.clone().without_autodiff().as_dispatch() {
        DispatchDevice::Capture(device) => Some(get_client::<CaptureChannel>(device)),
        _ => None,
    }
}

fn note(client: &CaptureClient, id: String, inputs: Vec<TensorIr>) {
    client.register_op(OperationIr::Custom(CustomOpIr { id, inputs, outputs: Vec::new(), scalars: Vec::new() }));
}

/// A call of a kernel, to be written down.
pub(crate) struct Call {
    client: CaptureClient,
    name: &'static str,
    inputs: Vec<TensorIr>,
    outputs: Vec<TensorIr>,
    over: Option<usize>,
    flops: u64,
    workspace: u64,
}

impl Call {
    /// A call where `tensor` is on a recording device that is to write down kernels, and of a dtype that they compute on.
    pub(crate) fn on<const D: usize>(name: &'static str, tensor: &Tensor<D>) -> Option<Self> {
        let is_kernel = AS_ON_CPU.get() && matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16);
        is_kernel.then(|| Self::on_any(name, tensor)).flatten()
    }

    /// A call where `tensor` is on a recording device that is to write down what a GPU runs, and of a dtype that the
    /// kernels compute on.
    pub(crate) fn on_cube<const D: usize>(name: &'static str, tensor: &Tensor<D>) -> Option<Self> {
        let is_kernel = !AS_ON_CPU.get() && matches!(tensor.dtype(), DType::F32 | DType::F16 | DType::BF16);
        is_kernel.then(|| Self::on_any(name, tensor)).flatten()
    }

    /// A call where `tensor` is on a recording device, whatever it stands for.
    pub(crate) fn on_any<const D: usize>(name: &'static str, tensor: &Tensor<D>) -> Option<Self> {
        let client = client(&tensor.device())?;
        let (inputs, outputs) = (Vec::new(), Vec::new());
        Some(Self { client, name, inputs, outputs, over: None, flops: 0, workspace: 0 })
    }

    /// An input that somebody holds on to.
    pub(crate) fn reads<const D: usize>(mut self, tensor: &Tensor<D>) -> Self {
        self.inputs.push(lower_plain::<Capture>(tensor.clone().into_dispatch()).into_ir());
        self
    }

    /// An input that is given up.
    pub(crate) fn takes<const D: usize>(mut self, tensor: Tensor<D>) -> Self {
        self.inputs.push(lower_plain::<Capture>(tensor.into_dispatch()).into_ir());
        self
    }

    /// An input that is given up; the first output is written over it where nobody else holds it.
    pub(crate) fn writes_over<const D: usize>(mut self, tensor: Tensor<D>) -> Self {
        self.over = Some(self.inputs.len());
        self.takes(tensor)
    }

    /// What the call costs: floating-point operations, and bytes that are there only while it runs.
    pub(crate) fn costs(mut self, flops: u64, workspace: usize) -> Self {
        (self.flops, self.workspace) = (flops, workspace as u64);
        self
    }

    /// One more output.
    pub(crate) fn gives(mut self, dims: impl Into<Shape>, dtype: DType) -> Self {
        self.outputs.push(TensorIr::uninit(self.client.create_empty_handle(), dims.into(), dtype));
        self
    }

    /// Writes the call down; its outputs.
    pub(crate) fn record(self) -> impl Iterator<Item = DispatchTensor> {
        let over = self.over.map_or(0, |index| index as u64 + 1);
        let operation = CustomOpIr {
            id: format!("{KERNEL}{}", self.name),
            inputs: self.inputs,
            outputs: self.outputs,
            scalars: [self.flops, self.workspace, over].map(ScalarIr::UInt).to_vec(),
        };
        self.client.register(OperationIr::Custom(operation)).into_iter().map(raise_plain::<Capture>)
    }

    /// Writes the call down; its one output.
    pub(crate) fn record_one<const D: usize>(self, dims: [usize; D], dtype: DType) -> Tensor<D> {
        let output = self.gives(dims, dtype).record().next().expect("one output was asked for");
        Tensor::from_dispatch(output)
    }
}
