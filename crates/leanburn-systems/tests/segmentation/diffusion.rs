//! Latent diffusion: that a model learns, goes on where it stopped, and is planned; that samples are the same for the same seed; and
//! what is said of a first stage that does not fit.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use leanburn_data::{DataConfig, Normalize, PhantomConfig, Volume};
use leanburn_nn::weights::save_safetensors;
use leanburn_ops::random::Distribution;
use leanburn_plan::{FlexMemory, Space};
use leanburn_systems::diffusion::{
    DdpmSection, EdmSection, LatentSampler, RealLatents, RflowSection, SamplingMethod, SamplingPlan, SchedulerSection,
};
use leanburn_systems::measure::measure;
use leanburn_systems::metrics::Phase;
use leanburn_systems::planning::ConfigSpace;
use leanburn_systems::session::Beginning;
use leanburn_systems::{
    AutoencoderObjectiveSection, AutoencoderSection, Config, DataSize, DeviceSection, DiffusionObjectiveSection,
    DiffusionSection, LatentsSection, Observed, Observer, Recompute, Session, SystemError, SystemSection,
    TrainingSection,
};
use leanburn_train::Precision;
use leanburn_train::planning::Planner;

use super::{alone, values};

pub(super) fn data() -> DataConfig {
    DataConfig {
        phantom: Some(PhantomConfig { count: 4, shape: [16, 16, 16], noise: 0.02 }),
        patch_size: Some([8, 8, 16]),
        num_workers: 1,
        ..DataConfig::default()
    }
}

/// A first stage of two levels, trained for a step.
pub(super) fn first_stage(folder: &Path) {
    first_stage_of(folder, AutoencoderObjectiveSection::default());
}

fn first_stage_of(folder: &Path, objective: AutoencoderObjectiveSection) {
    let training = TrainingSection::default().with_max_steps(1).with_visualize_interval(0);
    let model = AutoencoderSection::new(vec![4, 8]).with_norm_num_groups(2).with_num_res_blocks(vec![1; 2]);
    let model = model.with_training(training).with_objective(objective);
    let config = Config::new(model).with_data(data()).with_device(DeviceSection::new("flex"));
    Session::new(config).unwrap().in_folder(folder).run().unwrap();
}

/// A second stage of latents of 4 x 4 x 8.
pub(super) fn second_stage(first: &Path) -> Config {
    let training = TrainingSection::default()
        .with_batch_size(2)
        .with_max_steps(16)
        .with_learning_rate(1e-2)
        .with_ema_decay(Some(0.5))
        .with_val_interval(8)
        .with_visualize_interval(16)
        .with_checkpoint_interval(8);
    let model = DiffusionSection::new(3, vec![8, 16])
        .with_num_res_blocks(vec![1; 2])
        .with_training(training)
        .with_objective(DiffusionObjectiveSection::default().with_num_inference_steps(2));
    let latents = LatentsSection::new(first).with_downsampling([2; 3]).with_samples_per_volume(3);
    Config::new(model).with_data(data()).with_latents(latents).with_device(DeviceSection::new("flex"))
}

