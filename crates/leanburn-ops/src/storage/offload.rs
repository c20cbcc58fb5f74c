//! Saved tensors in another place: on the CPU in an unlinked file, on a GPU in the memory of the host. Tensors are flat.

use std::io;
use std::path::Path;
use std::sync::Arc;

use burn::tensor::{DType, Device, Tensor, TensorData};
use bytemuck::Pod;
use leanburn_common::Bytes;
use leanburn_kernels::room_for;

use super::background::Pending;
use super::error::StorageError;
use super::spill::Spill;
use crate::engine::{CpuTensor, Engine, Stored, with_element};
use crate::recording::{Call, Recorder, stands_for_cpu};

/// A tensor that is being written.
pub(super) enum Writing {
    /// It is held until it is in the file.
    File { tensor: Tensor<1>, written: Pending<io::Result<Spill>>, what: Described },
    /// Nothing is done before the end.
    Later { tensor: Tensor<1> },
}

/// Size, dtype and folder of what is in a file.
#[derive(Clone, Debug)]
pub(super) struct Described {
    count: usize,
    dtype: DType,
    folder: Arc<Path>,
}

impl Described {
    fn error(&self, action: &'static str, error: &io::Error) -> StorageError {
        let bytes = Bytes((self.count * self.dtype.size()) as u64);
        StorageError { action, folder: self.folder.to_path_buf(), bytes, reason: error.to_string() }
    }

    fn succeeded<T>(&self, action: &'static str, result: io::Result<T>) -> T {
        result.unwrap_or_else(|error| self.error(action, &error).unwind())
    }
}

impl Writing {
    /// Begins to write; the file is in `folder`, or where the system has temporary files.
    pub(super) fn begin(tensor: Tensor<1>, folder: Option<&Arc<Path>>) -> Self {
        let ([count], dtype) = (tensor.dims(), tensor.dtype());
        if !matches!(Engine::of(&tensor), Engine::Cpu(_)) {
            return Self::Later { tensor };
        }
        let folder = folder.cloned().unwrap_or_else(|| std::env::temp_dir().into());
        let what = Described { count, dtype, folder: folder.clone() };
        let values = CpuTensor::of(tensor);
        let tensor = values.clone().into_tensor();
        let job = move || {
            let file = write(&folder, &values);
            drop(values); // before anybody hears of it
            file
        };
        let written = Pending::run(job);
        Self::File { tensor, written, what }
    }

    /// The tensor, which is still there.
    pub(super) fn tensor(&self) -> &Tensor<1> {
        match self {
            Self::File { tensor, .. } | Self::Later { tensor } => tensor,
        }
    }

    /// Waits until it is written; the tensor is freed.
    pub(super) fn finish(self) -> Offloaded {
        match self {
            Self::File { tensor, written, what } => {
                let file = what.succeeded("write", written.wait());
                drop(tensor);
                Offloaded::File(file, what)
            }
            Self::Later { tensor } => match Recorder::of(&tensor.device()) {
                None => Offloaded::Host(tensor.device(), tensor.into_data()),
                Some(recorder) => {
                    let (device, [count], dtype) = (tensor.device(), tensor.dims(), tensor.dtype());
                    drop(Call::new(recorder, "offload").takes(tensor).record());
                    Offloaded::Recorded { device, count, dtype }
                }
            },
        }
    }
}

/// A tensor that is elsewhere.
pub(super) enum Offloaded {
    /// In a file.
    File(Spill, Described),
    /// On its way back.
    Reading(Pending<io::Result<CpuTensor>>, Described),
    /// In the memory of the host.
    Host(Device, TensorData),
    /// On a recording device.
    Recorded { device: Device, count: usize, dtype: DType },
    /// On a recording device that stands for the CPU, on its way back.
    Ahead(Tensor<1>),
}

impl Offloaded {
    /// Begins to read on the CPU: the memory is there from now on.
    pub(super) fn read_ahead(self) -> Self {
        match self {
            Self::File(file, what) => {
                let count = what.count;
                let read = with_element!(what.dtype, E => {
                    let room = room_for::<E>(count);
                    Pending::run(move || read(file, room, count))
                });
                Self::Reading(read, what)
            }
            Self::Recorded { device, count, dtype } if stands_for_cpu() => Self::Ahead(fetched(&device, count, dtype)),
            other => other,
        }
    }

    /// The tensor.
    pub(super) fn fetch(self) -> Tensor<1> {
        match self.read_ahead() {
            Self::Reading(tensor, what) => what.succeeded("read", tensor.wait()).into_tensor(),
            Self::Ahead(tensor) => tensor,
            Self::Host(device, data) => {
                let dtype = data.dtype();
                Tensor::from_data(data, (&device, dtype))
            }
            Self::Recorded { device, count, dtype } => fetched(&device, count, dtype),
            Self::File(..) => unreachable!("it is being read"),
        }
    }
}

/// Whether files of saved tensors can be made in a folder.
///
/// # Errors
///
/// What the system says about it.
pub fn check_offload_folder(folder: &Path) -> io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

fn write(folder: &Path, values: &CpuTensor) -> io::Result<Spill> {
    with_element!(values.dtype(), E => Spill::write(folder, values.values::<E>()))
}

fn read<E: Stored + Pod>(file: Spill, room: Vec<E>, count: usize) -> io::Result<CpuTensor> {
    Ok(CpuTensor::from_vec(file.read(room, count)?, [count]))
}

fn fetched(device: &Device, count: usize, dtype: DType) -> Tensor<1> {
    let recorder = Recorder::of(device).expect("recorded before");
    Call::new(recorder, "fetch").record_one([count], dtype)
}
