//! What is said about values, keys and overrides that are wrong.

use leanburn_train::Precision;

use super::*;
use crate::shared::LossScale;
use crate::yaml::{ConfigErrorKind, Place};

#[test]
fn ten_errors_are_reported_at_once_each_with_its_place() {
    let text = "\
sead: 7
data:
  paths: [data/scans]
  voxel_size: [30, 32]
  val_fraction: 1.5
autoencoder:
  num_channels: [16, 32, 0]
  batch_size: 2
  training:
    batchsize: 2
    learning_rate: fast
    learning_rate: 1e-4
    optimizer: adm
    betas: [0.9, 1.0]
device:
  mixed_precision: true
  precision: f32
";
    let errors = parse(text).unwrap_err();
    let found: Vec<_> =
        errors.errors().iter().map(|error| (error.position().unwrap(), error.key.as_str(), error.kind)).collect();
    use ConfigErrorKind::*;
    let expected = [
        ((1, 1), "sead", UnknownKey),
        ((4, 15), "data.voxel_size", WrongValue),
        ((5, 17), "data.val_fraction", WrongValue),
        ((7, 26), "autoencoder.num_channels", WrongValue),
        ((8, 3), "autoencoder.batch_size", UnknownKey),
        ((10, 5), "autoencoder.training.batchsize", UnknownKey),
        ((12, 5), "autoencoder.training.learning_rate", DuplicateKey),
        ((13, 16), "autoencoder.training.optimizer", WrongValue),
        ((14, 18), "autoencoder.training.betas", WrongValue),
        ((17, 3), "device.precision", Contradiction),
    ];
    assert_eq!(found, expected, "{errors:#}");
    let helps: Vec<_> = errors.errors().iter().map(|error| error.help.as_str()).collect();
    assert_eq!(helps[0], "did you mean `seed`?");
    assert_eq!(helps[4], "`batch_size` belongs in `autoencoder.training`: move it there");
    assert_eq!(helps[5], "did you mean `batch_size`?");
    assert_eq!(helps[7], "did you mean `adam`?");
    assert!(errors.errors()[6].found.contains("line 11"));
}

#[test]
fn plain_text_shows_every_error() {
    let errors = parse("data: {paths: [a]}\nautoencoder:\n  num_chanels: [8]\n  seed: x\n").unwrap_err();
    assert_eq!(errors.to_string(), "3 errors in test.yaml");
    let plain = format!("{errors:#}");
    let line =
        "test.yaml:3:3: autoencoder.num_chanels: unknown key: expected a key of this section, found `num_chanels`";
    assert!(plain.contains(line), "{plain}");
    assert!(plain.contains("did you mean `num_channels`?"), "{plain}");
}

#[test]
fn wrong_values_say_what_was_found_and_expected() {
    for (setting, found, expected) in [
        ("autoencoder.training.batch_size=0", "0", "an integer from 1 to 65536"),
        ("autoencoder.training.batch_size=1.5", "1.5", "an integer from 1 to 65536"),
        ("autoencoder.training.batch_size=\"2\"", "the text \"2\"", "an integer from 1 to 65536"),
        ("autoencoder.training.batch_size=", "nothing", "an integer from 1 to 65536"),
        ("autoencoder.training.learning_rate=0", "0", "a number above 0"),
        ("autoencoder.training.learning_rate=.nan", "NaN", "a number above 0"),
        ("autoencoder.training.learning_rate=1e999", "inf", "a number above 0"),
        ("autoencoder.training.use_perceptual_loss=1", "1", "true or false"),
        ("autoencoder.training.recompute=decoder", "the text \"decoder\"", "a list, each entry text"),
        ("autoencoder.training.discriminator=7", "7", "a section"),
        ("autoencoder.training.discriminator.num_scales=99", "99", "an integer from 1 to 8"),
        ("data.normalize=median", "the text \"median\"", "one of percentile, min_max, z_score, none"),
        ("data.percentiles=[1, 2, 3]", "a list of 3", "a list of 2, each entry a number from 0 to 100"),
        ("data.cache_rate=-0.1", "-0.1", "a number from 0 to 1"),
        ("data.flip=[true]", "a list of 1", "one value or a list of 3, each true or false"),
        ("seed=-1", "-1", "an integer of at least 0"),
        ("seed=99999999999999999999999", "1e23", "an integer of at least 0"),
        ("device.name={a: 1}", "a section", "text"),
        ("device.loss_scale=high", "the text \"high\"", "dynamic or a number above 0"),
    ] {
        let error = error_of(setting);
        assert_eq!((error.found.as_str(), error.expected.as_str()), (found, expected), "{setting}");
        assert_eq!(error.kind, ConfigErrorKind::WrongValue);
        assert_eq!(error.place, Place::Override(setting.to_owned()));
        assert!(error.to_string().starts_with(&format!("--set {}", setting.escape_debug())), "{error}");
    }
}

