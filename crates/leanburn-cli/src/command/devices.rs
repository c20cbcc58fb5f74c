//! `leanburn devices`.

use crate::console::print_line;
use crate::device;
use crate::error::Result;

pub(super) fn run() -> Result<()> {
    print_line(device::table())
}
