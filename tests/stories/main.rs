//! What people do with leanburn, told with the facade alone: one module a story, one program for all of them, since linking takes
//! longer than they do.

mod fit;
mod own_model;
mod plan;
mod resume;
mod save_and_load;
mod train;

use std::error::Error;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use leanburn::prelude::*;

#[global_allocator]
static HEAP: CountingAllocator = CountingAllocator;

/// How a story ends.
type Told = Result<(), Box<dyn Error>>;

/// One story at a time: the heap is counted for the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static STORIES: Mutex<()> = Mutex::new(());
    STORIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An empty folder for a story.
fn folder(story: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("stories").join(story);
    let _ = std::fs::remove_dir_all(&folder);
    folder
}

/// Steps of [`config`].
const STEPS: u64 = 6;

/// An autoencoder of a level for each number of channels.
fn model(channels: Vec<usize>) -> AutoencoderSection {
    AutoencoderSection::new(channels).with_norm_num_groups(2)
}

/// A small autoencoder on synthetic heads, four of them a step.
fn config() -> SystemConfig {
    let training = TrainingSection::default()
        .with_batch_size(4)
        .with_learning_rate(5e-3)
        .with_max_steps(STEPS)
        .with_val_interval(STEPS)
        .with_checkpoint_interval(2)
        .with_visualize_interval(0);
    let model = model(vec![4, 8]).with_training(training);
    let phantom = PhantomConfig { count: 5, shape: [16; 3], ..PhantomConfig::default() };
    let data = DataConfig { phantom: Some(phantom), patch_size: Some([16; 3]), ..DataConfig::default() };
    SystemConfig::new(model).with_data(data)
}

/// The losses of a session, step by step.
#[derive(Default)]
struct Curve(Vec<f64>);

impl Observer for Curve {
    fn stepped(&mut self, report: &StepReport) -> Observed {
        self.0.push(report.losses["reconstruction"]);
        Ok(())
    }
}