#[test]
fn every_wrong_entry_of_a_list_is_reported() {
    let errors = parse("data: {paths: [a]}\nautoencoder:\n  num_channels:\n    - 32\n    - x\n    - 0\n").unwrap_err();
    let positions: Vec<_> = errors.errors().iter().filter_map(ConfigError::position).collect();
    assert_eq!(positions, [(5, 7), (6, 7)]);
}

#[test]
fn unknown_keys_get_the_advice_that_fits() {
    for (setting, help) in [
        ("autoencoder.training.learning-rate=1", "did you mean `learning_rate`?"),
        ("training.batch_size=1", "`training` belongs in `autoencoder`: move it there"),
        ("patch_size=32", "`patch_size` belongs in `data`: move it there"),
        ("num_layers_d=3", "`num_layers_d` belongs in `autoencoder.training.discriminator`: move it there"),
        ("autoencoder.max_step=3", "did you mean `max_steps`? It belongs in `autoencoder.training`"),
        (
            "autoencoder.training.n_epochs=9",
            "set max_epochs, or max_steps in optimizer steps, in the section `training`",
        ),
        (
            "device.zzz=9",
            "remove `device.zzz`; the keys here are allocator, loss_scale, memory_limit, mixed_precision, name, precision",
        ),
    ] {
        let error = error_of(setting);
        assert_eq!((error.kind, error.help.as_str()), (ConfigErrorKind::UnknownKey, help), "{setting}");
    }
    let guide = error_of("data.pin_memory=true");
    assert!(guide.help.contains("PyTorch"));
}

#[test]
fn missing_keys_are_reported_at_their_section() {
    let errors = parse("seed: 1\nautoencoder:\n  latent_channels: 4\n").unwrap_err();
    let found: Vec<_> =
        errors.errors().iter().map(|error| (error.kind, error.key.as_str(), error.position())).collect();
    assert_eq!(
        found,
        [
            (ConfigErrorKind::Contradiction, "data.paths", None),
            (ConfigErrorKind::MissingKey, "autoencoder.num_channels", Some((2, 1))),
        ],
    );
    let empty = parse("").unwrap_err();
    assert!(empty.errors().iter().any(|error| error.key == "autoencoder.num_channels"), "{empty:#}");
    let list = parse("[1, 2]").unwrap_err();
    assert_eq!((list.errors().len(), list.errors()[0].expected.as_str()), (1, "a section"), "{list:#}");
}

#[test]
fn contradictions_are_found_and_located() {
    for (setting, key) in [
        ("autoencoder.norm_num_groups=24", "autoencoder.norm_num_groups"),
        ("autoencoder.num_channels=[16, 32]", "autoencoder.norm_num_groups"),
        ("autoencoder.num_channels=[]", "autoencoder.num_channels"),
        ("autoencoder.attention_levels=[true]", "autoencoder.attention_levels"),
        ("autoencoder.num_res_blocks=[1, 1, 1]", "autoencoder.num_res_blocks"),
        ("data.patch_size=33", "data.patch_size"),
        ("data.voxel_size=[32, 33, 32]", "data.voxel_size"),
        ("data.percentiles=[99.5, 0.5]", "data.percentiles"),
        ("data.phantom={count: 2}", "data.phantom"),
        ("data.paths=[]", "data.paths"),
        ("autoencoder.training.warmup_steps=2000", "autoencoder.training.warmup_steps"),
        ("autoencoder.training.adversarial_start_step=5", "autoencoder.training.adversarial_start_step"),
        ("device={mixed_precision: true, precision: f32}", "device.precision"),
        ("device.loss_scale=512", "device.loss_scale"),
        ("data={paths: [a], voxel_size: 32, spacing: 2}", "data.spacing"),
        ("data.num_workers=5000", "data.num_workers"),
    ] {
        let error = error_of(setting);
        assert_eq!((error.kind, error.key.as_str()), (ConfigErrorKind::Contradiction, key), "{setting}");
    }
    let two = parse("autoencoder: {num_channels: [32]}\ndata:\n  spacing: 2\n  val_fraction: 3\n").unwrap_err();
    let places: Vec<_> = two.errors().iter().map(|error| (error.key.as_str(), error.position())).collect();
    assert_eq!(places, [("data.paths", Some((2, 1))), ("data.val_fraction", Some((4, 17)))]);
    let groups = error_of("autoencoder.norm_num_groups=24");
    assert_eq!(groups.help, "set `norm_num_groups` to 32 or a divisor of it");
    let grid = error_of("data.voxel_size=[32, 33, 32]");
    assert_eq!(grid.help, "use [32, 34, 32], or fewer levels in `num_channels`");
}

