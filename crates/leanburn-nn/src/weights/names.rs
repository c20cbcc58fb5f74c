//! From the names of our parameters to MONAI's, present and past.

use burn::module::Module;

/// A model that MONAI has too, or that the tests here write down in PyTorch.
pub trait MonaiWeights: Module {
    /// The name there of the parameter at `path` (names of fields, joined by dots).
    fn monai_name(path: &str) -> String;

    /// The name the parameter had in GenerativeModels, if another; given MONAI's name.
    fn legacy_name(_monai_name: &str) -> Option<String> {
        None
    }

    /// Buffers of whole numbers that MONAI's strict loading asks for, and that follow from the configuration.
    fn integer_buffers(&self) -> Vec<IntegerBuffer> {
        Vec::new()
    }

    /// Whether files hold this name, and the model has no use for it.
    fn is_spare(_name: &str) -> bool {
        false
    }
}

/// A buffer of whole numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntegerBuffer {
    /// MONAI's name of it.
    pub name: String,
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its values in row-major order.
    pub values: Vec<i64>,
}
