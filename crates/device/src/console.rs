//! Whoever sits in front of the command, or the pipe that took their place.

use std::{
    fmt,
    io::{BufRead, Write},
};

use crate::Error;

/// Where output goes and where answers come from.
pub struct Console {
    out: Box<dyn Write>,
    notes: Box<dyn Write>,
    /// Absent where nobody could answer.
    answers: Option<Box<dyn BufRead>>,
    colours: bool,
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
        Self { out, notes, answers, colours }
    }

    /// The process's own: asks only on a terminal, colours only what a terminal shows and nobody asked to keep plain.
    #[must_use]
    pub fn standard() -> Self {
        use std::io::{IsTerminal as _, stderr, stdin, stdout};
        let person = stdin().is_terminal() && stderr().is_terminal();
        let answers = person.then(|| Box::new(std::io::BufReader::new(stdin())) as Box<dyn BufRead>);
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Self::new(Box::new(stdout()), Box::new(stderr()), answers, stdout().is_terminal() && !plain)
    }

    pub(crate) fn colours(&self) -> bool {
        self.colours
    }

    /// Output that a program may read.
    pub(crate) fn print(&mut self, text: &str) -> Result<(), Error> {
        self.out.write_all(text.as_bytes())?;
        self.out.flush()?;
        Ok(())
    }

    pub(crate) fn line(&mut self, text: &str) -> Result<(), Error> {
        self.print(&format!("{text}\n"))
    }

    /// A note for people, beside the output.
    pub(crate) fn note(&mut self, text: &str) {
        // Nobody is left to tell when notes cannot be written.
        let _ = writeln!(self.notes, "{text}");
    }

    /// Asks a person. Without one the answer is an error that names the flag to say yes beforehand.
    pub(crate) fn confirm(&mut self, question: &str) -> Result<(), Error> {
        let Some(answers) = &mut self.answers else {
            return Err(Error::Declined(format!("{question} nobody can answer here: add --yes")));
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
