//! The batch that fills a share of the memory.

use std::str::FromStr;

use leanburn_common::Bytes;
use leanburn_plan::Space;
use leanburn_systems::planning::ConfigSpace;
use leanburn_train::planning::Planner;

use crate::error::Result;

/// A share of the memory that is to be used, from and up to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Utilisation {
    /// The least.
    pub least: f64,
    /// The most.
    pub most: f64,
}

/// A batch, and what a step of it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filled {
    /// Items of the batch.
    pub batch_size: usize,
    /// What its step needs, with the margin of a plan.
    pub needed: Bytes,
}

/// More items than this are no batch.
const MOST_ITEMS: usize = 1 << 14;

impl FromStr for Utilisation {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let shares = text.split_once("..").and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)));
        match shares {
            Some((least, most)) if least >= 0.0 && least < most && most <= 1.0 => Ok(Self { least, most }),
            _ => Err("expected two shares from 0 to 1, the smaller one first, such as 0.6..0.8".into()),
        }
    }
}

impl Utilisation {
    /// The largest batch whose step, otherwise as configured and in one micro-batch, needs at most the largest share of the memory; none
    /// where a single item needs more.
    ///
    /// # Errors
    ///
    /// What keeps a step from being recorded.
    pub fn largest_batch(self, space: &ConfigSpace, planner: &Planner, memory: Bytes) -> Result<Option<Filled>> {
        let most = memory.share(self.most);
        let fill = |batch_size: usize| -> Result<Option<Filled>> {
            let mut candidate = space.configured();
            (candidate.micro_batch, candidate.accumulation) = (batch_size, 1);
            let timeline = space.record(&candidate)?.timeline(planner.memory_model());
            let needed =
                planner.memory_model().needed(&timeline) + space.other_bytes(&candidate) + planner.other_bytes();
            Ok((needed <= most).then_some(Filled { batch_size, needed }))
        };
        let Some(mut fits) = fill(1)? else { return Ok(None) };
        // twice as many as long as they fit, then the gap is halved
        let mut too_many = MOST_ITEMS + 1;
        while fits.batch_size + 1 < too_many {
            let middle = (fits.batch_size + too_many) / 2;
            let next = if too_many > MOST_ITEMS { (2 * fits.batch_size).min(MOST_ITEMS) } else { middle };
            match fill(next)? {
                Some(filled) => fits = filled,
                None => too_many = next,
            }
        }
        Ok(Some(fits))
    }

    /// Whether a step that needs so much is within the shares.
    pub fn is_reached(self, filled: Filled, memory: Bytes) -> bool {
        filled.needed >= memory.share(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_in_their_order() {
        assert_eq!("0.6..0.8".parse(), Ok(Utilisation { least: 0.6, most: 0.8 }));
        for text in ["0.8..0.6", "0.6", "60..80", "0.6..1.1", "a..b", "-0.1..0.5", "nan..0.5"] {
            assert!(text.parse::<Utilisation>().is_err(), "{text}");
        }
    }
}
