//! Frequencies of layers, as a configuration writes them.

use crate::yaml::{Limits, Node, Read, Value, Wrong};

/// Those of all layers, `[12, 12]`, or of each, `[[16, 16], [12, 12]]`.
#[derive(Debug, Clone)]
pub(super) enum Modes {
    /// One pair for all.
    All([usize; 2]),
    /// One for each.
    Each(Vec<[usize; 2]>),
}

impl Modes {
    /// A pair for each of the layers; a list is left as it is.
    pub(super) fn resolve(self, layers: usize) -> Vec<[usize; 2]> {
        match self {
            Self::All(modes) => vec![modes; layers],
            Self::Each(modes) => modes,
        }
    }
}

impl Read for Modes {
    fn expected(limits: &Limits) -> String {
        format!("a pair such as [12, 12], or a list with one a layer, each entry {}", usize::expected(limits))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match &node.value {
            Value::List(items) if items.iter().any(|item| matches!(item.value, Value::List(_))) => {
                Vec::read(node, limits).map(Self::Each)
            }
            _ => <[usize; 2]>::read(node, limits).map(Self::All).map_err(|_| Wrong::new(node, Self::expected(limits))),
        }
    }
}
