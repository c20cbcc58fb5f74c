//! A choice among names.

use leanburn_common::nearest;
use serde::de::value::StrDeserializer;
use serde::de::{self, DeserializeOwned};

use super::limits::Limits;
use super::tree::{Node, Value};
use super::values::{Read, Wrong};

/// One of the names of an enum without fields; serde knows the names.
#[derive(Debug, Clone, Copy)]
pub struct Choice<T>(pub T);

impl<T: DeserializeOwned> Choice<T> {
    fn parse(text: &str) -> Result<T, Names> {
        T::deserialize(StrDeserializer::new(text))
    }
}

impl<T: DeserializeOwned> Read for Choice<T> {
    fn expected(_: &Limits) -> String {
        let names = Self::parse("").err().map_or(&[][..], |names| names.0);
        format!("one of {}", names.join(", "))
    }

    fn read(node: &Node, limits: &Limits) -> Result<Self, Vec<Wrong>> {
        let wrong = |help| {
            let mut wrongs = Wrong::new(node, Self::expected(limits));
            wrongs.iter_mut().for_each(|wrong| wrong.help = Option::clone(&help));
            wrongs
        };
        let text = match &node.value {
            Value::Text(text) => text.as_str(),
            _ => return Err(wrong(None)),
        };
        Self::parse(text).map(Self).map_err(|names| {
            wrong(nearest(text, names.0.iter().copied()).map(|near| format!("did you mean `{near}`?")))
        })
    }
}

/// Serde's error about an unknown name, reduced to the names it expected.
#[derive(Debug)]
struct Names(&'static [&'static str]);

impl std::fmt::Display for Names {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0.join(", "))
    }
}

impl std::error::Error for Names {}

impl de::Error for Names {
    fn custom<M: std::fmt::Display>(_: M) -> Self {
        Self(&[])
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self(expected)
    }
}
