//! Lines on the terminal.

use std::fmt::Display;
use std::io::{ErrorKind, IsTerminal, Write, stderr, stdout};
use std::path::Path;

use crate::error::{CommandError, Result};

/// Prints a line to the standard output. A reader that went away, as `head` does, has seen enough.
///
/// # Errors
///
/// An error of writing if the line is lost, as on a full disk.
pub fn print_line(line: impl Display) -> Result<()> {
    match writeln!(stdout(), "{line}") {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(CommandError::writing(Path::new("standard output"))),
    }
}

/// Prints a line to the standard error; ignores errors of writing.
pub fn print_stderr(line: impl Display) {
    let _ = writeln!(stderr(), "{line}");
}

/// Whether the standard error is a terminal that shows colours, and [nobody objects](https://no-color.org).
pub fn stderr_has_colours() -> bool {
    let variable = |name| std::env::var_os(name).unwrap_or_default();
    stderr().is_terminal() && variable("NO_COLOR").is_empty() && variable("TERM") != "dumb"
}

/// A duration as far as an estimate can be trusted: `0.06 s`, `26 s`, `83 min`, `2.9 h`.
pub fn seconds_text(seconds: f64) -> String {
    match seconds {
        seconds if seconds < 10.0 => format!("{seconds:.2} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_say_no_more_than_an_estimate_knows() {
        let texts = [0.061, 9.99, 26.48, 119.9, 120.0, 4961.71, 10_384.3].map(seconds_text);
        assert_eq!(texts, ["0.06 s", "9.99 s", "26 s", "120 s", "2 min", "83 min", "2.9 h"]);
    }
}
