//! Progress for people: a bar on a terminal, a line now and then elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::console::{print_line, print_stderr};

/// How often a line is printed where there is no terminal.
const QUIET: Duration = Duration::from_secs(10);

/// Progress of something that goes step by step.
#[derive(Debug)]
pub struct Progress {
    bar: ProgressBar,
    what: &'static str,
    /// Where there is no terminal: when the last line was printed.
    last_line: Option<Instant>,
}

impl Progress {
    /// Progress of `what` over `steps`, of which `done` are done.
    pub fn new(what: &'static str, steps: u64, done: u64) -> Self {
        let bar = ProgressBar::new(steps).with_position(done);
        Self::of(bar, what, "{prefix} {bar:28} {pos}/{len}  {msg}  {eta} left")
    }

    /// Progress of `what` over steps whose number is not known.
    pub fn counting(what: &'static str) -> Self {
        Self::of(ProgressBar::no_length(), what, "{prefix} {pos}  {msg}")
    }

    fn of(bar: ProgressBar, what: &'static str, template: &str) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        bar.set_draw_target(if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
        bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(what);
        bar.reset_eta();
        Self { bar, what, last_line: (!is_terminal).then(Instant::now) }
    }

    /// One more step is done; `message` says how it went.
    pub fn step(&mut self, message: impl FnOnce() -> String) {
        self.bar.inc(1);
        match &mut self.last_line {
            None => self.bar.set_message(message()),
            Some(last) if last.elapsed() >= QUIET => {
                *last = Instant::now();
                let of = self.bar.length().map_or(String::new(), |steps| format!("/{steps}"));
                print_stderr(format_args!("{} {}{of}  {}", self.what, self.bar.position(), message()));
            }
            Some(_) => {}
        }
    }

    /// Prints a line that stays. A line that is lost does not stop what is being done.
    pub fn note(&self, line: &str) {
        let _ = self.bar.suspend(|| print_line(line));
    }

    /// The bar goes away.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Progress of data that is read: from the first file on until it is dropped.
#[derive(Debug, Default)]
pub struct Reading(Option<Progress>);

impl Reading {
    /// One more file has been read.
    pub fn step(&mut self, state: leanburn_data::Progress<'_>) {
        let progress = self.0.get_or_insert_with(|| Progress::new("reading", state.total as u64, 0));
        progress.step(|| state.name.to_string());
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.iter().for_each(Progress::finish);
    }
}
