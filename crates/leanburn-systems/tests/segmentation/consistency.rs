//! Consistency models: that each way of training learns and goes on where it stopped, that what it holds is planned, and what is said of a
//! teacher that does not fit.

use std::fs;
use std::path::Path;

use burn::module::Module as _;
use burn::tensor::Device;
use leanburn_nn::models::DiffusionUNet3d;
use leanburn_nn::weights::save_safetensors;
use leanburn_systems::Batch;
use leanburn_systems::diffusion::{
    ConsistencySection, DdpmSection, EdmSection, LatentBatch, LatentSampler, LossNorm, SamplingMethod, SamplingPlan,
    SchedulerSection, TrainingMode, WeightSchedule,
};
use leanburn_systems::metrics::Phase;
use leanburn_systems::{
    Config, DeviceSection, DiffusionObjectiveSection, DiffusionSection, Session, System, SystemError, SystemSection,
};
use leanburn_train::{MainModel, TrainError, Trainer, TrainerConfig};

use super::diffusion::{first_stage, planned_and_measured, second_stage};
use super::{alone, values};

fn section(config: &Config) -> DiffusionSection {
    let SystemSection::Diffusion(section) = &config.system else { panic!("{config:?}") };
    section.clone()
}

/// A denoiser at noise levels, or a consistency model.
fn at_noise_levels(first: &Path, consistency: Option<ConsistencySection>) -> Config {
    let mut config = second_stage(first);
    let objective = DiffusionObjectiveSection::default().with_num_inference_steps(1);
    let scheduler = SchedulerSection::Edm(EdmSection::default());
    let model = section(&config).with_scheduler(scheduler).with_objective(objective).with_consistency(consistency);
    config.system = model.into();
    config.training_mut().learning_rate = 3e-3;
    config
}

/// Its network and its target drop values, a teacher does not.
fn dropping(mut config: Config) -> Config {
    config.system = section(&config).with_dropout(0.1).into();
    config
}

fn run(config: &Config, folder: &Path) -> leanburn_systems::Outcome {
    Session::new(config.clone()).unwrap().in_folder(folder).run().unwrap()
}

#[test]
fn a_distilled_model_goes_on_where_it_stopped_and_leaves_its_teacher_alone() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    first_stage(&path("first"));
    run(&at_noise_levels(&path("first"), None), &path("teacher"));
    let teacher = || fs::read(path("teacher/weights.safetensors")).unwrap();
    let before = teacher();
    let consistency =
        ConsistencySection::new(TrainingMode::ConsistencyDistillation).with_teacher(Some(path("teacher")));
    let config = dropping(at_noise_levels(&path("first"), Some(consistency)));
    let straight = run(&config, &path("straight"));
    let losses = values(&straight.records, Phase::Train, "consistency");
    let session = || Session::new(config.clone()).unwrap().in_folder(path("stopped"));
    session().stop_after(8).run().unwrap();
    let resumed = session().resume(true).run().unwrap();
    // the losses of the last steps depend on target and teacher
    assert_eq!(values(&resumed.records, Phase::Train, "consistency"), losses);
    assert!(losses.len() == 16 && losses[12..].iter().all(|loss| *loss > 0.0), "{losses:?}");
    for file in ["weights.safetensors", "pictures/step-00000016.png"] {
        let [one, other] = [&resumed, &straight].map(|run| fs::read(run.folder.path().join(file)).unwrap());
        assert!(one == other, "{file} differs");
    }
    assert!(teacher() == before, "the teacher has changed");
    let memory = |cause: &str| straight.memory.causes().into_iter().find(|found| found.cause == cause).unwrap().size;
    let copies = ["average of weights", "target network", "teacher"].map(memory);
    assert_eq!(copies, [memory("weights"); 3]);
    samples_in_one_step_and_in_several(&config, &straight.folder.weights());
    the_teacher_is_asked_and_started_from(&config, &path(""));
    the_teacher_stays_as_it_is(&config, &path(""));
    what_a_teacher_is_rejected_for(&path(""));
}