#[test]
fn a_model_of_latents_learns_and_goes_on_where_it_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    first_stage(&first);
    let mut config = second_stage(&first);
    let SystemSection::Diffusion(mut section) = config.system else { panic!() };
    section.training.objective.evaluation_samples = 2;
    section.training.objective.linear_baseline = 5;
    config.system = section.into();
    let session = |name: &str| Session::new(config.clone()).unwrap().in_folder(folder.path().join(name));
    let straight = session("straight").run().unwrap();
    let last = |name: &str| *values(&straight.records, Phase::Validation, name).last().unwrap();
    let distances = ["", "_floor", "_noise"].map(|of| last(&format!("sliced_wasserstein{of}")));
    // two steps of a network that has hardly learned lead far away
    assert!(0.01 < distances[1] && distances[1] < distances[2].min(distances[0]), "{distances:?}");
    assert!([last("ms_ssim"), last("ms_ssim_real")].iter().all(|value| (0.0..1.0).contains(value)));
    let losses = values(&straight.records, Phase::Train, "denoising");
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    let validation = values(&straight.records, Phase::Validation, "loss");
    assert!(validation.len() == 3 && validation[2] < 0.9 * validation[0], "{validation:?}");
    let levels =
        [1, 2, 3, 4].map(|level| values(&straight.records, Phase::Validation, &format!("loss_noise_{level}"))[2]);
    assert!((mean(&levels) - validation[2]).abs() < 1e-9 && levels[0] != levels[3], "{levels:?}");
    // the latents of an autoencoder of one step are nearly noise: a line through five of nine says little, and says it each time
    let linear = values(&straight.records, Phase::Validation, "loss_linear");
    assert!(linear.len() == 3 && linear[0] == linear[2] && (0.1..1.0).contains(&linear[0]), "{linear:?}");
    let levels = [1, 2, 3, 4].map(|level| last(&format!("loss_linear_{level}")));
    assert!((mean(&levels) - linear[2]).abs() < 1e-9 && levels[0] != levels[3], "{levels:?}");
    assert!(straight.folder.picture(16).is_file());
    // latents of three volumes, three each, and of the one that is held out, mean and deviation: as planned without reading them
    let held = |config: &Config| config.data_size("test").unwrap().held;
    assert_eq!(straight.memory.data, held(&config));
    assert_eq!(held(&config).get(), 2 * 4 * (3 * 3 + config.data.val_patches as u64) * 3 * 4 * 4 * 8);

    session("stopped").stop_after(8).run().unwrap();
    let resumed = session("stopped").resume(true).run().unwrap();
    for file in ["weights.safetensors", "normalization.json", "pictures/step-00000016.png"] {
        let [one, other] = [&resumed, &straight].map(|run| fs::read(run.folder.path().join(file)).unwrap());
        assert!(one == other, "{file} differs");
    }
    assert_eq!(values(&resumed.records, Phase::Train, "denoising"), losses);

    samples_depend_on_their_seed_alone(&config, &straight.folder.weights());
    real_latents_are_their_own_floor(&config);

    // another first stage is noticed
    session("other").stop_after(8).run().unwrap();
    let model = leanburn_nn::models::AutoencoderKlConfig::new(vec![4, 8], vec![1; 2], vec![false; 2]);
    let model = model.with_norm_num_groups(2).with_encoder_nonlocal_attn(false).with_decoder_nonlocal_attn(false);
    save_safetensors(&model.init(&Device::flex()), &first.join("weights.safetensors")).unwrap();
    let error = session("other").resume(true).run().unwrap_err().to_string();
    assert!(error.contains("other files") && error.contains("crc32c"), "{error}");
}

/// Latents of the training volumes are nearer to each other than noise is, and no more alike than themselves.
fn real_latents_are_their_own_floor(config: &Config) {
    let (context, device) = (config.context("test"), Device::flex());
    let real = RealLatents::open(&context, &mut |_| {}).unwrap();
    let noise = |seed: u64| {
        let values = leanburn_ops::random::drawn(seed, Distribution::STANDARD, [3, 4, 4, 8], &device);
        let affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
        Volume::new(values.into_data().try_to_vec().unwrap(), [3, 4, 4, 8], affine).unwrap()
    };
    let quality = real.compare(&[noise(1), noise(2)], &device).unwrap();
    // of no size of the data's latents: their scale is of the data, that of this noise is 1
    assert!(quality.floor < quality.distance && quality.scales == 1, "{quality:?}");
    assert_eq!(real.compare(&[noise(1), noise(2)], &device).unwrap(), quality);
    let small = Volume::new(vec![0.0; 3 * 64], [3, 4, 4, 4], *noise(1).affine()).unwrap();
    let error = real.compare(&[small], &device).unwrap_err().to_string();
    assert!(error.contains("3 channels and [4, 4, 8]") && error.contains("[4, 4, 4]"), "{error}");
}

