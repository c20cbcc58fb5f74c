//! `leanburn devices`.

use crate::device;
use crate::error::Result;

pub(super) fn run() -> Result<()> {
    println!("{}", device::table());
    Ok(())
}