/// The leanest way: no teacher, and the model is its own target. In the first stage of easy tuning, most of it is training of a diffusion model.
#[test]
fn an_easily_tuned_model_learns() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    first_stage(&folder.path().join("first"));
    let consistency = ConsistencySection::new(TrainingMode::EasyConsistencyTuning)
        .with_stages(1)
        .with_loss_norm(LossNorm::L2)
        .with_weight_schedule(WeightSchedule::Uniform);
    let mut config = at_noise_levels(&folder.path().join("first"), Some(consistency));
    // of these latents little more can be known than their deviation: one that is wrong leaves something to learn
    let mut edm = EdmSection::default();
    edm.sigma_data = 0.2;
    config.system = section(&config).with_scheduler(SchedulerSection::Edm(edm)).into();
    config.training_mut().learning_rate = 1e-2;
    let outcome = run(&config, &folder.path().join("run"));
    let validation = values(&outcome.records, Phase::Validation, "loss");
    assert!(validation[2] < 0.9 * validation[0], "{validation:?}");
    let causes = outcome.memory.causes();
    assert!(causes.iter().all(|cause| cause.cause != "target network" && cause.cause != "teacher"), "{causes:?}");
}

fn samples_in_one_step_and_in_several(config: &Config, weights: &Path) {
    let sampler = LatentSampler::load(&section(config), &config.context("test"), weights, &Device::flex()).unwrap();
    let plan = SamplingPlan::new(1, 7);
    let latent = |plan: SamplingPlan| sampler.latent([4, 8, 4], &plan, || {}).unwrap().data().to_vec();
    let one = latent(plan);
    assert_eq!(latent(SamplingPlan { method: Some(SamplingMethod::Multistep), ..plan }), one);
    assert_ne!(latent(SamplingPlan { steps: 2, ..plan }), one);
    for method in [SamplingMethod::Heun, SamplingMethod::Euler, SamplingMethod::EulerAncestral] {
        assert_ne!(latent(SamplingPlan { method: Some(method), steps: 3, ..plan }), one);
    }
    let plan = SamplingPlan { method: Some(SamplingMethod::Ddim), ..plan };
    let error = sampler.latent([4, 8, 4], &plan, || {}).unwrap_err().to_string();
    assert!(error.contains("multistep, heun, euler, euler_ancestral"), "{error}");
}

/// The teacher's own weights, bit for bit, in the teacher and in the student.
fn the_teacher_is_asked_and_started_from(config: &Config, folder: &Path) {
    let (model, context, device) = (section(config), config.context("test"), Device::flex().autodiff());
    let mut workload = model.build(&context, &device).unwrap();
    model.learn_from(&mut workload, &context, &device).unwrap();
    let learner = workload.model();
    for network in [learner.teacher().unwrap(), learner.target().unwrap(), &learner.trained()] {
        let path = folder.join("again.safetensors");
        save_safetensors(network, &path).unwrap();
        assert!(fs::read(path).unwrap() == fs::read(folder.join("teacher/weights.safetensors")).unwrap());
    }
}

/// After some steps, in which the student changes and the target follows it.
fn the_teacher_stays_as_it_is(config: &Config, folder: &Path) {
    let (model, context, device) = (section(config), config.context("test"), Device::flex().autodiff());
    let mut workload = model.build(&context, &device).unwrap();
    model.learn_from(&mut workload, &context, &device).unwrap();
    let mut trainer = Trainer::new(workload, TrainerConfig::default(), &device);
    let shape = <LatentBatch as Batch>::shape_of(&context, 2, 3, [4, 4, 8]);
    let mut batches = std::iter::repeat_with(|| Ok::<_, TrainError>(<LatentBatch as Batch>::random(&shape, &device)));
    (0..3).for_each(|_| drop(trainer.step(&mut batches).unwrap()));
    let learner = trainer.workload().model();
    let differs = |network: &DiffusionUNet3d| {
        let path = folder.join("again.safetensors");
        save_safetensors(network, &path).unwrap();
        fs::read(path).unwrap() != fs::read(folder.join("teacher/weights.safetensors")).unwrap()
    };
    let differ = [learner.teacher().unwrap(), learner.target().unwrap(), &learner.trained()].map(differs);
    assert_eq!(differ, [false, true, true]);
}

