//! The files of the guides, as they are printed.

use proptest::prelude::*;

use super::*;

const HIGH_RESOLUTION: &str = "\
data:
  voxel_size: [256, 256, 64]
  cache_rate: 0
autoencoder:
  num_channels: [16, 32, 64]
  norm_num_groups: 8
  attention_levels: [false, false, true]
  training: {batch_size: 1, use_gradient_checkpointing: true}
device:
  mixed_precision: true
";

const FNO: &str = "\
model:
  name: 'FNO2d'
  modes1: [15, 12, 9, 9, 9]
  width: 64
  n_layers: 5
data:
  name: 'NavierStokes2D'
  shape: [64, 48]
  train_batchsize: 512
train:
  cuda: True
optimize: {lr: 1e-3, weight_decay: .inf}
";

const FORECASTER: &str = "\
model_type: convlstm
batch_size: 8
input_days: 7
hidden_dim: 32
";

fn parse(text: &str) -> GuideConfig {
    GuideConfig::parse(text).unwrap()
}

/// Batch, seq_len, height, width, hidden_dim and layers.
fn values(figures: &Figures) -> [Option<u32>; 6] {
    let Figures { batch, seq_len, height, width, hidden_dim, num_layers } = figures;
    [batch, seq_len, height, width, hidden_dim, num_layers].map(Figure::value)
}

fn given(value: u32, source: &str) -> Figure {
    Figure::Given { value, source: source.into() }
}

fn wrong(key: &str, found: &str) -> Figure {
    Figure::Wrong { key: key.into(), found: found.into() }
}

/// A super-resolution file with a model of these lines.
fn model(lines: &str) -> GuideConfig {
    parse(&format!("model:\n  {}\ndata: {{shape: [8, 8], train_batchsize: 2}}\n", lines.replace('\n', "\n  ")))
}

#[test]
fn an_autoencoder() {
    let config = parse(HIGH_RESOLUTION);
    assert_eq!(config.kind, GuideKind::Autoencoder);
    assert_eq!(values(&config.figures), [1, 64, 256, 256, 16, 12].map(Some));
    assert!(config.half_precision && config.loss_scale.is_none() && config.not_modelled.is_empty());
    let blocks = |text: &str| {
        let text = HIGH_RESOLUTION.replace("  norm_num", &format!("  num_res_blocks: {text}\n  norm_num"));
        parse(&text).figures.num_layers
    };
    assert_eq!(blocks("[1, 2, 4]"), given(14, "autoencoder.num_res_blocks in all x 2"));
    assert_eq!(blocks("3"), given(18, "autoencoder.num_res_blocks a level x 2"));
    assert_eq!(blocks("[1, -2]"), wrong("autoencoder.num_res_blocks", "[1,-2]"));
    assert_eq!(blocks("[18446744073709551615, 1]").value(), None);
    assert_eq!(blocks("2147483648").value(), None);
}

#[test]
fn an_autoencoder_trains_on_patches_where_it_has_them() {
    let figures = parse(&HIGH_RESOLUTION.replace("  cache", "  patch_size: 32\n  cache")).figures;
    assert_eq!(values(&figures), [1, 32, 32, 32, 16, 12].map(Some));
}

#[test]
fn an_excerpt_of_an_autoencoder() {
    let text = "autoencoder: {channels: [24, 48, 64], training: {batch_size: 2}}\ndiffusion: {unet: 1}\nname: x";
    let config = parse(text);
    assert_eq!(values(&config.figures), [Some(2), None, None, None, Some(24), Some(12)]);
    assert_eq!(config.figures.height, Figure::Missing);
    assert_eq!(config.not_modelled, ["the section `diffusion`"]);
    assert_eq!(values(&parse("autoencoder: 5").figures), [Some(1), None, None, None, None, None]);
}

#[test]
fn a_fourier_neural_operator() {
    let config = parse(FNO);
    let name = "FNO2d".to_owned();
    assert_eq!(config.kind, GuideKind::SuperResolution { name, architecture: Architecture::Fno });
    assert_eq!(values(&config.figures), [512, 1, 64, 48, 64, 5].map(Some));
    assert_eq!(config.figures.num_layers, given(5, "model.n_layers"));
    assert_eq!(config.figures.height, given(64, "data.shape[0]"));
    assert!(config.kind.is_modelled() && config.not_modelled.is_empty());
    assert_eq!(parse(&FNO.replace("FNO2d", "FNO3d")).not_modelled, ["a Fourier neural operator (`FNO3d`)"]);
    let by_default = parse(&FNO.replace("  n_layers: 5\n", "")).figures.num_layers;
    assert!(matches!(by_default, Figure::Assumed { value: 4, .. }), "{by_default:?}");
}

