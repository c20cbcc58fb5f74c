//! Lines on the terminal.

use std::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};
use std::path::Path;

use crate::error::{CommandError, Result};

/// Prints a line to the standard output. A reader that went away, as `head` does, has seen enough.
///
/// # Errors
///
/// [`CommandError::Write`] if the line is lost, as on a full disk.
pub fn print_line(line: impl Display) -> Result<()> {
    match writeln!(stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(CommandError::writing(Path::new("standard output"))),
    }
}

/// Prints a line to the standard error, if anybody is there to read it.
pub fn print_remark(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}
