//! Weight files of MONAI and GenerativeModels, good and bad; made by `tests/fixtures/make_more_fixtures.py`.

use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;
use leanburn_nn::models::{
    AutoencoderKl, AutoencoderKlConfig, DiffusionUNet3d, PatchDiscriminatorConfig, SwinTransformer2d,
};
use leanburn_nn::weights::{self, MonaiWeights, ShapeDifference, WeightsError};

use crate::common::swin::{Swin2dFixture, SwinFixture};
use crate::common::{Fixture, Values, fixture_path, read_tensors, state};

fn tiny_config() -> AutoencoderKlConfig {
    AutoencoderKlConfig::new(vec![2, 2], vec![1, 1], vec![false, true])
        .with_latent_channels(1)
        .with_norm_num_groups(1)
        .with_encoder_nonlocal_attn(false)
        .with_decoder_nonlocal_attn(false)
}

fn tiny() -> AutoencoderKl {
    tiny_config().init(&Device::flex())
}

fn expected() -> Values {
    read_tensors("tiny").into_iter().map(|(name, (_, values))| (name, values)).collect()
}

#[test]
fn state_dicts_load_from_both_formats_and_under_both_names() {
    for file in ["tiny.safetensors", "tiny.pt", "tiny_legacy.pt"] {
        let mut model = tiny();
        weights::load(&mut model, &fixture_path(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert_eq!(state(&model), expected(), "{file}");
    }
}

#[test]
fn a_model_is_found_inside_a_checkpoint_in_half_precision() {
    let mut model = tiny();
    weights::load(&mut model, &fixture_path("tiny_checkpoint.ckpt")).unwrap();
    let (error, name) = crate::common::worst(&state(&model), &expected());
    assert!(error < 1e-3 && error > 0.0, "{name}: {error:e}");
    let mut again = tiny();
    weights::load_under(&mut again, &fixture_path("tiny_checkpoint.ckpt"), "state_dict.autoencoder.").unwrap();
    assert_eq!(state(&again), state(&model));
}

#[test]
fn what_is_saved_loads_back_under_monai_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    let (trained, mut other) = (tiny(), tiny());
    weights::save_safetensors(&trained, &path).unwrap();
    weights::save_safetensors(&trained, &path).expect("an existing file is replaced");
    assert_eq!(names(&path), names(&fixture_path("tiny.safetensors")));
    assert_ne!(state(&other), state(&trained));
    weights::load(&mut other, &path).unwrap();
    assert_eq!(state(&other), state(&trained));

    let fixture = Fixture::read("patch_discriminator");
    let discriminator = fixture.discriminator(&Device::flex());
    weights::save_safetensors(&discriminator, &path).unwrap();
    let saved = names(&path);
    let monai = names(&fixture.path).into_iter().filter_map(|name| Some(name.strip_prefix("weight.")?.to_string()));
    assert_eq!(saved, monai.collect::<Vec<_>>());
    let mut other = PatchDiscriminatorConfig::new(1, 8).with_num_layers_d(2).init(&Device::flex());
    weights::load(&mut other, &path).unwrap();
    assert_eq!(state(&other), state(&discriminator));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "temporary files stay behind");
}

/// Names, shapes and values go out as they came in, regardless of the units, norms and activations.
#[test]
fn a_unet_is_saved_under_monai_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unet.safetensors");
    for name in ["unet_residual", "unet_plain", "unet_group", "unet_batch"] {
        let fixture = Fixture::read(name);
        let model = fixture.loaded(fixture.unet_config().init(&Device::flex()));
        weights::save_safetensors(&model, &path).unwrap();
        let monai = names(&fixture.path).into_iter().filter_map(|name| Some(name.strip_prefix("weight.")?.to_string()));
        assert_eq!(names(&path), monai.collect::<Vec<_>>(), "{name}");
        let mut other = fixture.unet_config().init(&Device::flex());
        assert_ne!(state(&other), state(&model));
        weights::load(&mut other, &path).unwrap();
        assert_eq!(state(&other), state(&model), "{name}");
    }
    let mut deeper = Fixture::read("unet_plain").unet_config();
    deeper.num_res_units = 1;
    let error = weights::load(&mut deeper.init(&Device::flex()), &Fixture::read("unet_plain").path).unwrap_err();
    assert!(matches!(error, WeightsError::Ambiguous { .. } | WeightsError::Different { .. }), "{error}");
}

