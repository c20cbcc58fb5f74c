//! Equal to MONAI 1.6.1 on fixtures made by `make_fixtures.py` and the other `make_*.py` in `tests/fixtures`, in float32 on the CPU.
//! `Vae3d`, `ConvLstm`, `Cnn3dLstm` and most networks of `Fno` are in no package: there the fixtures are of modules that these scripts
//! write down in PyTorch.

#[path = "parity/bev.rs"]
mod bev;
mod common;
#[path = "parity/consistency.rs"]
mod consistency;
#[path = "parity/half_precision.rs"]
mod half_precision;
#[path = "parity/perceptual.rs"]
mod perceptual;
#[path = "parity/samplers.rs"]
mod samplers;
#[path = "parity/weight_files.rs"]
mod weight_files;

use burn::module::Module;
use burn::tensor::Device;
use common::swin::{Pairs, Swin2dFixture, SwinFixture, up_block};
use common::{
    CANCELLED, Fixture, Outcome, adversarial_scores, codebook_moved, fixture_path, read_integers, relative_error,
    remove_cancelled, run_fixture, state, trained_parameters, values, worst,
};
use leanburn_nn::blocks::NormConfig;
use leanburn_nn::losses::{DiceCeLoss, DiceLoss, cross_entropy_loss};
use leanburn_nn::models::{EdsrConfig, FnoBlock, FnoConfig, SwinUnetrConfig, UNet2dConfig, Vae3dConfig};
use leanburn_nn::weights;
use leanburn_ops::ResidencyPolicy;

fn check(name: &str) -> (Fixture, Outcome) {
    let fixture = Fixture::read(name);
    let mut outcome = run_fixture(name, ResidencyPolicy::keep());
    let mut outputs = fixture.values("output.");
    let loss = outputs.remove("loss").unwrap();
    let (error, output) = worst(&outcome.outputs, &outputs);
    assert!(error < 1e-5, "{output}: {error:e}");
    let error = relative_error(&[outcome.loss], &loss);
    assert!(error < 1e-5, "loss: {error:e}");
    let mut gradients = fixture.values("grad.");
    remove_cancelled(&mut outcome.gradients, &mut gradients, CANCELLED);
    let (error, gradient) = worst(&outcome.gradients, &gradients);
    assert!(error < 1e-4, "gradient of {gradient}: {error:e}");
    (fixture, outcome)
}

#[test]
fn autoencoder_kl_attention() {
    check("autoencoder_kl_attention");
}

#[test]
fn autoencoder_kl_high_res() {
    check("autoencoder_kl_high_res");
}

#[test]
fn autoencoder_kl_convtranspose() {
    check("autoencoder_kl_convtranspose");
}

#[test]
fn autoencoder_kl_combined() {
    check("autoencoder_kl_combined");
}

#[test]
fn conv_lstm() {
    check("conv_lstm");
}

#[test]
fn cnn3d_lstm() {
    check("cnn3d_lstm");
    check("cnn3d_lstm_lite");
    check("cnn3d_lstm_micro");
}

#[test]
fn vae3d_ultra_lightweight() {
    check("vae3d_ultra_lightweight");
}

#[test]
fn vq_vae() {
    let (fixture, _) = check("vq_vae");
    let model = fixture.evaluated(fixture.vq_vae_config().init(&Device::flex()));
    let codes = model.index_quantize(fixture.tensor("input.x", &Device::flex()));
    let codes = codes.into_data().convert::<i64>().try_to_vec::<i64>().unwrap();
    assert_eq!(codes, read_integers("vq_vae", "output.indices"));
}

/// Two forward passes in training move the codebook as they do MONAI's, and recomputation does not move it twice.
#[test]
fn vq_vae_codebook() {
    for policy in [ResidencyPolicy::keep(), ResidencyPolicy::recompute_all()] {
        let (before, after, expected) = codebook_moved(&Device::flex(), policy);
        assert_eq!(expected.len(), 3);
        for (name, (_, expected)) in &expected {
            let error = relative_error(&after[name], expected);
            assert!(error < 1e-5, "{name}: {error:e}");
            assert!(relative_error(&before[name], expected) > 1e-3, "{name} did not move");
        }
    }
}

#[test]
fn unet() {
    for name in ["unet_residual", "unet_plain", "unet_group", "unet_batch"] {
        let (fixture, _) = check(name);
        let model = fixture.unet_config().init(&Device::flex().autodiff());
        let expected: usize =
            fixture.values("grad.").iter().map(|(name, values)| (name != "x") as usize * values.len()).sum();
        assert_eq!(trained_parameters(&model), expected, "{name}");
    }
}