fn samples_depend_on_their_seed_alone(config: &Config, weights: &Path) {
    let SystemSection::Diffusion(section) = &config.system else { panic!("{config:?}") };
    let load = || LatentSampler::load(section, &config.context("test"), weights, &Device::flex()).unwrap();
    let (sampler, plan) = (load(), SamplingPlan::new(3, 7));
    let latent = |sampler: &LatentSampler, plan| sampler.latent([4, 8, 6], &plan, || {}).unwrap();
    let one = latent(&sampler, plan);
    assert_eq!((one.shape(), one.spacing()), ([3, 4, 8, 6], [2.0; 3]));
    let volume = sampler.codec().decode(&one, None, |_| {}).unwrap();
    assert_eq!((volume.shape(), volume.spacing()), ([1, 8, 16, 12], [1.0; 3]));
    let _ = leanburn_ops::random::next_key(&Device::flex()); // what else is drawn changes nothing
    for method in [None, Some(SamplingMethod::Ddim)] {
        assert_eq!(latent(&load(), SamplingPlan { method, ..plan }).data(), one.data());
    }
    for plan in [
        SamplingPlan { seed: 8, ..plan },
        SamplingPlan { steps: 4, ..plan },
        SamplingPlan { method: Some(SamplingMethod::Ddpm), ..plan },
    ] {
        assert_ne!(latent(&sampler, plan).data(), one.data(), "{plan:?}");
    }
    let errors = [
        (SamplingPlan { method: Some(SamplingMethod::Heun), ..plan }, [4; 3], "ddim, pndm, ddpm"),
        (SamplingPlan { steps: 1001, ..plan }, [4; 3], "1 to 1000"),
        (SamplingPlan { steps: 0, ..plan }, [4; 3], "1 to 1000"),
        (plan, [4, 5, 4], "[4, 6, 4]"),
    ];
    for (plan, extent, expected) in errors {
        let error = sampler.latent(extent, &plan, || {}).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Of two kinds of phantoms, with the class left out for half of what is trained on.
fn of_classes(first: &Path) -> Config {
    let mut config = second_stage(first);
    let SystemSection::Diffusion(section) = config.system else { panic!() };
    let objective = DiffusionObjectiveSection::default().with_num_inference_steps(2).with_condition_dropout(0.5);
    config.system = section.with_num_class_embeds(Some(3)).with_objective(objective).into();
    config.data.classes = vec!["t1".into(), "t2".into()];
    config.training_mut().max_steps = 4;
    config
}

#[test]
fn a_model_of_classes_learns_all_of_them_and_none() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    first_stage(&first);
    let run =
        |name: &str, config: Config| Session::new(config).unwrap().in_folder(folder.path().join(name)).run().unwrap();
    let config = of_classes(&first);
    let SystemSection::Diffusion(section) = config.system.clone() else { panic!() };
    let outcome = run("classes", config.clone());
    // what is left out of half of the batches is seen in the losses, once the network says something
    let mut always = config.clone();
    always.system =
        section.clone().with_objective(DiffusionObjectiveSection::default().with_condition_dropout(0.0)).into();
    always.training_mut().visualize_interval = 0;
    let always = run("always", always);
    let losses = [&outcome, &always].map(|run| values(&run.records, Phase::Train, "denoising"));
    assert_eq!(losses[0][0], losses[1][0]);
    assert_ne!(losses[0][3], losses[1][3]);
    let weights = outcome.folder.weights();
    let sampler = LatentSampler::load(&section, &config.context("test"), &weights, &Device::flex()).unwrap();
    let latent = |class, guidance| {
        let plan = SamplingPlan::new(1, 7).with_class(class).with_guidance(guidance);
        sampler.latent([4, 4, 4], &plan, || {}).unwrap().data().to_vec()
    };
    let (none, one, other) = (latent(None, 1.0), latent(Some(0), 1.0), latent(Some(1), 1.0));
    assert!(none != one && one != other);
    assert_eq!(latent(Some(0), 0.0), none);
    // a step of DDIM is a line too
    for ((led, none), one) in latent(Some(0), 3.0).iter().zip(&none).zip(&one) {
        assert!((led - (none + 3.0 * (one - none))).abs() < 1e-3, "{led} {none} {one}");
    }
}

/// Hears the warnings of a run.
#[derive(Default)]
struct Warnings(Vec<String>);

impl Observer for &mut Warnings {
    fn began(&mut self, beginning: &Beginning<'_>) -> Observed {
        self.0.extend_from_slice(beginning.warnings);
        Ok(())
    }
}

#[test]
fn latents_in_files_are_those_in_memory_and_are_encoded_anew_when_they_have_to_be() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (first, files) = (folder.path().join("first"), folder.path().join("latents"));
    first_stage(&first);
    let mut config = second_stage(&first);
    config.training_mut().max_steps = 3;
    config.training_mut().visualize_interval = 0;
    let in_files =
        |config: &Config| config.clone().with_latents(config.latents.clone().unwrap().with_folder(Some(files.clone())));
    let run = |name: &str, config: Config| {
        let mut heard = Warnings::default();
        let session = Session::new(config).unwrap().in_folder(folder.path().join(name)).with_observer(&mut heard);
        let outcome = session.run().unwrap();
        (outcome, heard.0.into_iter().filter(|warning| warning.contains("encoded anew")).collect::<Vec<_>>())
    };
    let weights = |name: &str| fs::read(folder.path().join(name).join("weights.safetensors")).unwrap();
    let (memory, _) = run("memory", config.clone());
    let (disk, warnings) = run("disk", in_files(&config));
    assert!(warnings.is_empty(), "{warnings:?}");
    assert!(weights("disk") == weights("memory"));
    // one latent is read at a time: mean and deviation of 3 x 4 x 4 x 8 numbers
    let planned = in_files(&config).data_size("test").unwrap();
    assert_eq!((planned.held.get(), planned.read.get()), (0, 2 * 4 * 3 * 4 * 4 * 8));
    assert_eq!(
        (disk.memory.data.get(), memory.memory.data),
        (planned.read.get(), config.data_size("test").unwrap().held)
    );
    // read again as they are
    let written = || fs::metadata(files.join("latents.npy")).unwrap().modified().unwrap();
    let time = written();
    let (_, warnings) = run("again", in_files(&config));
    assert!(warnings.is_empty() && written() == time && weights("again") == weights("memory"));
    // of damaged files
    let mut bytes = fs::read(files.join("latents.npy")).unwrap();
    bytes[1000] ^= 64;
    fs::write(files.join("latents.npy"), bytes).unwrap();
    let (_, warnings) = run("damaged", in_files(&config));
    assert!(warnings[0].contains("latents.npy is damaged; the latents were encoded anew"), "{warnings:?}");
    assert!(weights("damaged") == weights("memory"));
    // of other data
    let mut other = in_files(&config);
    other.data.intensity_jitter = 0.1;
    let (_, warnings) = run("other", other);
    assert!(warnings[0].contains("of other data; the latents were encoded anew"), "{warnings:?}");
    assert!(weights("other") != weights("memory"));
}