#[test]
fn shapes_of_one_to_three_axes() {
    let sides = |shape: &str| {
        let figures = parse(&FNO.replace("[64, 48]", shape)).figures;
        [figures.seq_len, figures.height, figures.width].map(|figure| figure.value())
    };
    assert_eq!(sides("[10, 64, 48]"), [10, 64, 48].map(Some));
    assert_eq!(sides("[3, 10, 64, 48]"), [10, 64, 48].map(Some));
    assert_eq!(sides("[64]"), [1, 64, 64].map(Some));
    assert_eq!(sides("64"), [1, 64, 64].map(Some));
    assert_eq!(sides("[]"), [Some(1), None, None]);
    assert_eq!(sides("[0, 64]"), [Some(1), None, Some(64)]);
}

#[test]
fn layers_of_other_networks() {
    let cases = [
        ("name: UNet2d\ninit_features: 32\nnum_res_blocks: 3", Architecture::UNet, 32, 12),
        ("name: unet", Architecture::UNet, 0, 8),
        ("name: DDPM\ninner_channel: 64\nres_blocks: 2", Architecture::Diffusion, 64, 8),
        ("which_model_G: sr3\nunet: {inner_channel: 16, res_blocks: 1}", Architecture::Diffusion, 16, 4),
        ("name: Galerkin_Transformer\nn_hidden: 96\nn_layers: 6", Architecture::Transformer, 96, 6),
        ("name: transformer\nhidden_dim: 128\nnum_layers: 12", Architecture::Transformer, 128, 12),
        ("name: transformer\nhidden_dim: 128\nnum_encoder_layers: 6", Architecture::Transformer, 128, 6),
        ("name: transformer", Architecture::Transformer, 0, 0),
        ("name: EDSR\nhidden_dim: 8", Architecture::Other, 8, 0),
    ];
    for (lines, expected, hidden_dim, layers) in cases {
        let config = model(lines);
        let GuideKind::SuperResolution { architecture, .. } = config.kind else { panic!("{lines}: {:?}", config.kind) };
        let figures = [config.figures.hidden_dim, config.figures.num_layers].map(|figure| figure.value().unwrap_or(0));
        assert_eq!((architecture, figures), (expected, [hidden_dim, layers]), "{lines}");
    }
}

#[test]
fn a_forecaster() {
    let config = parse(FORECASTER);
    assert_eq!(config.kind, GuideKind::Forecaster { model_type: Some("convlstm".into()) });
    assert_eq!(values(&config.figures), [Some(8), Some(7), None, None, Some(32), None]);
    assert!(config.not_modelled.is_empty() && config.kind.is_modelled());
    let other = parse("{model_type: gru, input_days: 7}");
    assert_eq!((other.kind.is_modelled(), &other.not_modelled[..]), (false, &["a forecaster (`gru`)".to_string()][..]));
    assert!(matches!(parse("{model_type: 3dcnn_lstm, batch_size: 4}").kind, GuideKind::Forecaster { .. }));
    assert_eq!(parse("input_days: 3").kind, GuideKind::Forecaster { model_type: None });
    assert!(GuideConfig::parse("model_type: bert").is_err());
}

#[test]
fn half_precision() {
    let read = |text: &str| {
        let config = parse(text);
        assert_eq!(config.kind, GuideKind::HalfPrecision, "{text}");
        (config.half_precision, config.loss_scale)
    };
    let fixed = (true, Some(LossScale::Static(512.0)));
    assert_eq!(read("fp16: {enabled: true, loss_scale: 512}"), fixed);
    assert_eq!(read("loss_scale: 512.0"), fixed);
    assert_eq!(read("train: {loss_scale: 512}"), fixed);
    assert_eq!(read("fp16: {enabled: true, loss_scale: 0}"), (true, Some(LossScale::Dynamic)));
    assert_eq!(read("loss_scale: dynamic"), (true, Some(LossScale::Dynamic)));
    assert_eq!(read("fp16: {enabled: false, loss_scale: 512}"), (false, None));
    assert_eq!(read("fp16: true"), (true, None));
    assert_eq!(read("loss_scale: -3"), (false, None));
    assert_eq!(parse("{fp16: true, train_micro_batch_size_per_gpu: 8}").figures.batch.value(), Some(8));
    let ours = |device: &str| {
        let config = parse(&HIGH_RESOLUTION.replace("  mixed_precision: true", device));
        (config.half_precision, config.loss_scale)
    };
    assert_eq!(ours("  {precision: f16, loss_scale: 512, mixed_precision: false}"), fixed);
    assert_eq!(ours("  {precision: bf16, loss_scale: dynamic, mixed_precision: false}"), (true, None));
    assert_eq!(ours("  {precision: f32, loss_scale: dynamic, mixed_precision: true}"), (false, None));
    let operator = parse(&format!("{FNO}fp16: {{enabled: true, loss_scale: 512}}\n"));
    assert_eq!((operator.half_precision, operator.loss_scale), fixed);
    assert!(matches!(operator.kind, GuideKind::SuperResolution { .. }));
}

