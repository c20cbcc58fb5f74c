//! What commands do with volumes, and the command itself, on phantoms.

use std::fs;
use std::process::Stdio;

use crate::common::{Ended, Place, placed, smooth};

/// Right to left, back to front and the axes in another order, with oblique entries no f32 rounds.
const TURNED: leanburn_data::Affine =
    [[0.0, 0.25, -1.5, 30.5], [-2.0, 0.0, 0.0, -12.25], [0.0, 1.25, 0.25, 7.0], [0.0, 0.0, 0.0, 1.0]];

fn largest_difference(one: &[f32], other: &[f32]) -> f32 {
    assert_eq!(one.len(), other.len());
    one.iter().zip(other).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn a_reconstruction_lies_where_its_volume_lies_and_is_in_its_units() {
    let place = Place::new();
    let settings = ["--set", "data.normalize=min_max"];
    place.train("whole", &settings);
    place.train("resized", &[&settings[..], &["--set", "data.voxel_size=16"]].concat());
    let (low, high) = (-300.0, 1700.0);
    placed([1, 13, 11, 15], low, high, TURNED).write(place.path("in.nii.gz")).unwrap();
    placed([1, 13, 11, 15], low, high, TURNED).write(place.path("in.nii")).unwrap();
    for run in ["whole", "resized"] {
        let printed =
            place.succeed(&["reconstruct", &format!("{run}/weights.safetensors"), "in.nii.gz", "out.nii", "--force"]);
        let (input, output) = (place.bytes("in.nii"), place.bytes("out.nii"));
        assert_eq!(input[..352], output[..352], "the header, affine and shape in it, is the volume's");
        assert_eq!(input.len(), output.len());
        if run == "resized" {
            continue; // what is printed is measured on the model's grid
        }
        let (input, output) = (place.volume("in.nii"), place.volume("out.nii"));
        let pairs = input.data().iter().zip(output.data());
        let l1 = pairs.map(|(a, b)| f64::from((a - b).abs())).sum::<f64>() / input.data().len() as f64;
        let said = printed.split("difference ").nth(1).and_then(|rest| rest.split(' ').next()).unwrap();
        let said: f64 = said.parse().unwrap();
        let range =
            input.data().iter().fold(f32::MIN, |a, &b| a.max(b)) - input.data().iter().fold(f32::MAX, |a, &b| a.min(b));
        assert!((l1 / f64::from(range) - said).abs() < 1e-4, "{l1} of {range} is not {said}");
        assert!(said > 0.01, "four steps do not make a perfect model");
    }
}

#[test]
fn decoding_what_was_encoded_is_reconstructing() {
    let place = Place::new();
    place.train("run", &["--set", "data.normalize=none"]);
    placed([1, 12, 8, 16], 0.0, 1.0, TURNED).write(place.path("in.safetensors")).unwrap();
    let weights = "run/weights.safetensors";
    place.succeed(&["reconstruct", weights, "in.safetensors", "direct.safetensors"]);
    let printed = place.succeed(&["encode", weights, "in.safetensors", "latent.safetensors"]);
    assert!(printed.contains("latent 3 x 6 x 4 x 8"), "{printed}");
    place.succeed(&["decode", weights, "latent.safetensors", "decoded.safetensors"]);
    let [direct, decoded] = ["direct.safetensors", "decoded.safetensors"].map(|name| place.volume(name));
    assert_eq!(direct.shape(), [1, 12, 8, 16]);
    assert!(largest_difference(direct.data(), decoded.data()) < 1e-5);
    assert_eq!(decoded.affine(), place.volume("in.safetensors").affine());
    let latent = place.volume("latent.safetensors");
    assert_eq!(latent.spacing().map(|size| size / 2.0), direct.spacing());
}

/// The part of a cube of `side` voxels that begins at `start` and is half as long.
fn octant(data: &[f32], side: usize, start: [usize; 3]) -> Vec<f32> {
    let half = side / 2;
    let rows = (0..half).flat_map(|x| (0..half).map(move |y| ((start[0] + x) * side + start[1] + y) * side + start[2]));
    rows.flat_map(|row| data[row..row + half].to_vec()).collect()
}

#[test]
fn a_sliding_window_covers_the_volume() {
    let place = Place::new();
    place.train("run", &["--set", "data.normalize=none"]);
    let volume = smooth([1, 16, 16, 16], 0.0, 1.0);
    volume.write(place.path("in.npy")).unwrap();
    smooth([1, 13, 11, 15], 0.0, 1.0).write(place.path("odd.npy")).unwrap();
    let reconstruct = |name: &str, more: &[&str]| {
        place.succeed(&[&["reconstruct", "run/weights.safetensors", name, "out.npy", "--force"], more].concat());
        place.volume("out.npy")
    };
    let patches = reconstruct("in.npy", &["--patch", "8", "--overlap", "0"]);
    for start in (0..8).map(|at| [at / 4 * 8, at / 2 % 2 * 8, at % 2 * 8]) {
        let part = volume_of(octant(volume.data(), 16, start), 8);
        part.write(place.path("part.npy")).unwrap();
        let alone = reconstruct("part.npy", &[]);
        assert!(largest_difference(alone.data(), &octant(patches.data(), 16, start)) < 1e-5, "{start:?}");
    }
    let whole = reconstruct("odd.npy", &[]);
    let one = reconstruct("odd.npy", &["--patch", "99"]);
    assert!(largest_difference(whole.data(), one.data()) < 1e-5, "one patch that holds all is the whole");
    for patch in [&["--patch", "8"][..], &["--patch", "8,6,4", "--overlap", "0.5"], &["--patch", "3"]] {
        let patches = reconstruct("odd.npy", patch);
        assert_eq!(patches.shape(), whole.shape());
        assert!(patches.data() != whole.data(), "{patch:?} are smaller than the volume");
    }
}

fn volume_of(data: Vec<f32>, side: usize) -> leanburn_data::Volume {
    smooth([1, side, side, side], 0.0, 1.0).with_data(data, 1).unwrap()
}

#[test]
fn folders_go_in_and_out_and_a_batch_that_stopped_goes_on() {
    let place = Place::new();
    place.train("run", &["--max-steps", "1", "--set", "data.normalize=none"]);
    fs::create_dir_all(place.path("scans/inner")).unwrap();
    let volume = smooth([1, 8, 8, 8], 0.0, 1.0);
    for name in ["scans/a.nii", "scans/inner/b.npy", "scans/0.nii", "a.npy"] {
        volume.write(place.path(name)).unwrap();
    }
    let whole = place.bytes("scans/0.nii");
    fs::write(place.path("scans/0.nii"), &whole[..500]).unwrap();
    fs::write(place.path("scans/notes.txt"), "mine").unwrap();
    let run =
        |command: &str, arguments: &[&str]| place.run(&[&[command, "run/weights.safetensors"], arguments].concat());

    let rejected = [
        (&["scans/a.nii", "a.npy", "new/inner"][..], "found scans/a.nii and a.npy", "encode"),
        (&["scans", "scans", "--skip-existing"], "found an input", "reconstruct"),
        (&["scans", "run/config.yaml"], "a folder that may be written to", "reconstruct"),
        (&["scans", "none", "new"], "none", "reconstruct"),
        (&["scans"], "expected WEIGHTS INPUT... OUT", "decode"),
    ];
    let before = place.contents();
    for (arguments, says, command) in rejected {
        let ended = run(command, arguments);
        assert!(ended.code == Some(2) && ended.stderr.contains(says), "{arguments:?}: {ended:?}");
        assert!(place.contents() == before, "{arguments:?} left something behind");
    }

    let ended = run("reconstruct", &["scans", "out/first"]);
    assert!(ended.code != Some(0) && ended.stderr.contains("scans/0.nii"), "one that is damaged: {ended:?}");
    place.succeed(&["reconstruct", "run/weights.safetensors", "scans/a.nii", "alone.nii"]);
    assert!(
        place.bytes("out/first/a.nii") == place.bytes("alone.nii") && place.path("out/first/inner/b.npy").is_file()
    );
    fs::write(place.path("scans/0.nii"), whole).unwrap();
    let ended = run("reconstruct", &["scans", "out/first"]);
    assert!(ended.code == Some(2) && ended.stderr.contains("a.nii: expected a new file"), "{ended:?}");
    assert!(!place.path("out/first/0.nii").exists(), "checked before anything is computed");
    let ended = run("reconstruct", &["scans", "out/first", "--skip-existing"]);
    assert!(ended.code == Some(0) && ended.stdout.contains("2 of 3 outputs are there already"), "{ended:?}");
    assert!(ended.stdout.contains("out/first/0.nii: mean") && !ended.stdout.contains("a.nii:"), "{ended:?}");

    place.succeed(&["encode", "run/weights.safetensors", "scans/a.nii", "scans/inner/b.npy", "latents"]);
    place.succeed(&["decode", "run/weights.safetensors", "latents", "decoded/"]);
    assert_eq!(place.volume("decoded/b.nii.gz").shape(), [1, 8, 8, 8]);
}

#[test]
fn the_folder_of_a_run_stands_for_its_weights() {
    let place = Place::new();
    place.train("run", &["--max-steps", "1"]);
    smooth([1, 8, 8, 8], 0.0, 1.0).write(place.path("in.npy")).unwrap();
    place.succeed(&["encode", "run", "in.npy", "of-run.safetensors"]);
    place.succeed(&["encode", "run/weights.safetensors", "in.npy", "of-file.safetensors"]);
    assert!(place.bytes("of-run.safetensors") == place.bytes("of-file.safetensors"));
    let rejected =
        [(["none", "new.safetensors"], "none/config.yaml"), (["run", "run/weights.safetensors"], "an input")];
    for ([weights, out], says) in rejected {
        let ended = place.run(&["encode", weights, "in.npy", out, "--force"]);
        assert!(ended.code == Some(2) && ended.stderr.contains(says), "{says} in {ended:?}");
    }
}

#[test]
fn a_model_computes_in_half_precision() {
    let place = Place::new();
    place.train("run", &["--set", "device.precision=bf16"]);
    smooth([1, 8, 8, 8], 0.0, 1.0).write(place.path("in.npy")).unwrap();
    place.succeed(&["reconstruct", "run/weights.safetensors", "in.npy", "half.npy"]);
    fs::write(place.path("f32.yaml"), crate::common::TINY).unwrap();
    place.succeed(&["reconstruct", "run/weights.safetensors", "in.npy", "full.npy", "--config", "f32.yaml"]);
    let difference = largest_difference(place.volume("half.npy").data(), place.volume("full.npy").data());
    assert!(difference > 0.0 && difference < 0.1, "{difference}");
}

/// An empty folder is enough for a run on a real volume.
#[test]
fn a_recipe_brings_its_sample() {
    let place = Place::new();
    let printed = place.succeed(&["init", "mni152-autoencoder"]);
    let volume = "data/mni152_2009a_t1_1mm.nii.gz";
    assert!(
        printed.contains(volume) && place.text("data/mni152_2009a_notice.md").contains("Copyright (C)"),
        "{printed}"
    );
    assert_eq!(place.volume(volume).shape(), [1, 197, 233, 189]);
    assert!(!place.path("data/mni152_2009a_gm_1mm.nii.gz").exists(), "the others are not asked for");
    let small = ["num_channels=[4,4,4]", "norm_num_groups=2", "training.visualize_interval=0"];
    let small = small.map(|setting| format!("autoencoder.{setting}"));
    let small: Vec<&str> = small.iter().flat_map(|setting| ["--set", setting]).collect();
    let train = ["train", "mni152-autoencoder.yaml", "--max-steps", "1", "--set", "data.val_patches=1"];
    place.succeed(&[&train[..], &small].concat());

    let again = place.succeed(&["init", "mni152-segmentation"]);
    assert!(!again.contains(volume) && again.contains("gm_1mm") && again.contains("wm_1mm"), "{again}");
    fs::write(place.path(volume), "mine").unwrap();
    let rejected = place.run(&["init", "mni152-autoencoder", "--out", "other.yaml"]);
    assert!(rejected.code == Some(2) && rejected.stderr.contains(volume), "{rejected:?}");
    assert_eq!((place.text(volume), place.path("other.yaml").exists()), ("mine".to_string(), false));
    place.succeed(&["init", "mni152-autoencoder", "--out", "other.yaml", "--force"]);
    assert_eq!(place.volume(volume).shape(), [1, 197, 233, 189]);
}

#[test]
fn the_command_explains_itself() {
    let place = Place::new();
    let recipes = place.succeed(&["recipes"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&place.succeed(&["recipes", "--json"])).unwrap();
    assert_eq!(listed.len(), leanburn_systems::recipes().len());
    for name in ["mni152-autoencoder", "autoencoder-24gb", "autoencoder-32gb", "autoencoder-40gb"] {
        assert!(recipes.contains(name));
        let printed = place.succeed(&["init", name]);
        assert!(printed.contains(&format!("leanburn train {name}.yaml")), "{printed}");
        let text = place.text(&format!("{name}.yaml"));
        assert!(listed.iter().any(|recipe| recipe["name"] == name && recipe["yaml"] == text));
        leanburn_systems::Config::parse(&text, name, &[]).unwrap();
        place.succeed(&["init", name, "--out", &format!("other-{name}.yaml")]);
        assert_eq!(place.text(&format!("other-{name}.yaml")), text);
    }
    let devices = place.succeed(&["devices"]);
    assert!(devices.contains("flex") && devices.contains("f32"), "{devices}");
    let instructions = |name| Ended::of(place.command(&["devices"]).env("LEANBURN_INSTRUCTIONS", name));
    assert!(instructions("plain").stdout.contains("threads, no vectors"));
    let unknown = instructions("mmx");
    assert_eq!(unknown.code, Some(2));
    assert!(unknown.stderr.contains("LEANBURN_INSTRUCTIONS: expected plain"), "{unknown:?}");
    assert!(unknown.stderr.contains("found mmx"), "{unknown:?}");
    let help = place.succeed(&["--help"]);
    for command in ["train", "reconstruct", "encode", "decode", "devices", "recipes", "init"] {
        assert!(help.contains(command));
        assert!(place.succeed(&[command, "--help"]).contains(&format!("Usage: leanburn {command}")));
    }
    assert!(place.succeed(&["--version"]).starts_with("leanburn "));
}

#[test]
fn an_output_that_is_there_is_replaced_by_force_alone() {
    let place = Place::new();
    let write = |arguments: &[&str], path: &str| {
        fs::write(place.path(path), "mine").unwrap();
        let ended = place.run(&[arguments, &[path]].concat());
        assert_eq!((ended.code, place.text(path).as_str()), (Some(2), "mine"), "{arguments:?}: {}", ended.stderr);
        place.succeed(&[arguments, &[path, "--force"]].concat());
        place.text(path)
    };
    assert!(write(&["plan", "tiny.yaml", "--page"], "plan.html").starts_with("<!doctype html>"));
    assert!(write(&["plan", "tiny.yaml", "--trace"], "plan.json").contains("traceEvents"));
    assert!(
        write(&["fit", "tiny.yaml", "--budget", "1GiB", "--out"], "fitted.yaml").starts_with("# tiny.yaml, fitted")
    );
    assert!(write(&["init", "vqvae", "--out"], "vqvae.yaml").contains("vqvae:"));
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_follows_links_and_keeps_permissions() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Place::new();
    fs::create_dir(place.path("pages")).unwrap();
    symlink("pages/plan.html", place.path("plan.html")).unwrap();
    let page = place.path("pages/plan.html");
    place.succeed(&["plan", "tiny.yaml", "--page", "plan.html"]); // a link to a file that is not there yet
    fs::write(&page, "mine").unwrap();
    fs::set_permissions(&page, fs::Permissions::from_mode(0o600)).unwrap();
    let ended = place.run(&["plan", "tiny.yaml", "--page", "plan.html"]);
    assert_eq!((ended.code, place.text("pages/plan.html").as_str()), (Some(2), "mine"), "{}", ended.stderr);
    place.succeed(&["plan", "tiny.yaml", "--page", "plan.html", "--force"]);
    assert!(place.text("pages/plan.html").starts_with("<!doctype html>") && place.path("plan.html").is_symlink());
    assert_eq!(fs::metadata(&page).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(place.path("pages")).unwrap().count(), 1, "nothing else is left");
}

#[test]
fn a_reader_that_goes_away_does_no_harm() {
    let place = Place::new();
    for arguments in [&["recipes"][..], &["train", "tiny.yaml", "--out", "run"]] {
        let mut command = place.command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(place.metrics("run").last().unwrap()["step"], 4);
}