#[test]
fn latents_that_are_mostly_noise_are_a_warning() {
    let _alone = alone();
    let noise = |initial_deviation: Option<f64>| {
        let folder = tempfile::tempdir().unwrap();
        let first = folder.path().join("first");
        let objective = AutoencoderObjectiveSection::default().with_initial_deviation(initial_deviation);
        first_stage_of(&first, objective);
        let mut config = second_stage(&first);
        config.training_mut().max_steps = 1;
        let mut heard = Warnings::default();
        let session = Session::new(config).unwrap().in_folder(folder.path().join("second"));
        session.with_observer(&mut heard).run().unwrap();
        heard.0.into_iter().find(|warning| warning.contains("of the variance of the latents is noise"))
    };
    let warning = noise(None).expect("one step leaves a deviation of 1");
    assert!(warning.contains("training.initial_deviation"), "{warning}");
    assert_eq!(noise(Some(0.05)), None);
}

#[test]
fn a_first_stage_that_does_not_fit_is_rejected_with_what_to_write() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let first = folder.path().join("first");
    let reject = |config: Config, parts: &[&str]| {
        let run = folder.path().join("run");
        let error = Session::new(config).unwrap().in_folder(&run).run().unwrap_err();
        let said = format!("{error} {}", error.help().unwrap_or_default());
        assert!(matches!(error, SystemError::Input { .. }), "{error:?}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part} in {said}"));
        assert!(!run.exists());
    };
    let second = || second_stage(&first);
    reject(second(), &["latents.autoencoder", "weights.safetensors", "leanburn train first.yaml", "--with-stages"]);
    first_stage(&first);
    let latents =
        |change: fn(LatentsSection) -> LatentsSection| second().with_latents(change(second().latents.unwrap()));
    reject(
        latents(|latents| latents.with_downsampling([2, 2, 4])),
        &["latents.downsampling", "found [2, 2, 4]", "write `downsampling: [2, 2, 2]`"],
    );
    let SystemSection::Diffusion(mut section) = second().system else { panic!() };
    (section.in_channels, section.out_channels) = (16, 16);
    let mut wide = second();
    wide.system = section.into();
    reject(wide, &["diffusion.in_channels: expected 3", "found 16", "write `in_channels: 3`"]);
    let data = DataConfig { normalize: Normalize::ZScore, ..data() };
    reject(second().with_data(data), &["data.normalize", "ZScore", "Percentile"]);
    // a run that is no autoencoder, and a configuration that is not there
    fs::write(first.join("config.yaml"), second().to_yaml()).unwrap();
    reject(second(), &["latents.autoencoder", "a model without latents"]);
    fs::remove_file(first.join("config.yaml")).unwrap();
    let error = Session::new(second()).unwrap().in_folder(folder.path().join("run")).run().unwrap_err().to_string();
    assert!(error.contains("config.yaml"), "{error}");
}

