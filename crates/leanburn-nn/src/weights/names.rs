//! From the names of our parameters to MONAI's, present and past.

use burn::module::Module;

/// A model that MONAI, or another implementation in PyTorch, has too.
pub trait MonaiWeights: Module {
    /// That implementation's name of the parameter at `path` (names of fields, joined by dots).
    fn monai_name(path: &str) -> String;

    /// The name the parameter had in GenerativeModels, if another; given MONAI's name.
    fn legacy_name(_monai_name: &str) -> Option<String> {
        None
    }

    /// Whether files hold this name, the other implementation's, and the model has no use for it.
    fn is_spare(_name: &str) -> bool {
        false
    }
}
