//! What an evaluation gives: metrics by name, pictures, and how both are shown.

/// Metrics by name, the first the one that matters most.
pub type Metrics = Vec<(&'static str, f64)>;

/// Leaves out what is no number, such as the Dice score of a class that is nowhere.
pub(crate) fn keep_finite(metrics: &mut Metrics) {
    metrics.retain(|(_, value)| value.is_finite());
}

/// Name of the mean absolute difference in the metrics.
pub const L1: &str = "l1";

/// How a system's pictures are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureLabel {
    /// A word, such as "reconstruction".
    pub name: &'static str,
    /// What they show.
    pub caption: &'static str,
}

/// A chart of metrics over the steps of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Curves {
    /// What it shows.
    pub title: &'static str,
    /// The unit of its values.
    pub y_label: &'static str,
    /// Whether the values are shown on a logarithmic scale.
    pub log_y: bool,
    /// Parts of the training loss: how each is called on the chart, and its key in the metrics.
    pub train: &'static [(&'static str, &'static str)],
    /// Keys of validation metrics.
    pub validation: &'static [&'static str],
}