#[test]
fn a_second_document_is_named() {
    let errors = parse(&format!("{MINIMAL}---\nb: 2\n")).unwrap_err();
    let [error] = errors.errors() else { panic!("{errors:#}") };
    assert_eq!((error.found.as_str(), error.position()), ("a second one", Some((3, 1))), "{errors:#}");
    assert!(error.help.contains("a file of its own"), "{errors:#}");
}

#[test]
fn a_wrong_value_causes_no_second_error() {
    assert_eq!(error_of("autoencoder.num_channels=[x, 32, 64]").kind, ConfigErrorKind::WrongValue);
    assert_eq!(error_of("autoencoder.attention_levels=[1]").kind, ConfigErrorKind::WrongValue);
    assert_eq!(error_of("data.paths=3").kind, ConfigErrorKind::WrongValue);
}

#[test]
fn overrides_win_and_make_sections() {
    let config = parse_set(&[
        "autoencoder.num_channels=[8, 16, 32]",
        "autoencoder.norm_num_groups = 4",
        "autoencoder.norm_num_groups=8",
        "autoencoder.training.discriminator.num_layers_d=2",
        "device.loss_scale=512",
        "device.precision=f16",
        "data.patch_size=32",
    ])
    .unwrap();
    assert_eq!(config.autoencoder().unwrap().num_channels, [8, 16, 32]);
    assert_eq!(config.autoencoder().unwrap().norm_num_groups, 8);
    let discriminator = config.autoencoder().unwrap().training.objective.discriminator.clone();
    assert_eq!(discriminator.unwrap().num_layers_d, 2);
    assert_eq!(
        (config.device.loss_scale, config.device.resolved_precision()),
        (LossScale::Static(512.0), Precision::F16)
    );
    assert_eq!(config.data.patch_size, Some([32; 3]));
    let renamed = Config::parse(
        "data: {paths: [a]}\nautoencoder: {channels: [64]}\n",
        "test.yaml",
        &["autoencoder.num_channels=[32]".to_owned()],
    );
    assert_eq!(renamed.unwrap().autoencoder().unwrap().num_channels, [32]);
}

#[test]
fn bad_overrides_are_errors_of_their_own() {
    for setting in ["seed", "=3", "data..paths=3", "data.paths.deep=3", "data=[1", "seed=1: 2: 3"] {
        let error = error_of(setting);
        assert_eq!(error.kind, ConfigErrorKind::Override, "{error}");
        assert!(error.to_string().starts_with(&format!("--set {setting}: wrong override")), "{error}");
    }
}

#[test]
fn num_channels_has_a_second_name() {
    let config = parse("data: {paths: [a]}\nautoencoder: {channels: [32, 64]}\n").unwrap();
    assert_eq!(config.autoencoder().unwrap().num_channels, [32, 64]);
    let errors = parse("data: {paths: [a]}\nautoencoder:\n  channels: [32]\n  num_channels: [64]\n").unwrap_err();
    let error = &errors.errors()[0];
    assert_eq!((error.kind, error.position()), (ConfigErrorKind::DuplicateKey, Some((3, 3))));
    assert_eq!(errors.errors().len(), 1);
}

#[test]
fn syntax_errors_have_a_place_and_do_not_hide_bad_overrides() {
    let text = "data:\n  paths: [a\nautoencoder: 1\n";
    let errors = Config::parse(text, "test.yaml", &["seed".to_owned()]).unwrap_err();
    let kinds: Vec<_> = errors.errors().iter().map(|error| error.kind).collect();
    assert_eq!(kinds, [ConfigErrorKind::Syntax, ConfigErrorKind::Override], "{errors:#}");
    assert_eq!(errors.errors()[0].position(), Some((3, 12)));
    let Place::Text { offset, .. } = errors.errors()[0].place else { panic!("no place") };
    assert_eq!(&text[offset..offset + 1], ":");
    let tab = parse("data:\n\tpaths: [a]\n").unwrap_err();
    assert_eq!((tab.errors()[0].kind, tab.errors()[0].position().unwrap().0), (ConfigErrorKind::Syntax, 2));
}
