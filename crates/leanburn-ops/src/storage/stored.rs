//! A tensor between forward and backward, wherever it lives.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::mem::take;
use std::sync::{Arc, Mutex, Weak};

use burn::backend::ir::TensorId;
use burn::backend::ops::FloatTensorOps;
use burn::backend::{Dispatch, DispatchTensor, TensorMetadata};
use burn::tensor::{DType, Device, Shape, Tensor};

use super::Storage;
use super::compact::{Codes, narrow, widen};
use super::offload::{Offloaded, Writing};
use super::scope::{Scope, current, replace};
use crate::engine::address;
use crate::meanwhile::meanwhile;
use crate::recording::{is_recording, number, stands_for_cpu};

/// Bytes of a tensor that is not worth the trouble.
const SMALL: usize = 16 << 10;

/// A tensor without autodiff that has been put away, to be taken back once by each who has put it away.
#[derive(Clone)]
pub(crate) struct StoredTensor(Arc<Mutex<Stored>>);

#[derive(Default)]
struct Stored {
    state: State,
    /// How many more than one will take it back: operations that save the same tensor share it.
    more: usize,
}

#[derive(Default)]
enum State {
    /// Has been taken back.
    #[default]
    Taken,
    /// Where it was.
    There(DispatchTensor),
    /// Where it was, until it is settled.
    Begun(Begun, Shape),
    Narrow(Tensor<1>, Shape),
    Codes(Codes, Shape),
    Offloaded(Offloaded, Shape),
}

/// What will be done with a tensor, which is still there.
enum Begun {
    Narrow(Tensor<1>),
    Quantize(Tensor<1>),
    Write(Writing),
}

thread_local! {
    /// The tensor of a kept segment that is being put away, and what it is known by.
    static LAST: RefCell<Option<(StoredTensor, Option<Identity>)>> = const { RefCell::new(None) };
    /// How many runs are inside of each other whose tensors are put away.
    static RUNS: Cell<usize> = const { Cell::new(0) };
    /// What is elsewhere, in the order in which it was put there: backward goes the other way.
    static OFFLOADED: RefCell<Vec<Weak<Mutex<Stored>>>> = const { RefCell::new(Vec::new()) };
}

impl StoredTensor {
    /// Begins to put a float tensor away as a scope says. It is still held, until it is [settled](Self::settle).
    pub(crate) fn begin(tensor: DispatchTensor, scope: &Scope) -> Self {
        let (shape, dtype) = (tensor.shape(), tensor.dtype());
        let is_small = shape.num_elements() * dtype.size() < SMALL;
        let flat = |tensor| {
            let count = shape.num_elements();
            Tensor::<1>::from_dispatch(Dispatch::float_reshape(tensor, Shape::from([count])))
        };
        let state = match (scope.storage, dtype) {
            _ if is_small => State::There(tensor),
            (Storage::Bf16, DType::F32) => State::Begun(Begun::Narrow(flat(tensor)), shape.clone()),
            (Storage::Int8, DType::F32 | DType::F16 | DType::BF16) => {
                State::Begun(Begun::Quantize(flat(tensor)), shape.clone())
            }
            (Storage::Offload, DType::F32 | DType::F16 | DType::BF16) => {
                State::Begun(Begun::Write(Writing::begin(flat(tensor), scope.folder.as_ref())), shape.clone())
            }
            _ => State::There(tensor),
        };
        Self(Arc::new(Mutex::new(Stored { state, more: 0 })))
    }

    /// Puts the tensor of an operation away, in the current scope; one that is written is settled with the next, or with the scope. The
    /// tensor that was put away last is not written a second time.
    pub(crate) fn put(tensor: DispatchTensor) -> Self {
        let scope = current();
        let identity = Identity::of(&tensor).filter(|_| scope.storage == Storage::Offload);
        let last =
            LAST.with_borrow(|last| last.as_ref().filter(|(_, last)| identity.is_some() && *last == identity).cloned());
        if let Some((stored, _)) = last {
            stored.lock().more += 1;
            return stored;
        }
        Self::settle_last();
        let stored = Self::begin(tensor, &scope);
        match scope.storage {
            Storage::Offload => LAST.set(Some((stored.clone(), identity))),
            _ => stored.settle(),
        }
        stored
    }

    /// Settles the tensor that was [put](Self::put) away last.
    fn settle_last() {
        if let Some((stored, _)) = LAST.take() {
            stored.settle();
        }
    }

    /// Lets go of it: what has put it away is not going on.
    fn forget_last() {
        LAST.take();
    }