/// Without those that MONAI has once more.
#[test]
fn nn_unets_u_net_is_saved_under_monai_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unet.safetensors");
    for name in ["dyn_unet", "dyn_unet_residual", "dyn_unet_batch"] {
        let fixture = Fixture::read(name);
        let model = fixture.loaded(fixture.dyn_unet_config().init(&Device::flex()));
        weights::save_safetensors(&model, &path).unwrap();
        let monai = names(&fixture.path).into_iter().filter_map(|name| Some(name.strip_prefix("weight.")?.to_string()));
        let (twice, once): (Vec<_>, Vec<_>) = monai.partition(|name| name.starts_with("skip_layers."));
        assert_eq!((names(&path), twice.is_empty()), (once, false), "{name}");
        let mut other = fixture.dyn_unet_config().init(&Device::flex());
        assert_ne!(state(&other), state(&model));
        weights::load(&mut other, &path).unwrap();
        assert_eq!(state(&other), state(&model), "{name}");
    }
}

/// Under today's names, and from a file under those of GenerativeModels.
#[test]
fn a_diffusion_model_is_saved_under_monai_names_and_read_under_older_ones() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("unet.safetensors");
    for name in ["diffusion_unet", "diffusion_unet_conditioned", "diffusion_unet_updown", "diffusion_unet_two_layers"] {
        let fixture = Fixture::read(name);
        let model = fixture.loaded(fixture.diffusion_config().init(&Device::flex()));
        weights::save_safetensors(&model, &path).unwrap();
        let monai = names(&fixture.path).into_iter().filter_map(|name| Some(name.strip_prefix("weight.")?.to_string()));
        assert_eq!(names(&path), monai.collect::<Vec<_>>(), "{name}");
        let bytes = std::fs::read(&path).unwrap();
        let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
        let older = |name: &str| DiffusionUNet3d::legacy_name(name).unwrap_or_else(|| name.to_string());
        let older: Vec<_> = file.iter().map(|(name, view)| (older(name), view)).collect();
        let changed = older.iter().filter(|(name, _)| !file.names().contains(&name.as_str())).count();
        assert!(changed >= 8, "{changed} older names");
        let bytes = safetensors::serialize(older, None).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let mut other = fixture.diffusion_config().init(&Device::flex());
        weights::load(&mut other, &path).unwrap();
        assert_eq!(state(&other), state(&model), "{name}");
    }
}

/// With the buffers that MONAI's strict loading asks for.
#[test]
fn a_swin_unetr_is_saved_under_monai_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("swin.safetensors");
    let fixture = SwinFixture::read("swin_unetr_v2");
    let model = fixture.model(&Device::flex());
    weights::save_safetensors(&model, &path).unwrap();
    let (buffers, saved): (Vec<_>, Vec<_>) =
        names(&path).into_iter().partition(|name| name.ends_with("relative_position_index"));
    let mut expected = fixture.names();
    expected.sort();
    assert_eq!((saved, buffers.len()), (expected, 6));
    let mut other = fixture.config.init(&Device::flex());
    weights::load(&mut other, &path).unwrap();
    assert_eq!(state(&other), state(&model));
}

/// With the buffers that torchvision's strict loading asks for. A file may have a classifier, and the authors' names.
#[test]
fn a_swin_transformer_is_saved_under_torchvisions_names() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("swin.safetensors");
    let fixture = Swin2dFixture::read("swin_transformer2d");
    let model = fixture.model(&Device::flex());
    weights::save_safetensors(&model, &path).unwrap();
    let (buffers, saved): (Vec<_>, Vec<_>) =
        names(&path).into_iter().partition(|name| name.ends_with("relative_position_index"));
    let mut expected = fixture.names();
    expected.sort();
    assert_eq!((saved, buffers.len()), (expected, 6));

    let bytes = std::fs::read(&path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let named = |name: &str| SwinTransformer2d::legacy_name(name).unwrap_or(name.to_string());
    let renamed = folder.path().join("authors.safetensors");
    let mut views: Vec<_> = file.iter().map(|(name, view)| (named(name), view)).collect();
    views.push(("head.weight".to_string(), file.tensor("norm.weight").unwrap()));
    safetensors::serialize_to_file(views, None, &renamed).unwrap();
    for path in [path, renamed] {
        let mut other = fixture.config.init(&Device::flex());
        weights::load(&mut other, &path).unwrap();
        assert_eq!(state(&other), state(&model));
    }
}

fn names(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let mut names: Vec<_> = file.names().into_iter().map(String::from).collect();
    names.sort();
    names
}

/// Loads what must not load; gives the error, after checking that the model is as it was.
fn rejected(mut model: AutoencoderKl, path: &Path) -> WeightsError {
    let before = state(&model);
    let error = weights::load(&mut model, path).expect_err("must not load");
    assert_eq!(state(&model), before, "the model changed");
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    error
}

