//! The terminal of the user, or the pipe in its place. Everything is written here, so that texts of the cluster are shown and never obeyed.

use std::{
    fmt,
    io::{BufRead, Write},
};

use lazaret_print::{harmless, harmless_coloured, in_a_line};

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
        let text: String = in_a_line(text)
            .chars()
            .take(self.width.unwrap_or(PROGRESS_CHARS_MAX).saturating_sub(1))
            .collect();
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
        self.out.write_all(harmless_coloured(text, self.colours).as_bytes())?;
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
        let _ = writeln!(self.notes, "{}", harmless(text));
    }

    /// Asks a person. Without one the answer is an error that names the flag to say yes beforehand.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<(), Error> {
        let Some(answers) = &mut self.answers else {
            return Err(Error::Declined(format!(
                "{question} standard input is not a terminal, so nobody can be asked: add --yes"
            )));
        };
        let _ = write!(self.notes, "{} [y/N] ", harmless(question));
        let _ = self.notes.flush();
        let mut answer = String::new();
        answers.read_line(&mut answer)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Error::Declined("nothing was changed".to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, io, rc::Rc};

    use super::*;

    #[derive(Clone, Default)]
    struct Screen(Rc<RefCell<Vec<u8>>>);

    impl Write for Screen {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.borrow_mut().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A message that clears the screen, writes over its own line and turns the direction.
    const HOSTILE: &str = "\x1b[2J\rReady\u{202e}\u{9b}31m";
    const SHOWN: &str = "\\x1b[2J\\rReady\\u202e\\u009b31m";

    #[test]
    fn whatever_is_written_drives_no_terminal() {
        let (out, notes) = (Screen::default(), Screen::default());
        let answers: Box<dyn BufRead> = Box::new(&b"y\n"[..]);
        let console = Console::new(Box::new(out.clone()), Box::new(notes.clone()), Some(answers), true);
        let mut console = console.on_terminal(Some(200), true);
        console.print(&format!("\x1b[32mok\x1b[0m {HOSTILE}\n")).unwrap();
        console.line(HOSTILE).unwrap();
        console.note(HOSTILE);
        console.confirm(HOSTILE).unwrap();
        console.progress(&format!("{HOSTILE}\n2 of 3"));
        let read = |screen: &Screen| String::from_utf8(screen.0.borrow().clone()).unwrap();
        assert_eq!(read(&out), format!("\x1b[32mok\x1b[0m {SHOWN}\n{SHOWN}\n"));
        let expected = format!("{SHOWN}\n{SHOWN} [y/N] {CLEAR_LINE}{SHOWN}\\n2 of 3");
        assert_eq!(read(&notes), expected);
    }
}
