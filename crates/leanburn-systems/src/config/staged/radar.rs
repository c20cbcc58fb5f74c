//! The file `default_config.yaml` of the radar guide: `vae`, `ldm` and `cd`.

use super::Translation;
use crate::yaml::{Node, Place, Value};

pub(super) const STAGES: [&str; 3] = ["vae", "ldm", "cd"];

/// The folder of a stage's run where the file names none.
const RUNS: [(&str, &str); 2] = [("vae", "runs/radar-vae"), ("ldm", "runs/radar-diffusion")];

pub(super) fn translate(file: &mut Translation, stage: &str) {
    let section = if stage == "vae" { "vae3d" } else { "diffusion" };
    data(file);
    match stage {
        "vae" => vae(file),
        _ => network(file),
    }
    if stage == "cd" {
        distillation(file);
    }
    common(file, stage, section);
    file.leave_out(&[
        "vae",
        "ldm",
        "cd",
        "hardware",
        "logging",
        "inference",
        "optimization.use_fp16",
        "data.batch_size",
    ]);
}

fn data(file: &mut Translation) {
    file.move_folder("data.dataset_dir");
    let place = file.at("data").map_or(Place::Document, |node| node.place.clone());
    file.put("data.normalize", Value::Text("none".into()), &place);
    if let Some(share) = file.number("data.train_split") {
        file.put("data.val_fraction", Value::Number(((1.0 - share) * 1e6).round() / 1e6), &place);
    }
    file.move_all(&[("data.target_size", "data.voxel_size")]);
    file.leave_out_with("data.augmentation", "`data.augmentation` here has `noise` and others");
    file.leave_out(&["data.train_split", "data.alignment_size", "data.use_augmentation"]);
    for key in ["source_pc_range", "model_pc_range", "radar_normalization_path", "doppler_scale_mps"] {
        file.leave_out(&[&format!("data.{key}")]);
    }
}

fn vae(file: &mut Translation) {
    file.move_all(&[
        ("vae.config_type", "vae3d.vae_type"),
        ("vae.in_channels", "vae3d.in_channels"),
        ("vae.latent_dim", "vae3d.latent_channels"),
        ("vae.kl_weight", "vae3d.training.kl_weight"),
        ("vae.occupied_weight", "vae3d.training.occupancy_weight"),
    ]);
    for key in ["channel_weights", "false_positive_weight", "occupancy_mass_weight"] {
        file.move_all(&[(&format!("vae.{key}"), &format!("vae3d.training.{key}"))]);
    }
}

/// The network of `ldm`, which is also that of `cd`, and its noise levels.
fn network(file: &mut Translation) {
    let place = file.at("ldm").map_or(Place::Document, |node| node.place.clone());
    let base = file.integers("ldm.model_channels").and_then(|base| base.first().copied()).unwrap_or(64);
    let multiples = file.integers("ldm.channel_mult").unwrap_or(vec![1, 2, 4]);
    let list = |values: Vec<Value>| {
        Value::List(values.into_iter().map(|value| Node { place: place.clone(), value }).collect())
    };
    let channels = multiples.iter().map(|multiple| Value::Integer(base.saturating_mul(*multiple))).collect();
    // resolutions are those of the latent divided by these numbers
    let with_attention = file.integers("ldm.attention_resolutions").unwrap_or_default();
    let levels = 0..multiples.len();
    let attention = levels.map(|level| Value::Boolean(with_attention.contains(&(1 << level.min(64))))).collect();
    file.put("diffusion.num_channels", list(channels), &place);
    file.put("diffusion.attention_levels", list(attention), &place);
    let latent = file.integers("vae.latent_dim").and_then(|latent| latent.first().copied()).unwrap_or(4);
    file.put("diffusion.in_channels", Value::Integer(latent), &place);
    file.put("diffusion.scheduler.name", Value::Text("edm".into()), &place);
    file.move_all(&[("ldm.num_res_blocks", "diffusion.num_res_blocks")]);
    if let Some(deviation) = file.number("ldm.sigma_data").filter(|deviation| *deviation != 1.0) {
        file.note(&format!(
            "latents here are brought to a deviation of 1, and `sigma_data` says {deviation}: `--set diffusion.scheduler.sigma_data=1` fits"
        ));
    }
    for key in ["sigma_data", "sigma_max", "sigma_min", "rho"] {
        file.move_all(&[(&format!("ldm.{key}"), &format!("diffusion.scheduler.{key}"))]);
    }
    let run = run_of(file, "vae");
    file.put("latents.autoencoder", Value::Text(run), &place);
    file.put("latents.downsampling", list([2, 4, 4].map(Value::Integer).into()), &place);
    for key in ["loss", "false_positive", "mass", "height_distribution", "vertical_continuity"] {
        let key = if key == "loss" { "decoded_loss_weight".to_owned() } else { format!("decoded_{key}_weight") };
        file.leave_out_with(&format!("ldm.{key}"), "the autoencoder is not in the step");
    }
}

fn distillation(file: &mut Translation) {
    let keys =
        ["training_mode", "target_ema_mode", "start_ema", "scale_mode", "start_scales", "end_scales", "loss_norm"];
    for key in keys {
        file.move_all(&[(&format!("cd.{key}"), &format!("diffusion.consistency.{key}"))]);
    }
    let place = file.at("cd").map_or(Place::Document, |node| node.place.clone());
    let teacher = file.text("cd.teacher_model_path").unwrap_or_else(|| run_of(file, "ldm"));
    file.put("diffusion.consistency.teacher", Value::Text(teacher), &place);
}

/// What all stages have.
fn common(file: &mut Translation, stage: &str, section: &str) {
    let (rate, clip) = (format!("{section}.training.learning_rate"), format!("{section}.training.max_grad_norm"));
    let accumulation = format!("{section}.training.gradient_accumulation_steps");
    let checkpoint = format!("{section}.training.use_gradient_checkpointing");
    let batch = format!("{section}.training.batch_size");
    file.move_all(&[
        (&format!("{stage}.lr"), &rate),
        ("data.batch_size", &batch),
        ("optimization.max_grad_norm", &clip),
        ("optimization.gradient_accumulation_steps", &accumulation),
        ("optimization.use_checkpoint", &checkpoint),
        ("optimization.use_amp", "device.mixed_precision"),
    ]);
    file.leave_out_with(&format!("{stage}.epochs"), "training is counted in steps: set `max_steps`");
}

/// The folder of the run of a stage: where the file has it saved.
fn run_of(file: &Translation, stage: &str) -> String {
    let named = file.text(&format!("{stage}.save_dir"));
    let default = RUNS.iter().find(|(name, _)| *name == stage).map_or("runs", |(_, run)| run);
    named.unwrap_or_else(|| default.to_owned())
}