/// Kernels and strides of their own along each axis, residual blocks, norms over the batch; files of MONAI hold some parameters twice.
#[test]
fn dyn_unet() {
    for name in ["dyn_unet", "dyn_unet_residual", "dyn_unet_batch"] {
        let (fixture, _) = check(name);
        let model = fixture.dyn_unet_config().init(&Device::flex().autodiff());
        let expected: usize =
            fixture.values("grad.").iter().map(|(name, values)| (name != "x") as usize * values.len()).sum();
        assert_eq!(trained_parameters(&model), expected, "{name}");
    }
}

/// Attention of several heads, a context, classes, ControlNet residuals, residual blocks that halve and double; one item and two.
#[test]
fn diffusion_unet() {
    for name in DIFFUSION {
        let (fixture, _) = check(name);
        let model = fixture.diffusion_config().init(&Device::flex());
        let expected: usize = fixture.values("weight.").values().map(Vec::len).sum();
        assert_eq!(model.num_params(), expected, "{name}");
    }
}

const FNO: [&str; 7] =
    ["fno_2d", "fno_3d", "fno_3d_deep", "fno_diffsr_2d", "fno_diffsr_3d", "fno_neuraloperator", "tfno"];

/// On odd grids; with batch norms, networks and factors, from grid to grid, with zeros around; and on another grid than that of the
/// step.
#[test]
fn fno() {
    for name in FNO {
        let (fixture, _) = check(name);
        let device = Device::flex();
        let model = fixture.loaded(fixture.fno_config().init(&device));
        let prediction = values(model.forward(fixture.tensor("finer.x", &device)));
        let error = relative_error(&prediction, &fixture.values("finer.")["prediction"]);
        assert!(error < 1e-5, "{name} on another grid: {error:e}");
    }
}

const SR3: [&str; 3] = ["sr3_2d", "sr3_3d", "sr3_time"];

/// Told a noise level, on planes; on volumes, with scales; told a time. Two items and one.
#[test]
fn super_resolution_unet() {
    for name in SR3 {
        let (fixture, _) = check(name);
        let expected: usize = fixture.values("weight.").values().map(Vec::len).sum();
        let config = fixture.sr3_config();
        assert_eq!([config.init(&Device::flex()).num_params(), config.num_parameters()], [expected; 2], "{name}");
    }
}

const REFINING: [&str; 3] = ["edsr", "edsr_three", "unet2d"];

/// Blocks on the coarse grid that is refined by four and by three, and a U-Net on the fine one; of DiffSR's templates, with the 64 channels
/// that its EDSR takes and the 128 that its file says.
#[test]
fn refining_networks() {
    for name in REFINING {
        let (fixture, _) = check(name);
        let expected: usize =
            fixture.values("grad.").iter().map(|(name, values)| (name != "x") as usize * values.len()).sum();
        let device = Device::flex().autodiff();
        let found = match name {
            "unet2d" => {
                let config = fixture.unet2d_config();
                [trained_parameters(&config.init(&device)), config.num_parameters()]
            }
            _ => {
                let config = fixture.edsr_config();
                [trained_parameters(&config.init(&device)), config.num_parameters()]
            }
        };
        assert_eq!(found, [expected; 2], "{name}");
    }
    let edsr = EdsrConfig::new(1, 1, 4);
    assert_eq!([edsr.num_parameters(), edsr.with_hidden_channels(128).num_parameters()], [1_515_265, 6_053_377]);
    assert_eq!(UNet2dConfig::new(1, 1, 4).with_init_features(64).num_parameters(), 31_036_481);
}

/// As published for grids of two and three axes with ten steps of the past; of the configuration for fields of the ocean that DiffSR has;
/// and of neuraloperator's modules, dense and with Tucker factors of a tenth.
#[test]
fn parameters_of_fourier_neural_operators() {
    let count = |config: FnoConfig| trained_parameters(&config.init(&Device::flex().autodiff()));
    let classic = |modes| FnoConfig::classic(10, 1, 20, modes).with_block(FnoBlock::BatchNorm);
    assert_eq!(count(classic(vec![8; 2])), 414_517);
    assert_eq!(count(classic(vec![8; 3])), 6_558_537);
    let modes = [15, 12, 9, 9, 9].map(|modes| vec![modes; 2]);
    let ocean = FnoConfig::diffsr_2d([1, 1], vec![16, 24, 24, 32, 32], modes.to_vec(), 4);
    assert_eq!(count(ocean), 1_356_849);
    let packaged = |modes: Vec<usize>, width| FnoConfig::neuraloperator(modes, 1, 1, width, 4);
    assert_eq!(count(packaged(vec![12; 2], 64)), 2_803_393);
    assert_eq!(count(packaged(vec![8; 3], 32)), 2_634_657);
    assert_eq!(count(packaged(vec![12; 2], 64).with_rank(Some(0.1))), 362_017);
    assert_eq!(count(packaged(vec![8; 3], 32).with_rank(Some(0.1))), 264_217);
}

