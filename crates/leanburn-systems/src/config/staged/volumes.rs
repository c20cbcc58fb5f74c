//! The files `ldm_config_*.yaml` of the guide for high-resolution autoencoders: `autoencoder` and `diffusion`.

use leanburn_common::ValidationError;

use super::Translation;
use crate::yaml::{Place, Value};

pub(super) const STAGES: [&str; 2] = ["autoencoder", "diffusion"];

/// Keys of both stages that have no meaning here.
const OF_PROGRAMS: [&str; 6] = [
    "spatial_dims",
    "checkpoints",
    "logging",
    "training.fast_dev_run",
    "training.fast_dev_run_batches",
    "training.save_interval",
];

pub(super) fn translate(file: &mut Translation, stage: &str) {
    data(file);
    if stage == "diffusion" {
        latents(file);
        groups(file);
        file.leave_out(&[
            "autoencoder",
            "diffusion.training.generate_samples_interval",
            "diffusion.training.num_samples_to_generate",
        ]);
        if !file.is_on("diffusion.training.input_noise.enabled") {
            file.leave_out(&["diffusion.training.input_noise"]);
        }
        file.leave_out_with("sampling", "`leanburn sample` has --steps (50 are enough), --count, --points and --out");
    } else {
        autoencoder(file);
        file.leave_out(&["diffusion", "sampling"]);
    }
    for key in OF_PROGRAMS {
        file.leave_out(&[&format!("{stage}.{key}")]);
    }
    let epochs = "training is counted in steps: set `max_steps`";
    file.leave_out_with(&format!("{stage}.training.n_epochs"), epochs);
    file.leave_out_with(&format!("{stage}.training.val_interval"), "it counts epochs; here steps are counted");
}

fn data(file: &mut Translation) {
    if file.is_on("data.augmentation.use_patch_based") {
        file.move_all(&[("data.voxel_size", "data.patch_size")]);
    }
    let flips =
        file.is_on("data.augmentation.enabled") && file.number("data.augmentation.random_flip_prob") > Some(0.0);
    if let (true, Some(place)) = (flips, file.at("data.augmentation").map(|node| node.place.clone())) {
        file.put("data.flip", Value::Boolean(true), &place);
    }
    file.move_folder("data.train_data_dir");
    file.leave_out_with("data.val_data_dir", "`val_fraction` of the volumes is held out");
    file.leave_out(&["data.augmentation", "data.pin_memory", "device.use_cuda", "device.gpu_id"]);
}

/// The program of these files takes MONAI's groups, with which some of them fail.
fn groups(file: &mut Translation) {
    let channels = file.integers("diffusion.num_channels").unwrap_or_default();
    if let Some(odd) =
        channels.iter().find(|channels| file.at("diffusion.norm_num_groups").is_none() && *channels % 32 != 0)
    {
        let note =
            format!("32 groups, MONAI's default, do not divide {odd} channels: the most that divide all are taken");
        file.note(&format!("{note}; `diffusion.norm_num_groups` sets another number"));
    }
}

/// Levels here halve, as factors of 2 do.
fn autoencoder(file: &mut Translation) {
    if file.integers("autoencoder.downsample_factors").is_some_and(|factors| factors.iter().all(|factor| *factor == 2))
    {
        file.leave_out(&["autoencoder.downsample_factors"]);
    }
    if file.integers("autoencoder.initial_downsample_factor").is_some_and(|factor| factor == [1]) {
        file.leave_out(&["autoencoder.initial_downsample_factor"]);
    }
    file.leave_out_with("autoencoder.training.autoencoder_warm_up_n_epochs", "set `adversarial_start_step`, in steps");
}

/// The latents of the autoencoder of the same file.
fn latents(file: &mut Translation) {
    let levels = file.at("autoencoder.num_channels").map_or(1, |node| match &node.value {
        Value::List(items) => items.len(),
        _ => 1,
    });
    let halvings = vec![2; levels.saturating_sub(1)];
    let factors = file.integers("autoencoder.downsample_factors").unwrap_or(halvings);
    let initial = file.integers("autoencoder.initial_downsample_factor").unwrap_or_default();
    let downsampling = factors.iter().chain(&initial).fold(1, |product: i128, factor| product.saturating_mul(*factor));
    let weights = file.text("diffusion.checkpoints.autoencoder_path");
    let beside = weights.as_ref().and_then(|path| Some(path.rsplit_once('/')?.0.to_owned()));
    let run = file.text("autoencoder.checkpoints.output_dir").or(beside);
    let place = file.at("diffusion").map_or(Place::Document, |node| node.place.clone());
    file.put("latents.autoencoder", Value::Text(run.unwrap_or_else(|| "runs/autoencoder".into())), &place);
    file.put("latents.downsampling", Value::Integer(downsampling), &place);
    let channels = |path: &str| file.integers(path).and_then(|channels| channels.first().copied()).unwrap_or(3);
    let (made, taken) = (channels("autoencoder.latent_channels"), channels("diffusion.in_channels"));
    if made != taken {
        file.found.contradictions.push(ValidationError {
            key: "diffusion.in_channels".into(),
            with: Vec::new(),
            expected: format!("{made}, the `latent_channels` of the autoencoder"),
            found: taken.to_string(),
            help: format!("write `in_channels: {made}` and `out_channels: {made}`"),
        });
    }
}