    /// The tensor, before it is settled.
    pub(crate) fn tensor(&self) -> DispatchTensor {
        let (flat, shape) = match &self.lock().state {
            State::There(tensor) => return tensor.clone(),
            State::Begun(Begun::Narrow(flat) | Begun::Quantize(flat), shape) => (flat.clone(), shape.clone()),
            State::Begun(Begun::Write(writing), shape) => (writing.tensor().clone(), shape.clone()),
            _ => unreachable!("asked for before it is settled"),
        };
        shaped(flat, shape)
    }

    /// Puts it away for good: from here on the tensor is not held.
    pub(crate) fn settle(&self) {
        let state = take(&mut self.lock().state);
        let state = match state {
            State::Begun(Begun::Narrow(flat), shape) => State::Narrow(narrow(flat), shape),
            State::Begun(Begun::Quantize(flat), shape) => {
                let channel = if shape.num_dims() > 2 { shape[2..].iter().product() } else { shape.num_elements() };
                State::Codes(Codes::of(flat, channel), shape)
            }
            State::Begun(Begun::Write(writing), shape) => {
                let written = writing.finish();
                OFFLOADED.with_borrow_mut(|offloaded| {
                    offloaded.retain(|stored| stored.strong_count() > 0); // those of a graph that was dropped
                    offloaded.push(Arc::downgrade(&self.0));
                });
                State::Offloaded(written, shape)
            }
            state => state,
        };
        self.lock().state = state;
    }

    /// Takes it back; what was put elsewhere before it is on its way from now on.
    pub(crate) fn take(self) -> DispatchTensor {
        let tensor = self.fetch();
        let mut stored = self.lock();
        if stored.more > 0 {
            stored.more -= 1;
            stored.state = State::There(tensor.clone());
        }
        tensor
    }

    fn fetch(&self) -> DispatchTensor {
        let state = take(&mut self.lock().state);
        let (flat, shape) = match state {
            State::There(tensor) => return tensor,
            State::Narrow(flat, shape) => (widen(flat), shape),
            State::Codes(codes, shape) => (codes.values(), shape),
            State::Offloaded(offloaded, shape) => {
                let offloaded = offloaded.read_ahead();
                read_next_ahead();
                (offloaded.fetch(), shape)
            }
            State::Begun(..) | State::Taken => {
                unreachable!("taken back as often as it was put away, after it is settled")
            }
        };
        shaped(flat, shape)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Stored> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

/// Begins to read what was put elsewhere last and is still there.
fn read_next_ahead() {
    let next = OFFLOADED.with_borrow_mut(|offloaded| {
        let is_there = |stored: &Weak<Mutex<Stored>>| {
            stored.upgrade().is_some_and(|stored| matches!(StoredTensor(stored).lock().state, State::Offloaded(..)))
        };
        while offloaded.last().is_some_and(|stored| !is_there(stored)) {
            offloaded.pop();
        }
        offloaded.last().and_then(Weak::upgrade)
    });
    if let Some(stored) = next.map(StoredTensor) {
        let state = take(&mut stored.lock().state);
        let State::Offloaded(offloaded, shape) = state else { unreachable!("it is elsewhere") };
        let ahead = State::Offloaded(offloaded.read_ahead(), shape);
        stored.lock().state = ahead;
    }
}

/// What a tensor is known by as long as it is held: where its values are, or its number in a recording that stands for the CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    Values { address: usize, shape: Shape },
    Recorded(TensorId),
}

impl Identity {
    fn of(tensor: &DispatchTensor) -> Option<Self> {
        if is_recording(&Device::new(tensor.device())) {
            return stands_for_cpu().then(|| Self::Recorded(number(tensor)));
        }
        address(tensor).map(|address| Self::Values { address, shape: tensor.shape() })
    }
}

fn shaped(flat: Tensor<1>, shape: Shape) -> DispatchTensor {
    Dispatch::float_reshape(flat.into_dispatch(), shape)
}

impl fmt::Debug for StoredTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StoredTensor")
    }
}

/// Runs something whose saved tensors have this storage; all of them are where they belong when the outermost of such runs is over.
pub(crate) fn within<T>(scope: Scope, run: impl FnOnce() -> T) -> T {
    meanwhile(replace, scope, || with_overlapped_writes(run))
}

/// Runs segments one after the other, such as those of a model: what the last operation of one has put [elsewhere](Storage) is being written
/// while the next one runs. By itself each segment waits for it at its end. Results and gradients are the same.
///
/// # Memory
///
/// From one segment to the next, the volume that is being written.
pub fn with_overlapped_writes<T>(segments: impl FnOnce() -> T) -> T {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            RUNS.set(RUNS.get() - 1);
            if RUNS.get() == 0 {
                StoredTensor::forget_last(); // none but after a panic
            }
        }
    }
    RUNS.set(RUNS.get() + 1);
    let _leave = Leave;
    let result = segments();
    if RUNS.get() == 1 {
        StoredTensor::settle_last();
    }
    result
}
