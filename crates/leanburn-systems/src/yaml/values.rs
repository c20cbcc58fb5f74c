//! The types a key can have, and how each is read from a node.

use std::path::PathBuf;

use leanburn_common::Bytes;

use super::config_error::Place;
use super::limits::Limits;
use super::tree::{Node, Value};

/// A value that is not what was expected.
#[derive(Debug)]
pub struct Wrong {
    /// Where it stands.
    pub place: Place,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: String,
    /// What to do, where there is more to say than what was expected.
    pub help: Option<String>,
}

impl Wrong {
    /// The one error that a node is not what was expected.
    pub fn new(node: &Node, expected: String) -> Vec<Self> {
        let help = match &node.value {
            Value::Text(text) if text.parse::<f64>().is_ok() => Some("remove the quotes".into()),
            Value::Null => Some("write a value after the colon, or remove the key".into()),
            _ => None,
        };
        vec![Self { place: node.place.clone(), found: node.value.to_string(), expected, help }]
    }
}

/// Reads a value; every wrong part of it is reported.
pub trait Read: Sized {
    /// What is expected, in words, as in "an integer of at least 1".
    fn expected(limits: &Limits) -> String;

    /// Reads a node. Types without numbers ignore the limits.
    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>>;
}

/// Integers: a decimal point is rejected, and so is what the type cannot hold.
macro_rules! read_integer {
    ($($integer:ty),*) => {$(
        impl Read for $integer {
            fn expected(limits: &Limits) -> String {
                limits.not_negative().describe("an integer")
            }

            fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
                match node.value {
                    Value::Integer(value) if limits.admits(value as f64) => value.try_into().ok(),
                    _ => None,
                }
                .ok_or_else(|| Wrong::new(node, Self::expected(limits)))
            }
        }
    )*};
}
read_integer!(usize, u64, u8);

impl Read for f64 {
    fn expected(limits: &Limits) -> String {
        limits.describe("a number")
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match node.value {
            Value::Integer(value) => Some(value as f64),
            Value::Number(value) => Some(value),
            _ => None,
        }
        .filter(|value| limits.admits(*value))
        .ok_or_else(|| Wrong::new(node, Self::expected(limits)))
    }
}

impl Read for f32 {
    fn expected(limits: &Limits) -> String {
        f64::expected(limits)
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        let value = f64::read(node, limits)? as f32;
        // Past the largest f32, or a positive number below the smallest, lies outside as well.
        if limits.admits(value.into()) { Ok(value) } else { Err(Wrong::new(node, Self::expected(limits))) }
    }
}

impl Read for Bytes {
    fn expected(_: &Limits) -> String {
        "a size in bytes such as 20GiB".into()
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match &node.value {
            Value::Text(text) => text.parse().ok(),
            _ => None,
        }
        .filter(|size: &Self| size.get() > 0)
        .ok_or_else(|| Wrong::new(node, Self::expected(limits)))
    }
}

impl Read for bool {
    fn expected(_: &Limits) -> String {
        "true or false".into()
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match node.value {
            Value::Boolean(value) => Ok(value),
            _ => Err(Wrong::new(node, Self::expected(limits))),
        }
    }
}

impl Read for String {
    fn expected(_: &Limits) -> String {
        "text".into()
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match &node.value {
            Value::Text(text) if !text.trim().is_empty() => Ok(text.clone()),
            _ => Err(Wrong::new(node, Self::expected(limits))),
        }
    }
}

impl Read for PathBuf {
    fn expected(_: &Limits) -> String {
        "a path".into()
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        String::read(node, limits).map(Self::from).map_err(|_| Wrong::new(node, Self::expected(limits)))
    }
}

/// `null` is the absent value.
impl<T: Read> Read for Option<T> {
    fn expected(limits: &Limits) -> String {
        T::expected(limits)
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        if matches!(node.value, Value::Null) { Ok(None) } else { T::read(node, limits).map(Some) }
    }
}

impl<T: Read> Read for Vec<T> {
    fn expected(limits: &Limits) -> String {
        format!("a list, each entry {}", T::expected(limits))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        let Value::List(items) = &node.value else {
            return Err(Wrong::new(node, Self::expected(limits)));
        };
        let (mut values, mut wrongs) = (Vec::with_capacity(items.len()), Vec::new());
        for item in items {
            match T::read(item, limits) {
                Ok(value) => values.push(value),
                Err(wrong) => wrongs.extend(wrong),
            }
        }
        if wrongs.is_empty() { Ok(values) } else { Err(wrongs) }
    }
}

impl<T: Read, const N: usize> Read for [T; N] {
    fn expected(limits: &Limits) -> String {
        format!("a list of {N}, each entry {}", T::expected(limits))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        let values = match &node.value {
            Value::List(_) => Vec::read(node, limits)?,
            _ => Vec::new(),
        };
        values.try_into().map_err(|_| Wrong::new(node, Self::expected(limits)))
    }
}

/// One value for all axes, or one for each: `32` or `[32, 32, 16]`.
#[derive(Debug, Clone, Copy)]
pub struct PerAxis<T>(pub [T; 3]);

impl<T: Read + Copy> Read for PerAxis<T> {
    fn expected(limits: &Limits) -> String {
        format!("one value or a list of 3, each {}", T::expected(limits))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match &node.value {
            Value::List(items) if items.len() == 3 => <[T; 3]>::read(node, limits).map(Self),
            Value::List(_) => Err(Wrong::new(node, Self::expected(limits))),
            _ => T::read(node, limits)
                .map(|value| Self([value; 3]))
                .map_err(|_| Wrong::new(node, Self::expected(limits))),
        }
    }
}

/// One value for height and width, or one for each: `32` or `[32, 48]`.
#[derive(Debug, Clone, Copy)]
pub struct PerPlane<T>(pub [T; 2]);

impl<T: Read + Copy> Read for PerPlane<T> {
    fn expected(limits: &Limits) -> String {
        format!("one value or a list of 2, each {}", T::expected(limits))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match &node.value {
            Value::List(items) if items.len() == 2 => <[T; 2]>::read(node, limits).map(Self),
            Value::List(_) => Err(Wrong::new(node, Self::expected(limits))),
            _ => T::read(node, limits)
                .map(|value| Self([value; 2]))
                .map_err(|_| Wrong::new(node, Self::expected(limits))),
        }
    }
}

/// One value for all levels of a network, or one for each.
#[derive(Debug, Clone)]
pub enum PerLevel<T> {
    /// One for all.
    All(T),
    /// One for each.
    Each(Vec<T>),
}

impl<T: Clone> PerLevel<T> {
    /// A value for each of the levels; a list is left as it is.
    pub fn resolve(self, levels: usize) -> Vec<T> {
        match self {
            Self::All(value) => vec![value; levels],
            Self::Each(values) => values,
        }
    }
}

impl<T: Read> Read for PerLevel<T> {
    fn expected(limits: &Limits) -> String {
        format!("one value or a list with one a level, each {}", T::expected(limits))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        match &node.value {
            Value::List(_) => Vec::read(node, limits).map(Self::Each),
            _ => T::read(node, limits).map(Self::All).map_err(|_| Wrong::new(node, Self::expected(limits))),
        }
    }
}
