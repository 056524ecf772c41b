//! The terminal of the user, or the pipe in its place.

use std::{
    fmt,
    io::{BufRead, Write},
};

use crate::Error;

/// To the beginning of the line, which is then empty.
const CLEAR_LINE: &str = "\r\x1b[K";
/// Where the width of the terminal is not known: a progress line must not break.
const PROGRESS_CHARS_MAX: usize = 80;

/// Characters in a line of the terminal on standard output; absent where that is none.
fn terminal_width() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout())
        .map(|(width, _)| usize::from(width.0))
        .filter(|width| *width > 0)
}

/// Where output goes and where answers come from.
pub struct Console {
    out: Box<dyn Write>,
    notes: Box<dyn Write>,
    /// Absent where nobody could answer.
    answers: Option<Box<dyn BufRead>>,
    colours: bool,
    /// Characters in a line of the terminal that shows the output; absent where it is a file or a pipe.
    width: Option<usize>,
    /// Notes go to a terminal, where a line can be written over.
    live: bool,
    /// The progress line that is on the screen.
    progress: Option<String>,
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console").field("colours", &self.colours).finish_non_exhaustive()
    }
}

impl Console {
    /// A console; `answers` only where a person can be asked.
    #[must_use]
    pub fn new(
        out: Box<dyn Write>,
        notes: Box<dyn Write>,
        answers: Option<Box<dyn BufRead>>,
        colours: bool,
    ) -> Self {
        Self { out, notes, answers, colours, width: None, live: false, progress: None }
    }

    /// The same in front of a terminal: lines of the output fit `width`, and notes may be written over where they are `live`.
    #[must_use]
    pub fn on_terminal(self, width: Option<usize>, live: bool) -> Self {
        Self { width, live, ..self }
    }

    /// The process's own: asks only on a terminal, colours only what a terminal shows and nobody asked to keep plain.
    #[must_use]
    pub fn standard() -> Self {
        use std::io::{IsTerminal as _, stderr, stdin, stdout};
        let person = stdin().is_terminal() && stderr().is_terminal();
        let answers = person.then(|| Box::new(std::io::BufReader::new(stdin())) as Box<dyn BufRead>);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let console =
            Self::new(Box::new(stdout()), Box::new(stderr()), answers, stdout().is_terminal() && !plain);
        console.on_terminal(terminal_width(), stderr().is_terminal())
    }

    pub(crate) fn width(&self) -> Option<usize> {
        self.width
    }

    /// Whether progress is a line that is written over; otherwise it is a note now and then.
    pub(crate) fn is_live(&self) -> bool {
        self.live
    }

    /// Shows progress in place of what was shown before, until something else is printed.
    pub(crate) fn progress(&mut self, text: &str) {
        let text: String =
            text.chars().take(self.width.unwrap_or(PROGRESS_CHARS_MAX).saturating_sub(1)).collect();
        if self.progress.as_ref() == Some(&text) {
            return;
        }
        let _ = write!(self.notes, "{CLEAR_LINE}{text}");
        let _ = self.notes.flush();
        self.progress = Some(text);
    }

    fn clear_progress(&mut self) {
        if self.progress.take().is_some() {
            let _ = write!(self.notes, "{CLEAR_LINE}");
            let _ = self.notes.flush();
        }
    }

    pub(crate) fn colours(&self) -> bool {
        self.colours
    }

    /// Output that a program may read.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Error> {
        self.clear_progress();
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        Ok(())
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<(), Error> {
        self.print(&format!("{text}\n"))
    }

    /// A note for people, beside the output.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear_progress();
        // An error is ignored: there is no other place to report it.
        let _ = writeln!(self.notes, "{text}");
    }

    /// Asks a person. Without one the answer is an error that names the flag to say yes beforehand.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<(), Error> {
        let Some(answers) = &mut self.answers else {
            return Err(Error::Declined(format!(
                "{question} standard input is not a terminal, so nobody can be asked: add --yes"
            )));
        };
        let _ = write!(self.notes, "{question} [y/N] ");
        let _ = self.notes.flush();
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Error::Declined("nothing was changed".to_owned())),
        }
    }
}
