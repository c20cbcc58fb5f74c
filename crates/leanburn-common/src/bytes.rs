//! Sizes in memory and on disk.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub};
use std::str::FromStr;

use bytesize::ByteSize;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A number of bytes. Prints as people read it (`1.8 GiB`), serialises as the number.
///
/// # Example
///
/// ```
/// use leanburn_common::Bytes;
///
/// let peak = Bytes::mib(1_843);
/// assert_eq!(peak.to_string(), "1.8 GiB");
/// assert_eq!("24GiB".parse::<Bytes>().unwrap(), Bytes::gib(24));
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// So many KiB of 1,024 bytes.
    pub const fn kib(count: u64) -> Self {
        Self(count << 10)
    }

    /// So many MiB of 1,024 KiB.
    pub const fn mib(count: u64) -> Self {
        Self(count << 20)
    }

    /// So many GiB of 1,024 MiB.
    pub const fn gib(count: u64) -> Self {
        Self(count << 30)
    }

    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number of MiB, for plots and tables.
    pub fn as_mib(self) -> f64 {
        self.0 as f64 / f64::from(1 << 20)
    }

    /// The number of GiB, for plots and tables.
    pub fn as_gib(self) -> f64 {
        self.0 as f64 / f64::from(1 << 30)
    }

    /// A share of this size, rounded down.
    pub fn share(self, fraction: f64) -> Self {
        Self((self.0 as f64 * fraction) as u64)
    }

    /// The size that its own text says, if that is not less, else the next: what is asked for at least is enough when it is typed back.
    pub const fn rounded_up(self) -> Self {
        if self.0 < 1 << 10 {
            return self;
        }
        let unit = 1 << (self.0.ilog2() / 10 * 10);
        let tenths = (self.0 as u128 * 10).div_ceil(unit);
        Self((tenths * unit / 10) as u64)
    }

    /// The difference, or nothing where `other` is larger.
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // `pad` on the text: widths and alignment are those of the caller
        out.pad(&ByteSize::b(self.0).display().iec().to_string())
    }
}

impl From<u64> for Bytes {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl From<Bytes> for u64 {
    fn from(bytes: Bytes) -> Self {
        bytes.0
    }
}

impl Add for Bytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for Bytes {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl Sum for Bytes {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        Self(sizes.map(|size| size.0).sum())
    }
}

/// A text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("expected a size such as 24GiB or 900MiB, found {found:?}")]
pub struct ParseBytesError {
    found: String,
}

impl FromStr for Bytes {
    type Err = ParseBytesError;

    fn from_str(text: &str) -> Result<Self, ParseBytesError> {
        let size: Result<ByteSize, _> = text.parse();
        size.map(|size| Self(size.as_u64())).map_err(|_| ParseBytesError { found: text.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_as_people_read_them_and_serialise_as_numbers() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes::kib(3).to_string(), "3.0 KiB");
        assert_eq!(format!("{:>9}|", Bytes::gib(2)), "  2.0 GiB|");
        assert_eq!(serde_json::to_string(&Bytes::kib(1)).unwrap(), "1024");
        assert_eq!(serde_json::from_str::<Bytes>("1024").unwrap(), Bytes::kib(1));
    }

    #[test]
    fn what_is_rounded_up_is_enough_when_it_is_typed_back() {
        for size in [0, 1, 1023, 1024, 1025, 8_915_000, 8_912_896, 1_073_741_823, (3 << 40) + 7].map(Bytes) {
            let up = size.rounded_up();
            let typed: Bytes = up.to_string().parse().unwrap();
            assert!(size <= up && up <= typed && up.as_mib() <= 1.1 * size.as_mib(), "{size:?}: {up:?}, {typed:?}");
        }
        assert_eq!(Bytes(8_915_000).rounded_up().to_string(), "8.6 MiB"); // 8.502, which prints as 8.5
        assert_eq!(Bytes::mib(1536).rounded_up(), Bytes::mib(1536));
    }

    #[test]
    fn texts_become_sizes() {
        assert_eq!("1.5 GiB".parse(), Ok(Bytes::mib(1536)));
        let error = "much".parse::<Bytes>().unwrap_err();
        assert_eq!(error.to_string(), "expected a size such as 24GiB or 900MiB, found \"much\"");
    }

    #[test]
    fn arithmetic() {
        assert_eq!([Bytes(1), Bytes(2)].into_iter().sum::<Bytes>() + Bytes(3) - Bytes(2), Bytes(4));
        assert_eq!(Bytes(1).saturating_sub(Bytes(2)), Bytes(0));
        assert_eq!(Bytes::gib(24).share(0.5), Bytes::gib(12));
        assert_eq!((Bytes::mib(512).as_gib(), Bytes::kib(512).as_mib()), (0.5, 0.5));
    }
}
