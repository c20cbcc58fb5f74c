//! What goes into a segment and comes out of it: one tensor or several, of any rank.

use burn::backend::DispatchTensor;
use burn::tensor::{Bool, Device, Float, Int, Tensor};

/// One or several tensors: `Tensor<D>`, `Tensor<D, Int>` (such as labels), `Tensor<D, Bool>` (such as masks), `Option`, `Vec`, tuples
/// of those, and structs that [`struct_of_tensors!`](crate::struct_of_tensors) defines.
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

macro_rules! one_tensor {
    ($(#[$attribute:meta] $kind:ty),+) => {
        $(#[$attribute]
        impl<const D: usize> Tensors for Tensor<D, $kind> {
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
        })+
    };
}

one_tensor!(
    /// A tensor that may have a gradient.
    Float,
    /// A tensor without a gradient.
    Int,
    /// A tensor without a gradient.
    Bool
);

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

/// Defines a struct of tensors that is [`Tensors`](crate::Tensors), as tuples are: a batch whose parts have names, or what goes into a
/// segment. Its fields are whatever is `Tensors`, structs of tensors included; it has no other fields and no generics.
///
/// # Example
///
/// ```
/// use burn::prelude::*;
/// use leanburn_ops::{Tensors, struct_of_tensors};
///
/// struct_of_tensors! {
///     /// Scans with the class of each voxel, and which voxels count.
///     #[derive(Clone, Debug)]
///     pub struct Batch {
///         /// `[batch_size, 1, depth, height, width]`
///         pub scans: Tensor<5>,
///         pub labels: Tensor<4, Int>,
///         pub mask: Option<Tensor<4, Bool>>,
///     }
/// }
///
/// let device = Device::flex();
/// let scans = Tensor::zeros([1, 1, 2, 2, 2], &device);
/// let batch = Batch { scans, labels: Tensor::zeros([1, 2, 2, 2], &device), mask: None };
/// assert_eq!(batch.device(), Some(device));
/// ```
#[macro_export]
macro_rules! struct_of_tensors {
    ($(#[$attribute:meta])* $visibility:vis struct $name:ident {
        $($(#[$field_attribute:meta])* $field_visibility:vis $field:ident: $kind:ty),+ $(,)?
    }) => {
        $(#[$attribute])*
        $visibility struct $name {
            $($(#[$field_attribute])* $field_visibility $field: $kind,)+
        }

        impl $crate::Tensors for $name {
            type Layout = ($(<$kind as $crate::Tensors>::Layout,)+);

            fn device(&self) -> Option<$crate::of_macros::Device> {
                None$(.or_else(|| $crate::Tensors::device(&self.$field)))+
            }

            fn flatten(self, tensors: &mut Vec<$crate::of_macros::DispatchTensor>) -> Self::Layout {
                ($($crate::Tensors::flatten(self.$field, tensors),)+)
            }

            fn assemble(
                ($($field,)+): &Self::Layout,
                tensors: &mut ::std::vec::IntoIter<$crate::of_macros::DispatchTensor>,
            ) -> Self {
                Self { $($field: <$kind as $crate::Tensors>::assemble($field, tensors),)+ }
            }
        }
    };
}