/// Runs something in a pool of one new thread, and waits for its end: what a thread keeps, such as the scratch memory of matrix products,
/// is made in it and gone after it.
pub(super) fn on_a_new_thread<T: Send>(part: impl FnOnce() -> T + Send) -> T {
    let mut threads = Vec::new();
    let spawn = |worker: rayon::ThreadBuilder| {
        threads.push(std::thread::spawn(|| worker.run()));
        Ok(())
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).spawn_handler(spawn).build().unwrap();
    let result = pool.install(part);
    drop(pool);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    result
}

/// Planned and measured peak of a step.
pub(super) fn planned_and_measured(config: &Config, extent: [usize; 3]) -> (u64, u64) {
    let both = || {
        let space = ConfigSpace::new(config, "test", &Planner::cpu(), || Ok(DataSize::default())).unwrap();
        let planned = space.record(&space.configured()).unwrap().timeline(&FlexMemory).peak().get();
        (planned, measure(config, "test", extent, 1).unwrap().peak.get())
    };
    on_a_new_thread(both); // what is allocated once for all
    on_a_new_thread(both)
}

#[test]
fn the_planned_peak_of_each_scheduler_is_the_measured_one() {
    let _alone = alone();
    let (voxels, extent) = ([32, 32, 64], [16, 16, 32]);
    for (scheduler, recompute, precision) in [
        (SchedulerSection::Ddpm(DdpmSection::default()), Recompute::none(), Precision::F32),
        (SchedulerSection::Rflow(RflowSection::default()), Recompute::all(), Precision::F32),
        (SchedulerSection::Edm(EdmSection::default()), Recompute::none(), Precision::Bf16),
    ] {
        let mut config = of_classes(Path::new("not there"));
        let SystemSection::Diffusion(mut section) = config.system.clone() else { panic!() };
        section.num_channels = vec![16, 32]; // what each thread keeps, a fifth of a MiB, is little of the step
        config.system = section.with_scheduler(scheduler.clone()).into();
        config.data.patch_size = Some(voxels);
        config.device = DeviceSection::new("flex").with_precision(Some(precision));
        config.training_mut().recompute = recompute;
        assert_eq!(config.extent(), Some(extent));
        let (planned, measured) = planned_and_measured(&config, extent);
        let error = 100.0 * (planned as f64 / measured as f64 - 1.0);
        println!("{scheduler:?}: planned {planned}, measured {measured}, {error:+.2} %");
        assert!(error.abs() <= 3.0, "{scheduler:?} {precision}: planned {planned}, measured {measured}, {error:+.2} %");
    }
}
