//! Whatever is wrong with the input: a clear message, the right exit code, and nothing half-written.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use crate::common::{Ended, Place, smooth};

/// A command that must fail.
struct Case {
    arguments: Vec<String>,
    code: i32,
    /// What the message must say: what is wrong, what was expected and found, what to do.
    says: &'static [&'static str],
}

/// A case from a command line; arguments have no blanks.
fn case(line: &str, code: i32, says: &'static [&'static str]) -> Case {
    Case { arguments: line.split(' ').map(str::to_string).collect(), code, says }
}

/// Training with settings that must be rejected.
fn setting(settings: &[&str], says: &'static [&'static str]) -> Case {
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let arguments = ["train", "tiny.yaml", "--out", "new"].into_iter().chain(settings);
    Case { arguments: arguments.map(str::to_string).collect(), code: 2, says }
}

/// Training on a file that must be rejected.
fn data(path: &str, says: &'static [&'static str]) -> Case {
    setting(&["data.phantom=null", &format!("data.paths=[{path}]")], says)
}

/// Runs all cases in one folder, in which none may change anything.
#[track_caller]
fn reject_all(place: &Place, cases: &[Case]) {
    let before = place.contents();
    let mut faults = Vec::new();
    for Case { arguments, code, says } in cases {
        let ended = place.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        let mut fault = |what: String| faults.push(format!("{}\n  {what}\n{}", arguments.join(" "), ended.stderr));
        if ended.code != Some(*code) {
            fault(format!("ended with {:?}, expected {code}", ended.code));
        }
        for said in says.iter().filter(|said| !ended.stderr.contains(**said)) {
            fault(format!("does not say {said:?}"));
        }
        if ended.stderr.contains("panicked") {
            fault("panicked".into());
        }
        if place.contents() != before {
            fault("left something behind".into());
            break;
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn configurations() {
    let place = Place::new();
    fs::create_dir_all(place.path("folder/inner")).unwrap();
    fs::write(place.path("folder/config.yaml"), "").unwrap();
    fs::write(place.path("empty.yaml"), "").unwrap();
    fs::write(place.path("binary.yaml"), b"seed: 1\n\xff\xfe\x00\x01").unwrap();
    fs::write(place.path("open.yaml"), "data: {paths: [a\n").unwrap();
    fs::write(place.path("there.yaml"), "mine").unwrap();
    let training = |setting: &str| format!("autoencoder.training.{setting}");
    reject_all(
        &place,
        &[
            case("train none.yaml", 2, &["none.yaml", "a readable file", "No such file", "check the path"]),
            case("train folder", 2, &["a file, found a folder", "name folder/config.yaml", "--out folder --resume"]),
            case("train folder/inner", 2, &["a file, found a folder", "name the configuration in it"]),
            case(
                "train empty.yaml",
                2,
                &["empty.yaml", "autoencoder.num_channels", "missing key", "add `num_channels:`"],
            ),
            case("train binary.yaml", 2, &["binary.yaml", "UTF-8", "line 2"]),
            case("train open.yaml", 2, &["open.yaml:", "invalid YAML"]),
            case("init nonsense", 2, &["RECIPE", "mni152-autoencoder", "found nonsense", "leanburn recipes"]),
            case("init autoencoder-24gb --out there.yaml", 2, &["there.yaml", "a new file", "--force"]),
            case("init autoencoder-24gb --out none/new.yaml", 2, &["none/new.yaml", "make the folder"]),
            setting(&["autoencoder.training.batchsize=2"], &["batchsize", "unknown key", "batch_size"]),
            setting(&["seed"], &["--set seed", "no `=`", "section.key=value"]),
            setting(&["data.patch_size=[8,8]"], &["data.patch_size", "list of 3", "--set data.patch_size=[8,8]"]),
            setting(&["data.patch_size=9"], &["data.patch_size", "multiples of 2", "[9, 9, 9]", "use [10, 10, 10]"]),
            setting(&["data.voxel_size=16", "data.spacing=1.0"], &["data.spacing", "`voxel_size`", "both", "drop one"]),
            setting(&["autoencoder.norm_num_groups=3"], &["norm_num_groups", "[4, 8]", "set `norm_num_groups` to 4"]),
            setting(&["autoencoder.out_channels=2"], &["tiny.yaml", "autoencoder.out_channels", "in_channels is 1"]),
            setting(
                &[&training("recompute=[nothing.*]")],
                &["tiny.yaml", "training.recompute", "`nothing.*`, which names no segment", "encoder."],
            ),
            setting(
                &[&training("recompute=[discriminator.nothing]")],
                &["training.recompute", "`discriminator.nothing`, which names no segment", "discriminator.layer_0"],
            ),
            setting(&[&training("learning_rate=3")], &["learning rate 3", "at most 1"]),
            setting(
                &[&training("discriminator.num_layers_d=3")],
                &["training.discriminator", "at least 24 voxels", "found [8, 8, 8]", "num_layers_d"],
            ),
            setting(
                &[&training("discriminator.num_scales=5"), &training("discriminator.num_layers_d=4")],
                &["tiny.yaml", "num_scales", "at most 16 layers at the last scale, found 20 layers"],
            ),
            case("train tiny.yaml --device vulcan", 2, &["device `vulcan`", "did you mean `vulkan`"]),
            case("train tiny.yaml --device flex:3", 2, &["device `flex:3`", "one device", "write `flex`"]),
            case("train tiny.yaml --max-steps x", 2, &["invalid value 'x'", "--max-steps"]),
            case("train", 2, &["<CONFIG>", "--help"]),
            case("trane tiny.yaml", 2, &["trane", "train"]),
        ],
    );
    #[cfg(not(feature = "cuda"))]
    reject_all(
        &place,
        &[case("train tiny.yaml --device cuda", 2, &["device `cuda`", "--features cuda", "--device flex"])],
    );
}

#[test]
fn ten_errors_are_reported_at_once() {
    let place = Place::new();
    let text = "\
sed: 7
data:
  phantom: {count: 0}
  val_fraction: 1.5
  cache_rate: lots
  patch_size: [8, 8]
autoencoder:
  num_channels: [4, x]
  latent_channels: -3
  training:
    batch_size: 1.5
    max_steps: 0
    betas: [0.9]
    optimiser: adam
";
    fs::write(place.path("ten.yaml"), text).unwrap();
    let lines = [1, 3, 4, 5, 6, 8, 9, 11, 12, 13, 14];
    let ended = place.run(&["train", "ten.yaml"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains(&format!("{} errors in ten.yaml", lines.len())), "{}", ended.stderr);
    for line in lines {
        assert!(ended.stderr.contains(&format!("ten.yaml:{line}:")), "line {line} of\n{}", ended.stderr);
    }
    assert!(ended.stderr.contains("did you mean `seed`") || ended.stderr.contains("`seed`"), "{}", ended.stderr);
}

/// A NIfTI file of ours with some bytes of its header replaced.
fn nifti_with(place: &Place, name: &str, offset: usize, bytes: &[u8]) {
    let path = place.path(name);
    smooth([1, 8, 8, 8], 0.0, 1.0).write(&path).unwrap();
    let mut file = fs::read(&path).unwrap();
    file[offset..offset + bytes.len()].copy_from_slice(bytes);
    fs::write(path, file).unwrap();
}

/// A .npy file with this shape in its header and four bytes of values.
fn numpy_that_claims(place: &Place, name: &str, shape: &str) {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n");
    let length = (header.len() as u16).to_le_bytes();
    fs::write(place.path(name), [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes(), &[0; 4]].concat()).unwrap();
}

fn make_broken_volumes(place: &Place) {
    smooth([1, 16, 16, 16], 0.0, 1.0).write(place.path("whole.nii.gz")).unwrap();
    let whole = place.bytes("whole.nii.gz");
    fs::write(place.path("cut.nii.gz"), &whole[..whole.len() / 2]).unwrap();
    nifti_with(place, "magic.nii", 344, b"nope");
    nifti_with(place, "nan.nii", 352 + 4 * 10, &f32::NAN.to_le_bytes());
    nifti_with(place, "zero.nii", 44, &0_i16.to_le_bytes());
    nifti_with(place, "negative.nii", 44, &(-5_i16).to_le_bytes());
    nifti_with(place, "five.nii", 40, &5_i16.to_le_bytes());
    nifti_with(place, "colour.nii", 70, &128_i16.to_le_bytes());
    nifti_with(place, "long.nii", 42, &i16::MAX.to_le_bytes());
    numpy_that_claims(place, "huge.npy", "(1048576, 1048576, 1048576)");
    numpy_that_claims(place, "overflow.npy", "(4294967296, 4294967296, 4294967296)");
    numpy_that_claims(place, "short.npy", "(8, 8, 8)");
    numpy_that_claims(place, "zero.npy", "(8, 0, 8)");
    fs::write(place.path("text.npy"), "not an array").unwrap();
    fs::write(place.path("empty.safetensors"), "").unwrap();
    fs::write(place.path("header.safetensors"), [u64::MAX.to_le_bytes(), [0; 8]].concat()).unwrap();
    fs::write(place.path("notes.txt"), "no volume").unwrap();
    fs::create_dir(place.path("notes")).unwrap();
    fs::write(place.path("notes/notes.txt"), "no volume").unwrap();
    fs::create_dir(place.path("mixed")).unwrap();
    smooth([1, 16, 16, 16], 0.0, 1.0).write(place.path("mixed/one.nii.gz")).unwrap();
    smooth([2, 16, 16, 16], 0.0, 1.0).write(place.path("mixed/two.nii.gz")).unwrap();
    smooth([3, 16, 16, 16], 0.0, 1.0).write(place.path("three.npy")).unwrap();
    smooth([1, 9, 16, 16], 0.0, 1.0).write(place.path("odd.npy")).unwrap();
}

#[test]
fn volumes_to_train_on() {
    let place = Place::new();
    make_broken_volumes(&place);
    reject_all(
        &place,
        &[
            data("none.nii.gz", &["none.nii.gz", "not found", "Check the path"]),
            data("notes", &["notes", "no volume in this folder", ".nii.gz"]),
            data("notes.txt", &["notes.txt", "unknown kind of file", ".nii.gz"]),
            data("cut.nii.gz", &["cut.nii.gz", "a whole file", "cut short or damaged", "again"]),
            data("magic.nii", &["magic.nii", "magic", "nope", "Export"]),
            data("nan.nii", &["nan.nii", "finite", "NaN", "voxel [", "Mask or replace"]),
            data("zero.nii", &["zero.nii", "1 to 32767 voxels along axis 2", "found 0"]),
            data("negative.nii", &["negative.nii", "1 to 32767 voxels along axis 2", "found -5"]),
            data("five.nii", &["five.nii", "3 or 4 axes", "found 5"]),
            data("colour.nii", &["colour.nii", "data type 128", "Convert"]),
            data("long.nii", &["long.nii", "bytes of voxels", "again"]),
            data("huge.npy", &["no memory", "1152921504606846976 values", "smaller"]),
            data("overflow.npy", &["no memory", "too many values"]),
            data("short.npy", &["short.npy", "2048 bytes of values", "Save the array again"]),
            data("zero.npy", &["zero.npy", "at least one voxel", "[1, 8, 0, 8]"]),
            data("text.npy", &["text.npy", "NUMPY", "not an", "Save the array again"]),
            data(
                "empty.safetensors",
                &["empty.safetensors", "a whole .safetensors file", "Save the file again with safetensors"],
            ),
            data("header.safetensors", &["header.safetensors", "a whole .safetensors file"]),
            data("mixed", &["two.nii.gz", "1 channels, as in mixed/one.nii.gz", "found shape [2,"]),
            data("three.npy", &["three.npy", "3 channels", "takes 1", "in_channels"]),
            setting(
                &["data.phantom=null", "data.paths=[odd.npy]", "data.patch_size=null", "data.val_fraction=0"],
                &["odd.npy", "[9, 16, 16]", "multiples of [2, 2, 2]", "[10, 16, 16]", "data.voxel_size"],
            ),
        ],
    );
}

#[test]
fn models_and_volumes_to_use() {
    let place = Place::new();
    place.train("run", &[]);
    make_broken_volumes(&place);
    let weights = place.bytes("run/weights.safetensors");
    place.copy("run", "cut");
    fs::write(place.path("cut/weights.safetensors"), &weights[..weights.len() / 2]).unwrap();
    fs::write(place.path("cut/header.safetensors"), [u64::MAX.to_le_bytes(), [0; 8]].concat()).unwrap();
    fs::write(place.path("cut/noise.pt"), [7; 500]).unwrap();
    fs::create_dir_all(place.path("alone")).unwrap();
    fs::write(place.path("alone/weights.safetensors"), &weights).unwrap();
    fs::write(place.path("other.yaml"), crate::common::TINY.replace("[4, 8]", "[8, 8]")).unwrap();
    fs::write(place.path("old.nii.gz"), "an older result").unwrap();
    fs::create_dir(place.path("folder.nii")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("run/config.yaml", place.path("configuration.nii")).unwrap();
    let weights_of =
        |what: &'static str, code: i32, says| case(&format!("reconstruct {what} old.nii.gz --force"), code, says);
    let output = |out: &str, says| case(&format!("reconstruct run/weights.safetensors whole.nii.gz {out}"), 2, says);
    let input = |command: &str, volume: &str, says| {
        case(&format!("{command} run/weights.safetensors {volume} old.nii.gz --force"), 2, says)
    };
    reject_all(
        &place,
        &[
            weights_of(
                "run/none.safetensors whole.nii.gz",
                2,
                &["run/none.safetensors", "no such file", "check the path"],
            ),
            weights_of("cut/weights.safetensors whole.nii.gz", 2, &["cut/weights.safetensors", "state dict"]),
            weights_of("cut/header.safetensors whole.nii.gz", 2, &["cut/header.safetensors", "state dict"]),
            weights_of("cut/noise.pt whole.nii.gz", 2, &["cut/noise.pt", "state dict"]),
            weights_of("run/metrics.jsonl whole.nii.gz", 2, &["run/metrics.jsonl", ".safetensors", "jsonl"]),
            weights_of(
                "run/discriminator.safetensors whole.nii.gz",
                2,
                &["discriminator.safetensors", "missing: encoder"],
            ),
            weights_of(
                "alone/weights.safetensors whole.nii.gz",
                2,
                &["alone/config.yaml", "give the configuration with --config"],
            ),
            weights_of(
                "run/weights.safetensors whole.nii.gz --config other.yaml",
                2,
                &["run/weights.safetensors", "not those of this model", "the model has [8,", "configuration"],
            ),
            weights_of("run/weights.safetensors whole.nii.gz --config none.yaml", 2, &["none.yaml", "a readable file"]),
            weights_of(
                "run/weights.safetensors whole.nii.gz --device tpu",
                2,
                &["device `tpu`", "there are best, cuda"],
            ),
            output("out.txt", &["out.txt", "unknown kind of file", ".nii.gz"]),
            output("none/out.nii", &["none/out.nii", "a folder that may be written to", "make the folder"]),
            output("run/metrics.jsonl/out.nii", &["run/metrics.jsonl/out.nii", "a folder that may be written to"]),
            output("folder.nii", &["folder.nii", "found a folder", "another file"]),
            #[cfg(target_os = "linux")]
            output("/proc/out.nii", &["/proc/out.nii", "a folder that may be written to"]),
            output("old.nii.gz", &["old.nii.gz", "a new file", "already", "--force"]),
            case("reconstruct none.safetensors none.nii old.nii.gz", 2, &["old.nii.gz", "a new file"]), // before work
            output("./whole.nii.gz", &["./whole.nii.gz", "found an input", "another file"]),
            output("whole.nii.gz --force", &["whole.nii.gz", "found an input"]),
            #[cfg(unix)]
            output("configuration.nii --force", &["configuration.nii", "found an input"]),
            output("run/weights.safetensors", &["run/weights.safetensors", "found an input", "another file"]),
            input("reconstruct", "none.nii", &["none.nii", "not found"]),
            input("reconstruct", "cut.nii.gz", &["cut.nii.gz", "cut short or damaged"]),
            input("reconstruct", "three.npy", &["three.npy", "1 channels", "found 3"]),
            input("encode", "three.npy", &["three.npy", "1 channels", "found 3"]),
            input("encode", "nan.nii", &["nan.nii", "finite"]),
            input("decode", "whole.nii.gz", &["whole.nii.gz", "3 channels", "found 1"]),
            input("reconstruct", "whole.nii.gz --patch 0", &["--patch", "sizes of at least 1", "[0]"]),
            input("reconstruct", "whole.nii.gz --patch 8,8", &["--patch", "one for each", "[8, 8]"]),
            input("reconstruct", "whole.nii.gz --patch -8", &["-8"]),
            input("reconstruct", "whole.nii.gz --patch 8 --overlap 1.5", &["--overlap 1.5", "below 1"]),
            input("reconstruct", "whole.nii.gz --patch 8 --overlap NaN", &["--overlap NaN", "below 1"]),
            input("reconstruct", "whole.nii.gz --overlap 0.5", &["--patch"]),
        ],
    );
}

#[test]
fn run_folders() {
    let place = Place::new();
    place.train("run", &["--max-steps", "2"]);
    fs::write(place.path("file"), "").unwrap();
    fs::create_dir(place.path("mine")).unwrap();
    fs::write(place.path("mine/weights.safetensors"), "of somebody else").unwrap();
    let copy_without = |name: &str, lost: &[&str]| {
        place.copy("run", name);
        lost.iter().for_each(|file| fs::remove_file(place.path(&format!("{name}/{file}"))).unwrap());
    };
    copy_without("nameless", &["config.yaml"]);
    copy_without("strange", &[]);
    fs::write(place.path("strange/config.yaml"), b"\xff\xfe").unwrap();
    copy_without("flipped", &[]);
    let part = "checkpoints/step-00000002/autoencoder.weights.bpk";
    let mut bytes = place.bytes(&format!("flipped/{part}"));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(place.path(&format!("flipped/{part}")), bytes).unwrap();
    copy_without("lost", &[part]);
    copy_without("torn", &[]);
    let metrics = place.text("torn/metrics.jsonl").replacen('}', "", 1);
    fs::write(place.path("torn/metrics.jsonl"), metrics).unwrap();
    let resume = |run: &str, code, says| case(&format!("train tiny.yaml --resume --out {run}"), code, says);
    let fresh = |run: &str, says| case(&format!("train tiny.yaml --out {run}"), 2, says);
    reject_all(
        &place,
        &[
            fresh("run", &["run", "there is a run in it already", "--resume", "--out"]),
            fresh("nameless", &["nameless", "there is a run in it already"]),
            fresh("file", &["file: ", "choose another folder"]),
            fresh("mine", &["no run in it, but a weights.safetensors", "choose another folder"]),
            resume("mine", 2, &["no run in it, but a weights.safetensors", "choose another folder"]),
            fresh("file/run", &["file/run", "choose another folder"]),
            #[cfg(target_os = "linux")]
            fresh("/proc/run", &["/proc/run", "choose another folder"]),
            resume(
                "run --set autoencoder.num_channels=[4,16]",
                2,
                &["`autoencoder.num_channels` is [4,8]", "[4,16]", "--out"],
            ),
            resume(
                "run --set data.patch_size=16 --set seed=8",
                2,
                &["`data.patch_size`", "; `seed` is 7 in its run, and 8"],
            ),
            resume("strange", 2, &["strange", "config.yaml", "UTF-8"]),
            resume("flipped", 1, &["flipped/checkpoints/step-00000002/autoencoder.weights.bpk", "go on from another"]),
            resume(
                "lost",
                1,
                &["lost/checkpoints/step-00000002/autoencoder.weights.bpk", "no checkpoint before it is whole"],
            ),
            case("train tiny.yaml --out new --from none.pt", 2, &["none.pt: expected weights", "found nothing"]),
            resume(
                "run --resume-from none",
                2,
                &["none: expected a checkpoint of this run: run/checkpoints/step-00000002"],
            ),
        ],
    );
    let ended = place.run(&["train", "tiny.yaml", "--resume", "--out", "torn"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("torn/metrics.jsonl, line 1") && ended.stderr.contains("mend"), "{}", ended.stderr);
}

/// Whatever an output would destroy, with `--force` too.
#[cfg(unix)]
#[test]
fn outputs_of_plans() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let (place, outside) = (Place::new(), tempfile::tempdir().unwrap());
    smooth([1, 16, 16, 16], 0.0, 1.0).write(place.path("scan.nii")).unwrap();
    fs::write(place.path("old.html"), "mine").unwrap();
    fs::create_dir(place.path("folder")).unwrap();
    symlink("tiny.yaml", place.path("link.yaml")).unwrap();
    fs::hard_link(place.path("tiny.yaml"), place.path("hard.yaml")).unwrap();
    let input: &[&str] = &["found an input", "name another file"];
    let mut cases = Vec::new();
    for line in ["plan tiny.yaml --page", "plan tiny.yaml --trace", "fit tiny.yaml --budget 1GiB --out"] {
        let mut output = |path: &str, says| cases.push(case(&format!("{line} {path}"), 2, says));
        output("old.html", &["old.html", "a new file", "already", "--force"]);
        output("link.yaml", input);
        for path in ["tiny.yaml", "./folder/../tiny.yaml", "link.yaml", "hard.yaml"] {
            output(&format!("{path} --force"), input);
        }
        output("scan.nii --force --set data.phantom=null --set data.paths=[scan.nii]", input);
        output("folder --force", &["found a folder", "name another file"]);
        output("none/new", &["none/new", "make the folder"]);
    }
    cases.push(case("plan tiny.yaml --page new --trace ./folder/../new", 2, &["--trace", "the file of --page"]));
    // not in the folder: it is read to see what has changed
    for (tool, arguments, says) in [("mkfifo", "", "found a pipe"), ("mknod", "c 1 7", "found a device")] {
        let path = outside.path().join(tool);
        let made = Command::new(tool).arg(&path).args(arguments.split_whitespace()).output();
        if !made.is_ok_and(|output| output.status.success()) {
            println!("skipped: no {tool} here");
            continue;
        }
        let ended = place.run(&["plan", "tiny.yaml", "--force", "--page", path.to_str().unwrap()]);
        assert!(ended.code == Some(2) && ended.stderr.contains(says), "{ended:?}");
        let kind = fs::symlink_metadata(&path).unwrap().file_type();
        assert!(kind.is_fifo() || kind.is_char_device(), "{tool}: it is replaced");
    }
    reject_all(&place, &cases);
    assert!(place.path("link.yaml").is_symlink());
}

/// A file system of a few pages; `None` where none can be mounted.
struct Disk<'a>(&'a Path);

impl<'a> Disk<'a> {
    fn mount(folder: &'a Path, kibibytes: u32) -> Option<Self> {
        fs::create_dir_all(folder).unwrap();
        let options = format!("size={kibibytes}k");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "none"]).arg(folder).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self(folder))
    }

    fn grow(&self) {
        let status = Command::new("mount").args(["-o", "remount,size=64m"]).arg(self.0).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

fn assert_sound_failure(ended: &Ended, what: &str) {
    assert!(matches!(ended.code, Some(1 | 2)), "{what}: {ended:?}");
    assert!(!ended.stderr.contains("panicked"), "{what}: {}", ended.stderr);
    let says = |part: &str| ended.stderr.contains(part);
    assert!(says("space") && says("disk/run"), "{what}: {}", ended.stderr);
}

#[test]
fn a_full_disk_stops_a_run_that_can_go_on_later() {
    let place = Place::new();
    place.train("straight", &[]);
    let mount = place.path("disk");
    for kibibytes in [4, 8, 16, 24, 40, 64, 96, 128, 192, 256, 384, 512] {
        let Some(disk) = Disk::mount(&mount, kibibytes) else {
            println!("skipped: no file system can be mounted here");
            return;
        };
        let what = format!("{kibibytes} KiB");
        let ended = place.run(&["train", "tiny.yaml", "--out", "disk/run"]);
        assert_sound_failure(&ended, &what);
        let has_run = place.path("disk/run/config.yaml").exists();
        assert_eq!(ended.code, Some(if has_run { 1 } else { 2 }), "{what}: {}", ended.stderr);
        for (path, _) in place.contents() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_unfinished = name != ".lock" && (name.starts_with('.') || name.contains("tmp"));
            assert!(!is_unfinished, "{what}: {} is left behind", path.display());
            assert!(!name.starts_with("step-") || !path.is_dir() || path.join("manifest.json").is_file());
        }
        if place.path("disk/run/metrics.jsonl").exists() {
            place.metrics("disk/run"); // every line is whole
        }
        disk.grow();
        place.succeed(&["train", "tiny.yaml", "--out", "disk/run", "--resume"]);
        let steps = |run: &str| place.metrics(run).iter().map(|record| record["step"].clone()).collect::<Vec<_>>();
        assert_eq!(steps("disk/run"), steps("straight"), "{what}");
        assert!(place.bytes("disk/run/weights.safetensors") == place.bytes("straight/weights.safetensors"), "{what}");
    }
}

#[test]
fn a_full_disk_leaves_an_older_result() {
    let place = Place::new();
    place.train("run", &[]);
    smooth([1, 32, 32, 32], 0.0, 1.0).write(place.path("in.npy")).unwrap();
    let mount = place.path("disk");
    let Some(_disk) = Disk::mount(&mount, 64) else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    for out in ["disk/out.nii", "disk/out.nii.gz", "disk/out.npy", "disk/out.safetensors"] {
        fs::write(place.path(out), "older").unwrap();
        let ended = place.run(&["reconstruct", "run/weights.safetensors", "in.npy", out, "--force"]);
        assert_eq!(ended.code, Some(1), "{out}: {}", ended.stderr);
        assert!(ended.stderr.contains(out) && ended.stderr.contains("free space"), "{}", ended.stderr);
        assert_eq!(place.text(out), "older");
        assert_eq!(fs::read_dir(&mount).unwrap().count(), 1, "{out}: something is left behind");
        fs::remove_file(place.path(out)).unwrap();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_told() {
    let place = Place::new();
    for arguments in [&["recipes"][..], &["devices"], &["train", "tiny.yaml", "--out", "run"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = place.command(arguments).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains("cannot write standard output") && stderr.contains("No space left"), "{stderr}");
    }
    assert_eq!(place.metrics("run").last().unwrap()["step"], 4, "the run itself is whole");
    assert!(place.path("run/report.html").is_file());
}
