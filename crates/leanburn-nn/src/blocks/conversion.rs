//! What a layer of Burn has that ours has not.

/// A layer of Burn that has no counterpart here.
///
/// Layers of the same name convert both ways, by `From` where that is always possible and by `TryFrom` elsewhere. Weights, their ids
/// and running statistics are those of before, bit for bit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Burn's {layer} has no counterpart: {key}: expected {expected}, found {found}; {help}")]
pub struct ConversionError {
    /// The layer.
    pub layer: &'static str,
    /// The field that stands in the way.
    pub key: &'static str,
    /// What was expected.
    pub expected: &'static str,
    /// What was found.
    pub found: String,
    /// What to do.
    pub help: &'static str,
}
