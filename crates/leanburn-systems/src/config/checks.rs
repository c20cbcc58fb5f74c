//! What must hold between keys.

use leanburn_train::Precision;

use super::autoencoder::AutoencoderSection;
use super::device::LossScale;
use super::document::Config;
use super::reader::Reader;

/// Reports every pair of keys that contradict each other.
pub(super) fn check(reader: &mut Reader, config: &Config) {
    check_data(reader, config);
    if let Some(autoencoder) = config.autoencoder() {
        check_levels(reader, autoencoder);
        check_groups(reader, autoencoder);
        check_grid(reader, config, autoencoder);
        check_discriminator(reader, autoencoder);
    }
    check_training(reader, config);
    check_device(reader, config);
}

/// The rules of `leanburn-data`, which says "expected ..., found ...; remedy" of a key.
fn check_data(reader: &mut Reader, config: &Config) {
    let (section, mistakes) = match &config.sequence {
        None => ("data", config.data.mistakes()),
        Some(sequence) => ("sequence", sequence.mistakes()),
    };
    for (key, what) in mistakes {
        let (expected, found) = what.split_once(", found ").unwrap_or((&what, "another value"));
        let (found, help) = found.split_once("; ").unwrap_or((found, "correct this value"));
        let expected = expected.trim_start_matches("expected ");
        reader.check(false, &[&format!("{section}.{key}"), section], found.to_owned(), expected, help);
    }
}

fn check_levels(reader: &mut Reader, autoencoder: &AutoencoderSection) {
    const CHANNELS: &str = "autoencoder.num_channels";
    let levels = autoencoder.num_channels.len();
    reader.check(
        (1..=MAX_LEVELS).contains(&levels),
        &[CHANNELS],
        format!("{levels} levels"),
        &format!("1 to {MAX_LEVELS} levels"),
        "list the channels of each level, as in [16, 32, 64]",
    );
    for (key, length) in [
        ("autoencoder.num_res_blocks", autoencoder.num_res_blocks.len()),
        ("autoencoder.attention_levels", autoencoder.attention_levels.len()),
    ] {
        reader.check(
            length == levels,
            &[key, CHANNELS],
            format!("{length} entries"),
            &format!("{levels}, one for each entry of `num_channels`"),
            "make the two lists equally long",
        );
    }
}

fn check_groups(reader: &mut Reader, autoencoder: &AutoencoderSection) {
    let groups = autoencoder.norm_num_groups;
    let channels = &autoencoder.num_channels;
    let common = channels.iter().copied().reduce(greatest_common_divisor).unwrap_or(groups);
    reader.check(
        common % groups == 0,
        &["autoencoder.norm_num_groups", "autoencoder.num_channels"],
        format!("{groups} groups for channels {channels:?}"),
        "groups that divide every channel count",
        &format!("set `norm_num_groups` to {common} or a divisor of it"),
    );
}

fn check_grid(reader: &mut Reader, config: &Config, autoencoder: &AutoencoderSection) {
    let levels = autoencoder.num_channels.len();
    if !(1..=MAX_LEVELS).contains(&levels) {
        return;
    }
    let factor = 1_usize << (levels - 1);
    // The model sees patches where there are any.
    let (key, size) = match (config.data.patch_size, config.data.voxel_size) {
        (Some(patch), _) => ("data.patch_size", patch),
        (None, Some(grid)) => ("data.voxel_size", grid),
        (None, None) => return,
    };
    let nearest = size.map(|length| length.next_multiple_of(factor));
    reader.check(
        size == nearest,
        &[key, "autoencoder.num_channels"],
        format!("{size:?}"),
        &format!("multiples of {factor}, since {levels} levels halve the resolution {} times", levels - 1),
        &format!("use {nearest:?}, or fewer levels in `num_channels`"),
    );
}

fn check_training(reader: &mut Reader, config: &Config) {
    let (training, system) = (config.training(), config.system.name());
    reader.check(
        training.warmup_steps <= training.max_steps,
        &[&format!("{system}.training.warmup_steps"), &format!("{system}.training.max_steps")],
        format!("{} warm-up steps of {}", training.warmup_steps, training.max_steps),
        "a warm-up no longer than the training",
        "lower `warmup_steps` or raise `max_steps`",
    );
}

fn check_discriminator(reader: &mut Reader, autoencoder: &AutoencoderSection) {
    let training = &autoencoder.training.objective;
    reader.check(
        training.discriminator.is_some() || training.adversarial_start_step == 0,
        &["autoencoder.training.adversarial_start_step"],
        "a start of the adversarial loss, but no `discriminator`".into(),
        "a `discriminator` section",
        "add `discriminator:` to the training section, or remove `adversarial_start_step`",
    );
}

fn check_device(reader: &mut Reader, config: &Config) {
    let device = &config.device;
    reader.check(
        !(device.mixed_precision && device.precision == Some(Precision::F32)),
        &["device.precision", "device.mixed_precision"],
        "`mixed_precision: true` with `precision: f32`".into(),
        "settings that agree",
        "remove `precision` for f16, or set `mixed_precision: false`",
    );
    reader.check(
        device.loss_scale == LossScale::Dynamic || device.resolved_precision() == Precision::F16,
        &["device.loss_scale", "device.precision", "device.mixed_precision"],
        "a loss scale without f16".into(),
        "`precision: f16` or `mixed_precision: true`",
        "remove `loss_scale`: only f16 needs one",
    );
}

/// As many levels as can halve the largest volume.
const MAX_LEVELS: usize = 16;

fn greatest_common_divisor(one: usize, other: usize) -> usize {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}