/// In a folder with the runs `first` and `teacher`.
fn what_a_teacher_is_rejected_for(folder: &Path) {
    let (first, teacher) = (folder.join("first"), folder.join("teacher"));
    let student = |teacher: &Path| {
        let section = ConsistencySection::new(TrainingMode::ConsistencyDistillation);
        at_noise_levels(&first, Some(section.with_teacher(Some(teacher.to_path_buf()))))
    };
    let said_of = |error: SystemError, parts: &[&str]| {
        let said = format!("{error} {}", error.help().unwrap_or_default());
        assert!(matches!(error, SystemError::Input { .. }), "{error:?}");
        parts.iter().for_each(|part| assert!(said.contains(part), "{part} in {said}"));
    };
    let reject = |config: Config, parts: &[&str]| {
        let (model, context, device) = (section(&config), config.context("test"), Device::flex().autodiff());
        let mut workload = model.build(&context, &device).unwrap();
        said_of(model.learn_from(&mut workload, &context, &device).unwrap_err(), parts);
    };
    reject(
        student(&folder.join("nowhere")),
        &[
            "diffusion.consistency.teacher",
            "nowhere/weights.safetensors",
            "leanburn train nowhere.yaml",
            "--with-stages",
        ],
    );
    reject(student(&first), &["diffusion.consistency.teacher", "one of another system"]);
    let changed = |change: fn(&mut DiffusionSection)| {
        let mut config = student(&teacher);
        let mut model = section(&config);
        change(&mut model);
        config.system = model.into();
        config
    };
    reject(changed(|model| model.num_channels = vec![8, 24]), &["the network of this model", "[8, 24]", "[8, 16]"]);
    reject(
        changed(|model| {
            if let SchedulerSection::Edm(edm) = &mut model.scheduler {
                edm.sigma_data = 0.5;
            }
        }),
        &["sigma_data: 0.5", "write `sigma_data: 1`"],
    );
    let mut scaled = student(&teacher);
    scaled.latents = scaled.latents.map(|latents| latents.with_scale_factor(Some(1.0)));
    said_of(
        scaled.preview("test", 1, &mut |_| {}).unwrap_err(),
        &["latents.scale_factor", "as the teacher was trained", "leave it out"],
    );
    // a teacher of another kind of noise, and one that is a consistency model
    let config = fs::read_to_string(teacher.join("config.yaml")).unwrap();
    let mut other = at_noise_levels(&first, None);
    other.system = section(&other).with_scheduler(SchedulerSection::Ddpm(DdpmSection::default())).into();
    fs::write(teacher.join("config.yaml"), other.to_yaml()).unwrap();
    reject(student(&teacher), &["scheduler: {name: edm}", "another scheduler"]);
    let consistent = at_noise_levels(&first, Some(ConsistencySection::new(TrainingMode::EasyConsistencyTuning)));
    fs::write(teacher.join("config.yaml"), consistent.to_yaml()).unwrap();
    reject(student(&teacher), &["a diffusion model", "found a consistency model"]);
    fs::write(teacher.join("config.yaml"), config).unwrap();
    // another teacher is noticed by a run that goes on
    let run = folder.join("stopped");
    fs::copy(run.join("weights.safetensors"), teacher.join("weights.safetensors")).unwrap();
    let error =
        Session::new(dropping(student(&teacher))).unwrap().in_folder(run).resume(true).run().unwrap_err().to_string();
    assert!(error.contains("other files") && error.contains("teacher"), "{error}");
}