#[test]
fn all_differences_are_listed() {
    let model = tiny_config().with_latent_channels(2).with_use_combined_linear(true).init(&Device::flex());
    let error = rejected(model, &fixture_path("tiny.safetensors"));
    assert!(error.is_different());
    let WeightsError::Different { differences, .. } = &error else { unreachable!() };
    assert_eq!(differences.missing.len(), 2 * 2, "qkv of encoder and decoder: {differences}");
    assert_eq!(differences.unexpected.len(), 2 * 6, "to_q, to_k, to_v of encoder and decoder: {differences}");
    assert_eq!(differences.shapes.len(), 3 * 2 + 3, "three 1x1x1 convolutions, two others: {differences}");
    let shape = ShapeDifference {
        name: "quant_conv_mu.conv.weight".into(),
        expected: vec![2, 2, 1, 1, 1],
        found: vec![1, 1, 1, 1, 1],
    };
    assert!(differences.shapes.contains(&shape), "{differences}");
    let text = error.to_string();
    for line in [
        "missing: encoder.blocks.4.attn.qkv.weight",
        "unexpected: encoder.blocks.4.attn.to_q.weight",
        "shape: quant_conv_mu.conv.weight is [1, 1, 1, 1, 1], the model has [2, 2, 1, 1, 1]",
    ] {
        assert!(text.contains(line), "{line} in {text}");
    }
}

#[test]
fn files_that_are_no_state_dict_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    assert!(matches!(rejected(tiny(), &path("none.pt")), WeightsError::NotFound { .. }));
    assert!(matches!(rejected(tiny(), folder.path()), WeightsError::NotFound { .. }));
    std::fs::write(path("weights.onnx"), b"").unwrap();
    assert!(matches!(rejected(tiny(), &path("weights.onnx")), WeightsError::UnknownFormat { .. }));
    let whole = std::fs::read(fixture_path("tiny.safetensors")).unwrap();
    let mut hostile = whole.clone();
    hostile[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    for (name, bytes) in [
        ("empty.safetensors", &b""[..]),
        ("nothing.safetensors", b"\x02\0\0\0\0\0\0\0{}"),
        ("cut.safetensors", &whole[..whole.len() / 2]),
        ("hostile.safetensors", &hostile),
        ("empty.pt", b""),
        ("text.pt", b"not a pickle"),
        ("cut.pt", &std::fs::read(fixture_path("tiny.pt")).unwrap()[..20_000]),
    ] {
        std::fs::write(path(name), bytes).unwrap();
        let error = rejected(tiny(), &path(name));
        assert!(matches!(error, WeightsError::NotAStateDict { .. }), "{name}: {error}");
    }
}

#[test]
fn weights_that_are_not_finite_are_rejected_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("diverged.safetensors");
    let mut bytes = std::fs::read(fixture_path("tiny.safetensors")).unwrap();
    let last = bytes.len() - size_of::<f32>();
    bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    std::fs::write(&path, bytes).unwrap();
    let error = rejected(tiny(), &path);
    let WeightsError::NotFinite { tensors, .. } = &error else { panic!("{error}") };
    assert!(tensors.len() == 1 && names(&path).contains(&tensors[0]), "{error}");
    assert!(
        error.to_string().contains("in 1 tensors, such as ") && error.to_string().contains("earlier checkpoint"),
        "{error}"
    );
}

#[test]
fn two_models_in_one_file_ask_for_a_choice() {
    let path = Fixture::read("autoencoder_kl_convtranspose").path;
    let model = Fixture::read("autoencoder_kl_convtranspose").autoencoder_config().init(&Device::flex());
    let error = rejected(model, &path);
    let WeightsError::Ambiguous { prefixes, .. } = &error else { panic!("{error}") };
    assert_eq!(prefixes, &["grad.", "weight."]);
}

#[test]
fn an_impossible_path_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let error = weights::save_safetensors(&tiny(), &folder.path().join("none/model.safetensors")).unwrap_err();
    assert!(matches!(error, WeightsError::NotWritten { .. }), "{error}");
}

#[test]
fn parameters_are_as_many_as_monai_counts() {
    for name in ["autoencoder_kl_attention", "autoencoder_kl_high_res", "autoencoder_kl_convtranspose"] {
        let fixture = Fixture::read(name);
        let model = fixture.autoencoder_config().init(&Device::flex());
        let expected: usize = fixture.values("weight.").values().map(Vec::len).sum();
        assert_eq!(model.num_params(), expected, "{name}");
    }
}
