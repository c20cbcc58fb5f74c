//! Weights and checkpoints are written and read back: the model alone, in the names of MONAI, and a trainer with its optimizer.

use leanburn::burn::{prelude::*, tensor::TensorData};
use leanburn::nn::weights;
use leanburn::prelude::*;

use super::{Told, alone, config, folder, model};

fn trainer(device: &Device) -> Result<Trainer<AutoencoderWorkload>, TrainError> {
    let learner = Learner::new("autoencoder", model(vec![4, 8]).model().init(device), LearnerConfig::default())?;
    let objective = AutoencoderObjective::default();
    let workload = AutoencoderWorkload::new(learner, None, objective, Precision::F32);
    Ok(Trainer::new(workload, TrainerConfig::default().with_seed(3), device))
}

/// The reconstruction loss of the next steps.
fn steps(trainer: &mut Trainer<AutoencoderWorkload>, count: usize, device: &Device) -> Result<Vec<f64>, TrainError> {
    let volume = Tensor::<1, Int>::arange(0..512, device).float().reshape([1, 1, 8, 8, 8]) / 512.0;
    let mut batches = std::iter::repeat_with(|| Ok::<_, TrainError>(volume.clone()));
    (0..count).map(|_| Ok(trainer.step(&mut batches)?.losses["reconstruction"])).collect()
}

#[test]
fn weights_of_a_session_are_loaded_into_a_model() -> Told {
    let _alone = alone();
    let mut config = config();
    config.training_mut().max_steps = 2;
    config.training_mut().val_interval = 2;
    let outcome = Session::new(config)?.in_folder(folder("save_and_load")).run()?;
    let file = outcome.folder.weights();

    let device = Device::flex();
    let section = model(vec![4, 8]);
    let (mut one, mut other) = (section.model().init(&device), section.model().init(&device));
    let volume = Tensor::<5>::ones([1, 1, 8, 8, 8], &device);
    let made = |model: &AutoencoderKl| -> TensorData { model.reconstruct(volume.clone()).into_data() };
    assert_ne!(made(&one), made(&other), "each is drawn anew");
    weights::load(&mut one, &file)?;
    assert_ne!(made(&one), made(&other));
    weights::load(&mut other, &file)?;
    assert_eq!(made(&one), made(&other));

    let mut wider = model(vec![4, 16]).model().init(&device);
    let before = made(&wider);
    let error = weights::load(&mut wider, &file).unwrap_err();
    assert!(error.is_different(), "{error}");
    assert_eq!(made(&wider), before, "as it was");
    Ok(())
}

#[test]
fn a_trainer_goes_on_from_its_checkpoint() -> Told {
    let _alone = alone();
    let device = Device::flex().autodiff();
    let store = CheckpointStore::new(folder("checkpoints"), 1);
    let mut first = trainer(&device)?;
    steps(&mut first, 2, &device)?;
    first.save(&store)?;
    let expected = steps(&mut first, 2, &device)?;

    let (step, checkpoint) = store.latest().expect("it was just saved");
    let mut second = trainer(&device)?;
    second.resume(&checkpoint)?;
    assert_eq!((step, second.steps()), (2, 2));
    assert_eq!(steps(&mut second, 2, &device)?, expected, "bit for bit");
    let anew = steps(&mut trainer(&device)?, 2, &device)?;
    assert_ne!(anew, expected, "another trainer learns otherwise");

    let files = std::fs::read_dir(&checkpoint)?.flatten().map(|file| file.path());
    let is_weights = |file: &std::path::PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("autoencoder"))
    };
    std::fs::write(files.filter(is_weights).max().expect("the learner's files"), "broken")?;
    assert!(trainer(&device)?.resume(&checkpoint).is_err());
    Ok(())
}
