//! The real command in a folder of its own.

#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;
use std::fs;
#[cfg(target_os = "linux")]
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use leanburn_data::Volume;

/// The smallest configuration with everything in it: a fraction of a second for four steps.
pub const TINY: &str = "\
seed: 7
data:
  phantom: {count: 2, shape: [16, 16, 16], noise: 0.02}
  patch_size: 8
  num_workers: 1
autoencoder:
  num_channels: [4, 8]
  norm_num_groups: 2
  num_res_blocks: 1
  training:
    batch_size: 1
    max_steps: 4
    learning_rate: 0.01
    lr_schedule: cosine
    val_interval: 2
    visualize_interval: 2
    checkpoint_interval: 2
    discriminator: {num_channels: 4, num_layers_d: 1}
";

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// A folder with `tiny.yaml`, in which commands run.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        fs::write(place.path("tiny.yaml"), TINY).unwrap();
        place
    }

    /// A place with another configuration, `name.yaml`, and that file's name.
    pub fn with(name: &str, config: &str) -> (Self, String) {
        let (place, file) = (Self::new(), format!("{name}.yaml"));
        fs::write(place.path(&file), config).unwrap();
        (place, file)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// The command, in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_leanburn"));
        command.args(arguments).current_dir(self.0.path()).env("XDG_CACHE_HOME", self.0.path()).stdin(Stdio::null());
        command.env("MESA_SHADER_CACHE_DISABLE", "true"); // a driver that is asked for GPUs would write there too
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(&mut self.command(arguments))
    }

    /// The same in so many KiB of address space.
    #[cfg(target_os = "linux")]
    pub fn run_within(&self, kib: u64, arguments: &[&str]) -> Ended {
        self.run_under(&format!("ulimit -v {kib}"), arguments)
    }

    /// The same where no file may be longer than so many blocks of 512 bytes (or 1024: shells differ), as on a full disk.
    #[cfg(target_os = "linux")]
    pub fn run_with_small_files(&self, blocks: u64, arguments: &[&str]) -> Ended {
        self.run_under(&format!("trap '' XFSZ; ulimit -f {blocks}"), arguments)
    }

    /// The same in a control group that may have so many bytes; none where no group can be made, as an ordinary user cannot.
    #[cfg(target_os = "linux")]
    pub fn run_in_group(&self, bytes: u64, arguments: &[&str]) -> Option<Ended> {
        let group = Group::new(bytes)?;
        Some(self.run_under(&format!("echo $$ > '{}/cgroup.procs'", group.0.display()), arguments))
    }

    #[cfg(target_os = "linux")]
    fn run_under(&self, limits: &str, arguments: &[&str]) -> Ended {
        let command = self.command(arguments);
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{limits}; exec \"$0\" \"$@\"")]).arg(command.get_program());
        shell.args(command.get_args()).current_dir(self.0.path()).stdin(Stdio::null());
        Ended::of(&mut shell)
    }

    /// Runs a command that must succeed; gives its standard output.
    #[track_caller]
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?} ended with {ended:#?}");
        ended.stdout
    }

    /// Trains `tiny.yaml` into `out`, with more arguments.
    #[track_caller]
    pub fn train(&self, out: &str, more: &[&str]) -> String {
        self.succeed(&[&["train", "tiny.yaml", "--out", out], more].concat())
    }

    pub fn bytes(&self, name: &str) -> Vec<u8> {
        let path = self.path(name);
        fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn text(&self, name: &str) -> String {
        String::from_utf8(self.bytes(name)).unwrap()
    }

    pub fn volume(&self, name: &str) -> Volume {
        Volume::read(self.path(name)).unwrap()
    }

    /// The records of a run, every line of which must be whole.
    pub fn metrics(&self, run: &str) -> Vec<serde_json::Value> {
        let text = self.text(&format!("{run}/metrics.jsonl"));
        assert!(text.is_empty() || text.ends_with('\n'), "a torn line ends {text:?}");
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Every file and folder below, with its contents.
    pub fn contents(&self) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
        let mut found = BTreeMap::new();
        collect(self.0.path(), &mut found);
        found
    }

    /// Copies a folder with all that is in it.
    pub fn copy(&self, from: &str, to: &str) {
        let (from, to) = (self.path(from), self.path(to));
        fs::create_dir_all(&to).unwrap();
        let mut found = BTreeMap::new();
        collect(&from, &mut found);
        for (path, bytes) in found {
            let to = to.join(path.strip_prefix(&from).unwrap());
            match bytes {
                None => fs::create_dir_all(to).unwrap(),
                Some(bytes) => fs::write(to, bytes).unwrap(),
            }
        }
    }
}

/// A control group with a limit of memory, of version 1 or 2, which goes when it is dropped.
#[cfg(target_os = "linux")]
struct Group(PathBuf);

#[cfg(target_os = "linux")]
impl Group {
    fn new(bytes: u64) -> Option<Self> {
        [("memory", "memory.limit_in_bytes"), ("", "memory.max")].into_iter().find_map(|(root, limit)| {
            let name = format!("leanburn-{}-{bytes}", std::process::id());
            let group = Self(Path::new("/sys/fs/cgroup").join(root).join(name));
            fs::create_dir(&group.0).ok()?;
            let limit = group.0.join(limit); // the system's, or no file at all
            fs::OpenOptions::new().write(true).open(limit).ok()?.write_all(bytes.to_string().as_bytes()).ok()?;
            Some(group)
        })
    }
}

#[cfg(target_os = "linux")]
impl Drop for Group {
    fn drop(&mut self) {
        _ = fs::remove_dir(&self.0);
    }
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, Option<Vec<u8>>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.insert(path.clone(), None);
            collect(&path, found);
        } else {
            found.insert(path.clone(), Some(fs::read(&path).unwrap()));
        }
    }
}

/// A smooth volume of `[channels, x, y, z]` with values from about `low` to `high`, on voxels of 1 mm.
pub fn smooth(shape: [usize; 4], low: f32, high: f32) -> Volume {
    let affine = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
    placed(shape, low, high, affine)
}

/// The same, placed in space by `affine`.
pub fn placed(shape: [usize; 4], low: f32, high: f32, affine: leanburn_data::Affine) -> Volume {
    let count: usize = shape.iter().product();
    let wave = |at: usize| ((at % shape[3]) as f32 * 0.7).sin() * ((at / shape[3]) as f32 * 0.3).cos();
    let data = (0..count).map(|at| low + (high - low) * 0.5 * (1.0 + wave(at))).collect();
    Volume::new(data, shape, affine).unwrap()
}
