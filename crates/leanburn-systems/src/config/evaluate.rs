//! The evaluation of trained weights, without a run.

use std::path::Path;

use burn::tensor::Device;
use leanburn_data::Progress;

use super::document::Config;
use crate::error::{Result, SystemError};
use crate::evaluation::{Metrics, keep_finite};
use crate::weight_source::WeightSource;

impl Config {
    /// The validation metrics of trained weights (a file, the folder of a run or a checkpoint) on the data of this configuration, which may
    /// be other data than that of the weights. Data is normalized by its own training part. `name` is what messages call the configuration;
    /// `progress` hears of each volume that is read.
    ///
    /// # Errors
    ///
    /// What keeps data or weights from being read, weights of another model, and data without validation samples.
    pub fn evaluate(
        &self,
        name: &str,
        weights: &Path,
        device: &Device,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Metrics> {
        self.check_run(name)?;
        let source = WeightSource::open(weights)?;
        let mut run = self.system.any().open(&self.context(name), &device.clone().autodiff(), progress)?;
        let reject = |expected: &str, found: String, remedy: &str| {
            let (subject, expected, remedy) = (name.to_owned(), expected.to_owned(), remedy.to_owned());
            Err(SystemError::Input { subject, expected, found, remedy })
        };
        let initialized = run.initialize(&source)?;
        let left = initialized.first().map(|model| model.lines()[1..].to_vec()).unwrap_or_default();
        if !left.is_empty() {
            let remedy = "evaluate with the model of the run, by the config.yaml in its folder";
            return reject("the model whose weights these are", left.join(";"), remedy);
        }
        let mut metrics = run.evaluate()??;
        keep_finite(&mut metrics);
        match metrics.is_empty() {
            true => reject("validation samples", "none".into(), "hold some out by `val_fraction`"),
            false => Ok(metrics),
        }
    }
}