#[test]
fn a_configuration_that_contradicts_itself_is_rejected() {
    let _alone = alone();
    let errors = |lines: &str| {
        let text = format!(
            "data: {{phantom: {{count: 2}}, patch_size: 16}}\nlatents: {{autoencoder: runs/a}}\ndiffusion:\n  num_channels: [4, 8]\n{lines}"
        );
        let errors = Config::parse(&text, "test.yaml", &[]).expect_err(lines);
        errors.errors().iter().map(|error| format!("{}: {} {}", error.key, error.found, error.help)).collect::<Vec<_>>()
    };
    for (lines, parts) in [
        (
            "  consistency: {training_mode: consistency_distillation}",
            &["consistency.teacher", "none", "easy_consistency_tuning"][..],
        ),
        (
            "  scheduler: {name: ddpm}\n  consistency: {}",
            &["diffusion.scheduler.name", "write `scheduler: {name: edm}`"],
        ),
        (
            "  training: {loss: l1}\n  consistency: {}",
            &["diffusion.training.loss", "`diffusion.consistency.loss_norm` is pseudo_huber"],
        ),
        ("  consistency: {training_mode: consistency_training, start_scales: 300}", &["consistency.end_scales", "200"]),
        ("  consistency: {scale_mode: fixed, start_scales: 1}", &["consistency.start_scales", "two noise levels"]),
        ("  consistency: {loss_norm: cauchy, loss_constant: 0}", &["consistency.loss_constant", "leave it out"]),
        ("  consistency: {q: 1}", &["consistency.q", "use 4"]),
        ("  consistency: {loss_norm: lpips}", &["consistency.loss_norm", "lpips"]),
    ] {
        let errors = errors(lines);
        assert_eq!(errors.len(), 1, "{errors:?}");
        parts.iter().for_each(|part| assert!(errors[0].contains(part), "{part} in {}", errors[0]));
    }
    let text = "data: {phantom: {count: 2}}\nlatents: {autoencoder: runs/a}\ndiffusion: {num_channels: [4, 8], consistency: {teacher_model_path: runs/b}}";
    let config = Config::parse(text, "test.yaml", &[]).unwrap();
    let read = section(&config);
    assert!(matches!(read.scheduler, SchedulerSection::Edm(_)));
    assert_eq!(read.training.objective.num_inference_steps, 1);
    assert!(read.consistency.clone().unwrap().is_distilled());
    assert_eq!(Config::parse(&config.to_yaml(), "again", &[]).unwrap(), config);
    let roles: Vec<_> = config.needed_runs().into_iter().map(|run| (run.role, run.weights)).collect();
    assert_eq!(
        roles,
        [("first stage", "runs/a/weights.safetensors".into()), ("teacher", "runs/b/weights.safetensors".into())]
    );
}

/// A step holds what one of a diffusion model does, and the weights of the other networks: their passes have ended before the student's
/// backward pass, and have saved nothing.
fn nothing_is_saved_of_target_and_teacher(config: &Config, extent: [usize; 3], measured: u64, is_distilled: bool) {
    let mut diffusion = config.clone();
    diffusion.system = section(config).with_consistency(None).into();
    let (_, plain) = planned_and_measured(&diffusion, extent);
    let parameters = section(config).model().init(&Device::flex()).num_params() as u64;
    let beside = if is_distilled { 2 * 4 * parameters } else { 0 };
    println!("a diffusion step {plain}, of this {measured}, of which weights of other networks {beside}");
    assert!((measured - beside) as f64 <= 1.15 * plain as f64, "{measured} - {beside}, plain {plain}");
}

/// Student, average, target and teacher, and none of the last two: each is planned, and no more than there is.
#[test]
fn the_planned_peak_of_each_way_of_training_is_the_measured_one() {
    let _alone = alone();
    let extent = [16, 16, 32];
    for mode in [TrainingMode::ConsistencyDistillation, TrainingMode::EasyConsistencyTuning] {
        let is_distilled = mode == TrainingMode::ConsistencyDistillation;
        let consistency = ConsistencySection::new(mode).with_loss_norm(LossNorm::PseudoHuber);
        let consistency = consistency.with_teacher(is_distilled.then(|| "not there".into()));
        let mut config = at_noise_levels(Path::new("not there"), Some(consistency));
        let mut model = section(&config);
        model.num_channels = vec![16, 32];
        model.dropout = if is_distilled { 0.0 } else { 0.1 };
        config.system = model.into();
        config.data.patch_size = Some([32, 32, 64]);
        config.device = DeviceSection::new("flex");
        let (planned, measured) = planned_and_measured(&config, extent);
        nothing_is_saved_of_target_and_teacher(&config, extent, measured, is_distilled);
        let error = 100.0 * (planned as f64 / measured as f64 - 1.0);
        println!("{mode:?}: planned {planned}, measured {measured}, {error:+.2} %");
        assert!(error.abs() <= 1.0, "{mode:?}: planned {planned}, measured {measured}, {error:+.2} %");
    }
}
