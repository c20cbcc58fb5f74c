//! A look at the device between operations: what is held in the middle of a step.
//!
//! An allocator on a GPU says what is held now and keeps no peak. Looked at after every operation of this crate, forward
//! and backward, it shows the peak but for what single kernels take while they run.

use std::cell::RefCell;
use std::rc::Rc;

thread_local! {
    static LOOK: RefCell<Option<Rc<dyn Fn()>>> = const { RefCell::new(None) };
}

/// Runs `step`; calls `look` after each operation of this crate that it makes on this thread, and on GPUs after each of the
/// kernels and convolutions that an operation is made of.
pub fn watched<T>(look: Rc<dyn Fn()>, step: impl FnOnce() -> T) -> T {
    struct Restore(Option<Rc<dyn Fn()>>);
    impl Drop for Restore {
        fn drop(&mut self) {
            LOOK.set(self.0.take());
        }
    }
    let _restore = Restore(LOOK.replace(Some(look)));
    step()
}

/// Called after each operation.
pub(crate) fn look() {
    // An operation inside a look is not looked at.
    if let Some(look) = LOOK.take() {
        look();
        LOOK.set(Some(look));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use burn::tensor::{Device, Tensor};

    use super::*;
    use crate::{Activation, activate, backward};

    #[test]
    fn every_operation_is_looked_at_forward_and_backward() {
        let looks = Rc::new(Cell::new(0));
        let count = looks.clone();
        let x = Tensor::<5>::ones([1, 2, 3, 3, 3], &Device::flex().autodiff()).require_grad();
        let step = || backward(activate(activate(x.clone(), Activation::Silu), Activation::Relu).sum());
        watched(Rc::new(move || count.set(count.get() + 1)), step);
        assert_eq!(looks.get(), 4);
        step();
        assert_eq!(looks.get(), 4);
    }
}
