//! Values of a thread that hold while something runs.

/// Runs something after a value has been `replace`d, and puts the one of before back, also where it panics.
pub(crate) fn meanwhile<V, T>(replace: impl Fn(V) -> V, value: V, run: impl FnOnce() -> T) -> T {
    struct Before<V, R: Fn(V) -> V>(Option<V>, R);
    impl<V, R: Fn(V) -> V> Drop for Before<V, R> {
        fn drop(&mut self) {
            if let Some(value) = self.0.take() {
                (self.1)(value);
            }
        }
    }
    let _before = Before(Some(replace(value)), replace);
    run()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn the_value_of_before_is_back_behind_a_panic() {
        let value = Cell::new(1);
        let set = |new| value.replace(new);
        assert_eq!(meanwhile(set, 2, || meanwhile(set, 3, || value.get()) + value.get()), 5);
        let panicked = catch_unwind(AssertUnwindSafe(|| meanwhile(set, 4, || panic!("at {}", value.get()))));
        assert_eq!(panicked.unwrap_err().downcast_ref::<String>().unwrap(), "at 4");
        assert_eq!(value.get(), 1);
    }
}
