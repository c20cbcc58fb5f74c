//! Super-resolution: what a configuration may say, that a network learns and goes on where it stopped, bit for bit, and that a
//! plan is what a step holds.

use std::fs;

use burn::tensor::Device;
use leanburn_data::{AdvectionConfig, SequenceConfig};
use leanburn_nn::diffusion::Prediction;
use leanburn_systems::metrics::Phase;
use leanburn_systems::{
    Config, DeviceSection, EdsrSection, Recompute, Session, Sr3Section, SuperResolutionNetwork,
    SuperResolutionObjectiveSection, SuperResolutionSection, TrainingSection, UNet2dSection,
};
use leanburn_train::Precision;

use super::diffusion::planned_and_measured;
use super::{alone, values};

/// A small network of each kind.
fn networks() -> [(&'static str, SuperResolutionNetwork); 4] {
    let unet = Sr3Section::new(vec![8, 16]).with_num_res_blocks(1).with_dropout(0.1);
    let mut unet = unet.with_attention_levels(vec![false, true]);
    unet.scheduler.num_train_timesteps = 100;
    let mut sr3 = unet.clone();
    sr3.scheduler.prediction_type = Prediction::VPrediction;
    let edsr = EdsrSection::default().with_hidden_channels(16).with_num_res_blocks(2);
    [
        ("sr3", SuperResolutionNetwork::Sr3(sr3)),
        ("ddpm", SuperResolutionNetwork::Ddpm(unet)),
        ("edsr", SuperResolutionNetwork::Edsr(edsr)),
        ("unet", SuperResolutionNetwork::Unet(UNet2dSection::default().with_init_features(4))),
    ]
}

/// Fields of 16 x 16 from fields of 8 x 8.
fn config(network: SuperResolutionNetwork) -> Config {
    let training = TrainingSection::default()
        .with_batch_size(2)
        .with_max_steps(16)
        .with_learning_rate(3e-3)
        .with_ema_decay(Some(0.5))
        .with_val_interval(8)
        .with_visualize_interval(16)
        .with_checkpoint_interval(8);
    let objective =
        SuperResolutionObjectiveSection::default().with_num_inference_steps(4).with_num_samples(2).with_val_windows(2);
    let model = SuperResolutionSection::new(network, 2).with_training(training).with_objective(objective);
    let advection = Some(AdvectionConfig { steps: 20, shape: [16, 16], ..AdvectionConfig::default() });
    let fields = SequenceConfig {
        advection,
        input_days: 1,
        sample_factor: 2,
        use_channels: vec![0],
        num_workers: 1,
        ..SequenceConfig::default()
    };
    Config::new(model).with_sequence(fields).with_device(DeviceSection::new("flex"))
}

#[test]
fn a_network_of_fields_learns_and_goes_on_where_it_stopped() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    for (name, network) in networks() {
        let config = config(network);
        let loss = if ["sr3", "ddpm"].contains(&name) { "denoising" } else { "refining" };
        let session = |run: &str| Session::new(config.clone()).unwrap().in_folder(folder.path().join(name).join(run));
        let straight = session("straight").run().unwrap();
        let losses = values(&straight.records, Phase::Train, loss);
        let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
        assert!(mean(&losses[12..]) < 0.9 * mean(&losses[..4]), "{name}: {losses:?}");
        for metric in ["psnr", "ssim", "relative_l2", "top_octave_ratio", "top_octave_error"] {
            assert_eq!(values(&straight.records, Phase::Validation, metric).len(), 3, "{name}: {metric}");
        }
        let of_one = values(&straight.records, Phase::Validation, "psnr_one");
        assert_eq!(of_one.len(), if loss == "denoising" { 3 } else { 0 }, "{name} gives one field at once");
        let bicubic = values(&straight.records, Phase::Validation, "psnr_bicubic");
        assert!(bicubic[0] > 10.0 && bicubic.iter().all(|ratio| *ratio == bicubic[0]), "{name}: {bicubic:?}");
        assert_eq!(straight.memory.data, config.data_size("test").unwrap().held);

        session("stopped").stop_after(8).run().unwrap();
        let resumed = session("stopped").resume(true).run().unwrap();
        for file in ["weights.safetensors", "pictures/step-00000016.png"] {
            let [one, other] = [&resumed, &straight].map(|run| fs::read(run.folder.path().join(file)).unwrap());
            assert!(one == other, "{name}: {file} differs");
        }
        assert_eq!(values(&resumed.records, Phase::Train, loss), losses);
        // a seed decides the samples, whatever was drawn before
        let again = || config.evaluate("test", straight.folder.path(), &Device::flex(), &mut |_| {}).unwrap();
        assert_eq!(again(), again(), "{name}");
    }
}