#[test]
fn numbers_that_are_none() {
    for (text, found) in [("0", "0"), ("-3", "-3"), ("1.5", "1.5"), ("many", "\"many\""), ("4294967296", "4294967296")]
    {
        let batch = parse(&FNO.replace("512", text)).figures.batch;
        assert_eq!(batch, wrong("data.train_batchsize", found));
    }
    let long = parse(&FNO.replace("512", &"x".repeat(1000))).figures.batch;
    assert!(matches!(long, Figure::Wrong { found, .. } if found.len() == 43 && found.ends_with("...")));
}

#[test]
fn an_unknown_kind_hears_of_the_known_ones() {
    for text in [
        "a: 1",
        "",
        "5",
        "[1, 2]",
        "model: {name: bert}",
        "model: 3",
        "autoencoder:",
        "device: {mixed_precision: true}",
    ] {
        let error = GuideConfig::parse(text).unwrap_err().to_string();
        for key in ["autoencoder", "model_type", "input_days", "model.name", "data.shape", "loss_scale", "fp16"] {
            assert!(error.contains(&format!("`{key}`")), "{text}: {error}");
        }
    }
}

#[test]
fn files_that_are_no_yaml() {
    let error = |text: &str| GuideConfig::parse(text).unwrap_err();
    assert!(matches!(error("a: [1"), GuideError::NotYaml { reason } if reason.contains("line 1")));
    assert!(matches!(error("a: 1\n---\nb: 2"), GuideError::NotYaml { .. }));
    assert!(matches!(error(&"[".repeat(100_000)), GuideError::NotYaml { .. }));
    let laughs: String = (1..30).map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}, *a{0}]\n", n - 1)).collect();
    assert!(matches!(error(&format!("a0: &a0 [ha, ha]\n{laughs}")), GuideError::NotYaml { .. }));
    assert!(!error("\u{1b}[31m: [").to_string().contains('\u{1b}'));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.yaml");
    let load = || GuideConfig::load(&path).unwrap_err().to_string();
    assert!(load().starts_with("expected a readable text file"), "{}", load());
    std::fs::write(&path, [0xff, 0xfe, 0]).unwrap();
    assert!(load().ends_with("bytes that are not UTF-8"), "{}", load());
    std::fs::write(&path, "a: 1\n".repeat(300_000)).unwrap();
    assert!(load().ends_with("found more"), "{}", load());
    std::fs::write(&path, FNO).unwrap();
    assert_eq!(GuideConfig::load(&path).unwrap(), parse(FNO));
}

#[test]
fn every_recipe_of_an_autoencoder_is_one() {
    for recipe in crate::table::recipes().into_iter().filter(|recipe| recipe.name.contains("autoencoder")) {
        let config = parse(recipe.text);
        assert_eq!(config.kind, GuideKind::Autoencoder, "{}", recipe.name);
        assert!(config.not_modelled.is_empty());
        assert!(values(&config.figures).iter().all(Option::is_some), "{}: {:?}", recipe.name, config.figures);
    }
}

proptest! {
    #[test]
    fn any_text_gets_an_answer(text in "\\PC*", at in 0..FNO.len(), junk in "[\\[\\]{}:,&*!\\-\n 0-9a-z'\"]{0,8}") {
        let _ = GuideConfig::parse(&text);
        for whole in [FNO, HIGH_RESOLUTION, FORECASTER] {
            let at = at % whole.len();
            let _ = GuideConfig::parse(&format!("{}{junk}{}", &whole[..at], &whole[at..]));
        }
    }
}
