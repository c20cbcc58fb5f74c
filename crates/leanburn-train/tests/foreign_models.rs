//! Models of Burn's layers that know nothing of this library: their planned peaks are the measured ones.

mod foreign;
#[path = "common/peak.rs"]
mod peak;

use std::sync::{Mutex, PoisonError};

use burn::tensor::Device;
use foreign::{
    Autoencoder, Classifier, DeepEnsemble, Dilated, Half, Language, Perceptron, Recurrent, Refiner, Sequence, Training,
    Transformer, UNet, VisionTransformer, WholeNumbers,
};
use leanburn_common::Bytes;
use peak::planned_and_measured;

/// Planned and measured peak of a model, by name.
type Compared = (&'static str, Bytes, Bytes);

macro_rules! compare {
    ($($model:ty),+ $(,)?) => {{
        vec![$({
            let build = |device: &Device| Training::<$model>::trainer(device);
            let batch = |size| move |device: &Device| <$model as foreign::Foreign>::batch(size, device);
            let [small, large] = <$model as foreign::Foreign>::SIZES;
            let (planned, measured) = planned_and_measured(build, batch(large), batch(small));
            (stringify!($model), planned, measured)
        }),+]
    }};
}

fn peaks(threads: usize) -> Vec<Compared> {
    /// The heap is counted for the whole process: tests take turns.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let run = || {
        compare!(Perceptron); // what is allocated once for all: threads, and the scratch that matrix products keep
        compare!(
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
    };
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(run)
}

fn check(threads: usize) {
    let error = |(_, planned, measured): &Compared| planned.as_mib() / measured.as_mib() - 1.0;
    let compared = peaks(threads);
    for case @ (name, planned, measured) in &compared {
        println!("{threads} threads, {name}: planned {planned}, measured {measured}, {:+.2} %", 100.0 * error(case));
    }
    assert!(compared.iter().all(|(_, _, measured)| *measured > Bytes::mib(10)), "too small to tell anything");
    let far: Vec<_> = compared.iter().filter(|case| error(case).abs() > 0.03).map(|(name, ..)| name).collect();
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