#[test]
fn the_planned_peak_of_super_resolution_is_the_measured_one() {
    let _alone = alone();
    let [(_, sr3), _, (_, edsr), _] = networks();
    let wide = SuperResolutionNetwork::Unet(UNet2dSection::default().with_init_features(8));
    for (network, recompute, precision) in [
        (sr3.clone(), Recompute::none(), Precision::F32),
        (sr3, Recompute::all(), Precision::Bf16),
        (edsr, Recompute::none(), Precision::F32),
        (wide, Recompute::none(), Precision::F32),
    ] {
        let mut config = config(network);
        let fields = config.sequence.as_mut().unwrap();
        fields.advection.as_mut().unwrap().shape = [96, 96];
        config.device = DeviceSection::new("flex").with_precision(Some(precision));
        config.training_mut().recompute = recompute;
        let extent = config.extent().unwrap();
        assert_eq!(extent, [1, 48, 48]);
        let (planned, measured) = planned_and_measured(&config, extent);
        let error = 100.0 * (planned as f64 / measured as f64 - 1.0);
        println!("{precision}: planned {planned}, measured {measured}, {error:+.2} %");
        // Of less than 10 MiB, what dependencies keep is a large part.
        let most = 0.03 * measured.max(10 << 20) as f64;
        assert!(planned.abs_diff(measured) as f64 <= most, "planned {planned}, measured {measured}, {error:+.2} %");
    }
}

#[test]
fn every_error_of_super_resolution_has_its_key() {
    let sound =
        "super_resolution:\n  num_channels: [8, 16]\n  KEY\nsequence: {navier_stokes: {size: 32}, sample_factor: 4}\n";
    let config = Config::parse(&sound.replace("KEY", "model: ddpm"), "test.yaml", &[]).unwrap();
    assert_eq!(Config::parse(&config.to_yaml(), "again.yaml", &[]).unwrap(), config);
    assert!(config.to_yaml().contains("model: ddpm") && config.to_yaml().contains("beta_start: 0.0001"));
    for (key, value, expected) in [
        ("model", "swinir", "one of SR3, sr3, DDPM, ddpm, EDSR, edsr, UNet2d, unet"),
        ("upscale_factor", "2", "the `sample_factor` of `sequence`"),
        ("inner_channels", "7", "an even number"),
        ("attention_levels", "[true]", "2, one for each entry"),
        ("norm_num_groups", "3", "groups that divide"),
        ("dropout", "1", "below 1"),
        ("scheduler", "{prediction_type: score}", "v_prediction"),
        ("scheduler", "{beta_end: 2}", "below 1"),
        ("training", "{num_inference_steps: 3000}", "no more steps"),
        ("training", "{loss: l3}", "relative_l2"),
        ("clip_sample_range", "0", "above 0"),
        ("kernel_size", "3", "a key"),
    ] {
        let text = sound.replace("KEY", &format!("{key}: {value}"));
        let errors = Config::parse(&text, "test.yaml", &[]).expect_err(&text);
        let [error] = errors.errors() else { panic!("{text}{errors:#}") };
        let is_there = error.key.starts_with(&format!("super_resolution.{key}")) && error.expected.contains(expected);
        assert!(is_there, "{text}{errors:#}");
    }
    for (network, factor, key) in [
        ("model: edsr, hidden_channels: 0", 4, "super_resolution.hidden_channels"),
        ("model: edsr, num_channels: [8]", 4, "super_resolution.num_channels"),
        ("model: edsr", 6, "super_resolution.upscale_factor"),
        ("model: unet, init_features: few", 3, "super_resolution.init_features"),
        ("model: unet", 4, "super_resolution.model"),
    ] {
        let fields = format!("sequence: {{navier_stokes: {{size: 36}}, sample_factor: {factor}}}");
        let text = format!("super_resolution: {{{network}}}\n{fields}\n");
        let errors = Config::parse(&text, "test.yaml", &[]).expect_err(&text);
        assert!(errors.errors().iter().any(|error| error.key == key), "{text}{errors:#}");
    }
    for (from, to, key) in [
        ("sample_factor: 4", "predict_days: 1", "sequence.sample_factor"),
        ("size: 32", "size: 36", "super_resolution.num_channels"),
    ] {
        let text = sound.replace("KEY", "num_res_blocks: 1").replace("[8, 16]", "[8, 8, 8, 8]").replace(from, to);
        let errors = Config::parse(&text, "test.yaml", &[]).expect_err(&text);
        assert_eq!(errors.errors()[0].key, key, "{errors:#}");
    }
}
