//! What goes into a segment and comes out of it: one tensor or several, of any rank.

use burn::backend::DispatchTensor;
use burn::tensor::{Device, Int, Tensor};

/// One or several tensors: `Tensor<D>`, `Tensor<D, Int>` (such as labels), `Option`, `Vec`, and tuples of those.
pub trait Tensors: Sized + 'static {
    /// What is needed besides the tensors to put the value together again.
    type Layout: Send + Sync + 'static;

    /// Device of the first tensor, if there is one.
    fn device(&self) -> Option<Device>;

    /// Takes the value apart: appends its tensors to `tensors`.
    #[doc(hidden)]
    fn flatten(self, tensors: &mut Vec<DispatchTensor>) -> Self::Layout;

    /// Puts the value together again from the tensors that [`flatten`](Self::flatten) gave.
    #[doc(hidden)]
    fn assemble(layout: &Self::Layout, tensors: &mut std::vec::IntoIter<DispatchTensor>) -> Self;
}

impl<const D: usize> Tensors for Tensor<D> {
    type Layout = ();

    fn device(&self) -> Option<Device> {
        Some(Tensor::device(self))
    }

    fn flatten(self, tensors: &mut Vec<DispatchTensor>) {
        tensors.push(self.into_dispatch());
    }

    fn assemble(_layout: &(), tensors: &mut std::vec::IntoIter<DispatchTensor>) -> Self {
        Tensor::from_dispatch(tensors.next().expect("as many tensors as were taken apart"))
    }
}

/// A tensor without a gradient.
impl<const D: usize> Tensors for Tensor<D, Int> {
    type Layout = ();

    fn device(&self) -> Option<Device> {
        Some(Tensor::device(self))
    }

    fn flatten(self, tensors: &mut Vec<DispatchTensor>) {
        tensors.push(self.into_dispatch());
    }

    fn assemble(_layout: &(), tensors: &mut std::vec::IntoIter<DispatchTensor>) -> Self {
        Tensor::from_dispatch(tensors.next().expect("as many tensors as were taken apart"))
    }
}

impl<T: Tensors> Tensors for Vec<T> {
    type Layout = Vec<T::Layout>;

    fn device(&self) -> Option<Device> {
        self.iter().find_map(T::device)
    }

    fn flatten(self, tensors: &mut Vec<DispatchTensor>) -> Self::Layout {
        self.into_iter().map(|value| value.flatten(tensors)).collect()
    }

    fn assemble(layout: &Self::Layout, tensors: &mut std::vec::IntoIter<DispatchTensor>) -> Self {
        layout.iter().map(|layout| T::assemble(layout, tensors)).collect()
    }
}

impl<T: Tensors> Tensors for Option<T> {
    type Layout = Option<T::Layout>;

    fn device(&self) -> Option<Device> {
        self.as_ref().and_then(T::device)
    }

    fn flatten(self, tensors: &mut Vec<DispatchTensor>) -> Self::Layout {
        self.map(|value| value.flatten(tensors))
    }

    fn assemble(layout: &Self::Layout, tensors: &mut std::vec::IntoIter<DispatchTensor>) -> Self {
        layout.as_ref().map(|layout| T::assemble(layout, tensors))
    }
}

macro_rules! tuple_of_tensors {
    ($($name:ident $index:tt),+) => {
        impl<$($name: Tensors),+> Tensors for ($($name,)+) {
            type Layout = ($($name::Layout,)+);

            fn device(&self) -> Option<Device> {
                None$(.or_else(|| self.$index.device()))+
            }

            fn flatten(self, tensors: &mut Vec<DispatchTensor>) -> Self::Layout {
                ($(self.$index.flatten(tensors),)+)
            }

            fn assemble(layout: &Self::Layout, tensors: &mut std::vec::IntoIter<DispatchTensor>) -> Self {
                ($($name::assemble(&layout.$index, tensors),)+)
            }
        }
    };
}

tuple_of_tensors!(A 0, B 1);
tuple_of_tensors!(A 0, B 1, C 2);
tuple_of_tensors!(A 0, B 1, C 2, D 3);