const DIFFUSION: [&str; 4] =
    ["diffusion_unet", "diffusion_unet_conditioned", "diffusion_unet_updown", "diffusion_unet_two_layers"];

/// With shrunken windows, padded ones and shifted ones in every stage; both orders of merging; kept and recomputed.
///
/// A leaky ReLU of the decoder whose argument is zero but for rounding has one slope or the other: PyTorch's own gradients in
/// float32 are up to 1e-2 from those in float64. So those of the whole model are compared roughly, those of its parts exactly. The residual blocks of
/// the second version's transformer end in such functions too: by AVX2 all of its gradients are within 1e-4, by AVX-512 and by plain code those of
/// the second stage's block and of what stands before it are all at once up to 3.5e-3 away, those behind it are not.
#[test]
fn swin_unetr() {
    let check = |what: &str, pairs: Pairs, of_gradients: f64| {
        for (name, found, expected) in pairs {
            let tolerance = if name.starts_with("output") { 1e-5 } else { of_gradients };
            let error = relative_error(&found, &expected);
            assert!(error < tolerance, "{what}, {name}: {error:e}");
        }
    };
    for (name, norm) in [
        ("unetr_up_block", NormConfig::Instance),
        ("unetr_up_block_none", NormConfig::None),
        ("unetr_up_block_batch", NormConfig::Batch),
        ("unetr_up_block_group", NormConfig::Group(3)),
    ] {
        check(name, up_block(name, norm), 1e-4);
    }
    for name in ["swin_unetr", "swin_unetr_v2"] {
        let fixture = SwinFixture::read(name);
        let of_transformer = if name == "swin_unetr_v2" { 2e-2 } else { 1e-4 };
        check(name, fixture.compared(&fixture.run_transformer(), true), of_transformer);
        let kept = fixture.run(ResidencyPolicy::keep());
        check(name, fixture.compared(&kept, false), 2e-2);
        assert_eq!(kept.gradients.len(), fixture.names().len() + 1, "{name}");
        assert!(fixture.run(ResidencyPolicy::recompute_all()) == kept, "{name}: recomputation changes a bit");
    }
}

/// Swin-T, and a small model whose stages have windows that are shifted, padded and whole, and odd sizes; kept and recomputed.
#[test]
fn swin_transformer2d() {
    for name in ["swin_transformer2d", "swin_t"] {
        let fixture = Swin2dFixture::read(name);
        let kept = fixture.run(ResidencyPolicy::keep());
        for (value, found, expected) in fixture.compared(&kept) {
            let tolerance = if value.starts_with("output") { 1e-5 } else { 1e-4 };
            let error = relative_error(&found, &expected);
            assert!(error < tolerance, "{name}, {value}: {error:e}");
        }
        assert_eq!(kept.gradients.len(), fixture.names().len() + 1, "{name}");
        assert_eq!(fixture.config.num_parameters(), fixture.num_parameters(), "{name}");
        if name == "swin_transformer2d" {
            assert!(fixture.run(ResidencyPolicy::recompute_all()) == kept, "{name}: recomputation changes a bit");
        }
    }
}

/// MONAI's numbers of parameters.
#[test]
fn swin_unetr_is_as_large_as_monais() {
    let count = |config: SwinUnetrConfig| config.num_parameters();
    assert_eq!(count(SwinUnetrConfig::new(1, 14).with_feature_size(48)), 62_187_296);
    assert_eq!(count(SwinUnetrConfig::new(4, 3).with_feature_size(48)), 62_191_941);
    assert_eq!(count(SwinUnetrConfig::new(4, 3)), 15_705_621);
    for name in ["swin_unetr", "swin_unetr_v2"] {
        let fixture = SwinFixture::read(name);
        let model = fixture.config.init(&Device::flex().autodiff());
        assert_eq!([trained_parameters(&model), fixture.config.num_parameters()], [fixture.num_parameters(); 2]);
    }
}

