//! Models of latents: trained after the stages before them, and sampled.

use std::fs;

use crate::common::{Place, TINY};

/// A diffusion model of the latents of `tiny.yaml`.
const LATENT: &str = "\
seed: 7
data: {phantom: {count: 2, shape: [16, 16, 16], noise: 0.02}, patch_size: 8, num_workers: 1}
latents: {autoencoder: runs/tiny, downsampling: 2, samples_per_volume: 3}
diffusion:
  num_channels: [4, 8]
  num_res_blocks: 1
  num_head_channels: 4
  training: {batch_size: 2, max_steps: 4, val_interval: 2, visualize_interval: 4, checkpoint_interval: 2, num_inference_steps: 2}
";

#[test]
fn a_model_of_latents_is_trained_after_its_first_stage_and_sampled() {
    let (place, file) = Place::with("latent", LATENT);
    let plan = place.succeed(&["plan", &file, "--budget", "1GiB"]);
    assert!(plan.contains("latents in memory (latents.samples_per_volume)"), "planned without a first stage: {plan}");
    let ended = place.run(&["train", &file]);
    assert_eq!(ended.code, Some(2), "{ended:?}");
    for part in ["latents.autoencoder", "runs/tiny", "`leanburn train tiny.yaml`", "--with-stages"] {
        assert!(ended.stderr.contains(part), "{part} in {}", ended.stderr);
    }
    assert!(!place.path("runs").exists());
    let ended = place.run(&["train", "tiny.yaml", "--with-stages"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("the only stage"), "{ended:?}");

    let printed = place.succeed(&["train", &file, "--with-stages"]);
    assert!(printed.contains("the first stage, tiny.yaml, in runs/tiny"), "{printed}");
    assert!(printed.contains("latents in memory"), "{printed}");
    let printed = place.succeed(&["train", &file, "--with-stages", "--out", "stopped", "--max-steps", "2"]);
    assert!(!printed.contains("the first stage, "), "it is there: {printed}");
    place.succeed(&["train", &file, "--out", "stopped", "--resume"]);
    let [straight, stopped] = ["runs/latent", "stopped"];
    for name in ["weights.safetensors", "normalization.json"] {
        assert!(
            place.bytes(&format!("{straight}/{name}")) == place.bytes(&format!("{stopped}/{name}")),
            "{name} differs"
        );
    }
    assert!(place.succeed(&["data", &file, "seen.html"]).contains("seen.html"));

    let sample = |out: &str, more: &[&str]| {
        let arguments = ["sample", "runs/latent/weights.safetensors", "--out", out, "--steps", "3", "--seed", "5"];
        place.succeed(&[&arguments[..], more].concat())
    };
    let printed = sample("two", &["--count", "2", "--latents"]);
    assert!(printed.contains("sample-0001.nii.gz: 1 x 8 x 8 x 8"), "{printed}");
    let points = sample("one", &["--method", "ddim", "--budget", "1GiB", "--points", "100", "--points-above", "-1e9"]);
    assert!(points.contains("one/sample-0000.ply: 100 points"), "{points}");
    assert!(
        place.bytes("one/sample-0000.ply").starts_with(b"ply\nformat binary_little_endian 1.0\nelement vertex 100\n")
    );
    assert!(sample("other", &["--size", "8,16,8"]).contains("1 x 8 x 16 x 8"));
    let [first, same, second] =
        ["two/sample-0000.nii.gz", "one/sample-0000.nii.gz", "two/sample-0001.nii.gz"].map(|path| place.volume(path));
    assert_eq!(first.data(), same.data(), "a seed's samples do not depend on how many there are");
    assert_ne!(first.data(), second.data());
    assert!(place.bytes("two/sample-0001.png").starts_with(b"\x89PNG"));
    let decode = ["decode", "runs/tiny/weights.safetensors", "two/sample-0000.latent.safetensors", "again.nii.gz"];
    place.succeed(&decode);
    assert_eq!(place.volume("again.nii.gz").data(), first.data());

    let reject = |arguments: &[&str], part: &str| {
        let ended = place.run(&[&["sample"], arguments].concat());
        assert!(ended.code == Some(2) && ended.stderr.contains(part), "{part} in {ended:?}");
    };
    let weights = "runs/latent/weights.safetensors";
    reject(&[weights, "--out", "two"], "a new file");
    reject(&[weights, "--out", "new", "--method", "heun"], "ddim, pndm, ddpm");
    reject(&[weights, "--out", "new", "--steps", "0"], "1 to 1000");
    reject(&[weights, "--out", "new", "--points-above", "0.5"], "--points");
    reject(&[weights, "--out", "new", "--size", "8,8"], "one size for all axes");
    reject(&[weights, "--out", "new", "--size", "10"], "[6, 6, 6]");
    reject(&[weights, "--out", "new", "--autoencoder", "nowhere"], "nowhere/weights.safetensors");
    reject(&["runs/tiny/weights.safetensors", "--out", "new"], "`diffusion`");
    assert!(!place.path("new").exists());

    // a run on a card that this machine lacks: what is asked for by --device encodes, too
    let config = place.text("runs/latent/config.yaml");
    fs::write(place.path("runs/latent/config.yaml"), config.replace("name: flex", "name: cuda")).unwrap();
    let metrics = place.succeed(&["evaluate", "runs/latent", "--device", "flex"]);
    assert!(metrics.contains("loss"), "{metrics}");
    let compared = sample("new", &["--device", "flex", "--compare", "runs/latent/config.yaml"]);
    assert!(compared.contains("sliced Wasserstein distance to real latents"), "{compared}");
}

#[test]
fn latents_of_a_codebook_are_decoded_by_their_nearest_vectors() {
    let config =
        LATENT.replace("runs/tiny", "runs/codes").replace("  num_channels", "  in_channels: 4\n  num_channels");
    let (place, file) = Place::with("latent", &config);
    let codes = "data: {phantom: {count: 2, shape: [16, 16, 16], noise: 0.02}, patch_size: 8, num_workers: 1}\n\
        vqvae: {channels: [8], embedding_dim: 4, codebook: {num_embeddings: 8}, training: {batch_size: 2, max_steps: 4}}\n";
    fs::write(place.path("codes.yaml"), codes).unwrap();
    let printed = place.succeed(&["train", &file, "--with-stages"]);
    assert!(printed.contains("the first stage, codes.yaml, in runs/codes"), "{printed}");
    let sample = ["sample", "runs/latent/weights.safetensors", "--out", "new", "--steps", "2", "--latents"];
    place.succeed(&sample);
    let decode = |latent: &str, volume: &str| {
        place.succeed(&["decode", "runs/codes/weights.safetensors", latent, volume]);
        place.volume(volume).into_data()
    };
    let sampled = place.volume("new/sample-0000.nii.gz");
    assert_eq!(decode("new/sample-0000.latent.safetensors", "again.nii.gz"), sampled.data());

    place.succeed(&["encode", "runs/codes/weights.safetensors", "new/sample-0000.nii.gz", "vectors.safetensors"]);
    let vectors = place.volume("vectors.safetensors");
    // to the last bits, by which the gradient goes past the choice of a vector
    let mut different: Vec<[f32; 4]> = Vec::new();
    for place in 0..64 {
        let vector = [0, 1, 2, 3].map(|channel| vectors.data()[channel * 64 + place]);
        let is_near = |other: &[f32; 4]| other.iter().zip(vector).all(|(one, other)| (one - other).abs() < 1e-5);
        if !different.iter().any(is_near) {
            different.push(vector);
        }
    }
    assert!(different.len() <= 8, "{} vectors of 8", different.len());
    let near = vectors.data().iter().enumerate().map(|(index, value)| value + [1e-6, -1e-6][index % 2]).collect();
    vectors.with_data(near, 4).unwrap().write(place.path("near.safetensors")).unwrap();
    assert_eq!(decode("near.safetensors", "near.nii.gz"), decode("vectors.safetensors", "exact.nii.gz"));
}

#[test]
fn a_stage_that_died_before_its_first_checkpoint_is_begun_again() {
    let (place, file) = Place::with("latent", LATENT);
    place.train("runs/tiny", &[]);
    fs::remove_dir_all(place.path("runs/tiny/checkpoints")).unwrap();
    fs::remove_file(place.path("runs/tiny/weights.safetensors")).unwrap();
    let printed = place.succeed(&["train", &file, "--with-stages"]);
    assert!(printed.contains("the first stage, runs/tiny/config.yaml, in runs/tiny"), "{printed}");
    assert!(printed.contains("no checkpoint yet: starting from the beginning"), "{printed}");
}

#[test]
fn a_stage_before_the_last_one_does_not_step_down_where_none_is_to() {
    let (place, file) = Place::with("latent", LATENT);
    let large = TINY.replace("[16, 16, 16]", "[32, 32, 32]").replace("patch_size: 8", "patch_size: 32");
    fs::write(place.path("tiny.yaml"), format!("{large}device: {{memory_limit: 6 MiB}}\n")).unwrap();
    let ended = place.run(&["train", &file, "--with-stages", "--on-oom", "fail"]);
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let text = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["out of memory in the forward pass of step 0", "--on-oom step-down"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    assert!(!ended.stdout.contains("going on from step 0"), "{ended:?}");
}

/// Three stages by one command, each by the file of its name: an autoencoder, a teacher, a consistency model.
#[test]
fn a_consistency_model_is_trained_after_its_teacher_and_sampled() {
    let training = "{batch_size: 2, max_steps: 2, visualize_interval: 0}";
    let latent = LATENT.split("  training:").next().unwrap();
    let student = format!("{latent}  consistency: {{teacher: runs/teacher}}\n  training: {training}\n");
    let (place, file) = Place::with("student", &student);
    let teacher = format!("{latent}  scheduler: {{name: edm}}\n  training: {training}\n");
    fs::write(place.path("teacher.yaml"), teacher).unwrap();
    let plan = place.succeed(&["plan", &file]);
    assert!(
        plan.contains("frozen weights") && plan.contains("average of weights"),
        "planned without a teacher: {plan}"
    );
    let printed = place.succeed(&["train", &file, "--with-stages"]);
    for part in
        ["the first stage, tiny.yaml, in runs/tiny", "the teacher, teacher.yaml, in runs/teacher", "target network"]
    {
        assert!(printed.contains(part), "{part} in {printed}");
    }
    let weights = "runs/student/weights.safetensors";
    for (out, more) in
        [("default", &[][..]), ("one", &["--steps", "1"]), ("two", &["--steps", "2", "--method", "multistep"])]
    {
        place.succeed(&[&["sample", weights, "--out", out], more].concat());
    }
    let [default, one, two] = ["default", "one", "two"].map(|out| place.volume(&format!("{out}/sample-0000.nii.gz")));
    assert!(default.data() == one.data() && one.data() != two.data(), "one step where nothing is said");
    let ended = place.run(&["sample", weights, "--out", "new", "--method", "ddim"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("multistep, heun, euler, euler_ancestral"), "{ended:?}");
}
