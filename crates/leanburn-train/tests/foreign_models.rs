//! Models of Burn's layers that know nothing of this library: their planned peaks are the measured ones.

mod common;
mod foreign;
#[path = "common/peak.rs"]
mod peak;

use std::sync::{Mutex, PoisonError};

use burn::tensor::Device;
use common::on_new_threads;
use foreign::{
    Autoencoder, Classifier, DeepEnsemble, Dilated, Half, Language, Perceptron, Recurrent, Refiner, Sequence, Training,
    Transformer, UNet, VisionTransformer, WholeNumbers,
};
use leanburn_common::Bytes;
use peak::planned_and_measured;

/// Planned peaks of a model, on one thread and on all, and the measured one, by name.
type Compared = (&'static str, [Bytes; 2], Bytes);

macro_rules! compare {
    ($threads:expr, $($model:ty),+ $(,)?) => {{
        vec![$({
            let build = |device: &Device| Training::<$model>::trainer(device);
            let batch = |size| move |device: &Device| <$model as foreign::Foreign>::batch(size, device);
            let [small, large] = <$model as foreign::Foreign>::SIZES;
            let compare = || planned_and_measured(build, batch(large), batch(small));
            let (planned, measured) = on_new_threads($threads, compare);
            // A thread that gets no part of a product keeps nothing for it: at least what a plan for one thread has.
            let (least, _) = if $threads == 1 { (planned, measured) } else { on_new_threads(1, compare) };
            (stringify!($model), [least, planned], measured)
        }),+]
    }};
}

fn peaks(threads: usize) -> Vec<Compared> {
    /// The heap is counted for the whole process: tests take turns.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    compare!(threads, Perceptron); // what is allocated once for all
    compare!(
        threads,
        Perceptron,
        Classifier,
        Language,
        Transformer,
        Sequence,
        Recurrent,
        UNet,
        Refiner,
        Half,
        WholeNumbers,
        Dilated,
        Autoencoder,
        VisionTransformer,
        DeepEnsemble,
    )
}

/// Never 3 % short; and at most 3 % over, but for what threads keep that may get no part of a product.
fn check(threads: usize) {
    let error = |planned: &Bytes, measured: &Bytes| planned.as_mib() / measured.as_mib() - 1.0;
    let compared = peaks(threads);
    for (name, [_, planned], measured) in &compared {
        let percent = 100.0 * error(planned, measured);
        println!("{threads} threads, {name}: planned {planned}, measured {measured}, {percent:+.2} %");
    }
    assert!(compared.iter().all(|(_, _, measured)| *measured > Bytes::mib(10)), "too small to tell anything");
    let is_far = |(_, [least, planned], measured): &&Compared| {
        error(planned, measured) < -0.03 || error(least.min(planned), measured) > 0.03
    };
    let far: Vec<_> = compared.iter().filter(is_far).map(|(name, ..)| name).collect();
    assert!(far.is_empty(), "planned more than 3 % off: {far:?}");
}

#[test]
fn models_that_are_not_ours_are_planned_on_one_thread() {
    check(1);
}

#[test]
fn models_that_are_not_ours_are_planned_on_two_threads() {
    check(2);
}