/// The loss and its gradient with respect to the logits, for every case of the fixture.
#[test]
fn dice_and_cross_entropy() {
    let (device, fixture) = (Device::flex().autodiff(), Fixture::read("dice_ce"));
    let (losses, gradients) = (fixture.values("output."), fixture.values("grad."));
    for (case, args) in fixture.args.as_object().unwrap() {
        let number = |name: &str, default| args[name].as_f64().unwrap_or(default);
        let flag = |name: &str, default| args[name].as_bool().unwrap_or(default);
        let dice = DiceLoss::new()
            .with_include_background(flag("include_background", true))
            .with_squared_predictions(flag("squared_pred", false))
            .with_smooth_numerator(number("smooth_nr", 1e-5))
            .with_smooth_denominator(number("smooth_dr", 1e-5));
        let sum = DiceCeLoss::new()
            .with_dice(dice.clone())
            .with_dice_weight(number("lambda_dice", 1.0))
            .with_cross_entropy_weight(number("lambda_ce", 1.0));
        let logits = fixture.tensor::<5>("input.logits", &device).require_grad();
        let labels = fixture.labels(logits.dims(), &device);
        let mut found = vec![sum.forward(logits.clone(), labels.clone())];
        match case.as_str() {
            "dice" => found.push(dice.forward(logits.clone(), labels)),
            "cross_entropy" => found.push(cross_entropy_loss(logits.clone(), labels)),
            _ => {}
        }
        for loss in found {
            let gradient = values(logits.grad(&loss.clone().backward()).unwrap());
            let error = relative_error(&[loss.into_scalar::<f32>()], &losses[case]);
            assert!(error < 1e-6, "{case}: {error:e}");
            let error = relative_error(&gradient, &gradients[case]);
            assert!(error < 1e-5, "gradient of {case}: {error:e}");
        }
    }
}

#[test]
fn vae3d_presets_have_the_parameters_that_their_documentation_states() {
    let count = |config: Vae3dConfig| trained_parameters(&config.init(&Device::flex().autodiff()));
    assert_eq!(count(Vae3dConfig::ultra_lightweight()), 694_788);
    assert_eq!(count(Vae3dConfig { num_res_blocks: 0, ..Vae3dConfig::ultra_lightweight() }), 465_236);
    assert_eq!(count(Vae3dConfig::lightweight()), 7_652_628);
    assert_eq!(count(Vae3dConfig::standard()), 41_638_132);
}

/// The fixture's running estimates are those after the step; those before it come from a file of their own.
#[test]
fn patch_discriminator() {
    let (fixture, _) = check("patch_discriminator");
    let device = Device::flex().autodiff();
    let mut model = fixture.discriminator(&device);
    weights::load(&mut model, &fixture_path("patch_discriminator_before.safetensors")).unwrap();
    let before = state(&model);
    model.forward(fixture.tensor("input.x", &device));
    let (after, expected) = (state(&model), fixture.values("weight."));
    let running: Vec<_> = before.keys().filter(|name| name.contains("running")).collect();
    assert_eq!(running.len(), 4);
    for name in running {
        let error = relative_error(&after[name], &expected[name]);
        assert!(error < 1e-6, "{name}: {error:e}");
        assert!(relative_error(&before[name], &expected[name]) > 1e-3, "{name} did not move");
    }
}

#[test]
fn adversarial_loss() {
    for (name, score, expected) in adversarial_scores(&Device::flex()) {
        assert!((score - expected).abs() < 1e-6, "{name}: {score} {expected}");
    }
}

/// The residency decides where intermediate results live and never what comes out.
#[test]
fn residency_changes_no_bit() {
    for name in [
        "autoencoder_kl_attention",
        "autoencoder_kl_high_res",
        "autoencoder_kl_convtranspose",
        "patch_discriminator",
        "conv_lstm",
        "cnn3d_lstm",
        "vae3d_ultra_lightweight",
        "vq_vae",
        "unet_residual",
        "unet_plain",
        "unet_batch",
        "dyn_unet",
        "dyn_unet_residual",
        "dyn_unet_batch",
    ]
    .into_iter()
    .chain(DIFFUSION)
    .chain(FNO)
    .chain(SR3)
    .chain(REFINING)
    {
        let kept = run_fixture(name, ResidencyPolicy::keep());
        let recomputed = run_fixture(name, ResidencyPolicy::recompute_all());
        assert_eq!(recomputed.differing(&kept), Vec::<String>::new(), "{name}");
    }
}
