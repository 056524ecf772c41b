//! A terminal that is drawn on as a whole: single keys in, changed lines out.

use std::{
    io::{Read as _, Write as _, stdin, stdout},
    sync::Arc,
};

use rustix::termios::{OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

/// Keys that wait to be taken.
const KEYS_MAX: usize = 64;
/// A look at the keyboard waits this long, in tenths of a second: as long as a sequence of a slow line takes, and a quit.
const KEY_WAIT_TENTHS: u8 = 2;
/// Where the size is not known.
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// Another screen without a cursor, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[2J";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// A terminal that supports it shows the text between these at once: no half of a frame is seen.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";

/// A key that was pressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    Letter(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    /// Ctrl-C, Ctrl-D.
    Quit,
}

/// The terminal. It is as before when this is dropped.
#[derive(Debug)]
pub(crate) struct Terminal {
    before: Termios,
    drawn: Vec<String>,
    size: (usize, usize),
    /// The thread that reads keys ends when nobody has this any more.
    alive: Arc<()>,
}

impl Terminal {
    pub(crate) fn open() -> std::io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        raw.special_codes[SpecialCodeIndex::VMIN] = 0;
        raw.special_codes[SpecialCodeIndex::VTIME] = KEY_WAIT_TENTHS;
        tcsetattr(stdin(), OptionalActions::Flush, &raw)?;
        restore_on_panic(before.clone());
        let terminal = Self { before, drawn: Vec::new(), size: (0, 0), alive: Arc::new(()) };
        let mut out = stdout();
        out.write_all(ENTER.as_bytes())?;
        out.flush()?;
        Ok(terminal)
    }

    /// Columns and lines.
    pub(crate) fn size() -> (usize, usize) {
        terminal_size::terminal_size_of(stdout())
            .map(|(width, height)| (usize::from(width.0), usize::from(height.0)))
            .filter(|(width, height)| *width > 0 && *height > 0)
            .unwrap_or(SIZE_DEFAULT)
    }

    /// Draws the lines that are others than before.
    pub(crate) fn draw(&mut self, size: (usize, usize), lines: Vec<String>) -> std::io::Result<()> {
        let mut frame = String::from(BEGIN);
        if size != self.size {
            frame.push_str("\x1b[2J");
            self.drawn.clear();
            self.size = size;
        }
        for (at, line) in lines.iter().enumerate() {
            if self.drawn.get(at) != Some(line) {
                frame.push_str(&format!("\x1b[{};1H{line}\x1b[K", at + 1));
            }
        }
        frame.push_str(END);
        self.drawn = lines;
        let mut out = stdout();
        out.write_all(frame.as_bytes())?;
        out.flush()
    }

    /// Keys as they are pressed, read on a thread of its own: standard input cannot be waited for otherwise.
    pub(crate) fn keys(&self) -> mpsc::Receiver<Key> {
        let (sender, keys) = mpsc::channel(KEYS_MAX);
        let alive = Arc::downgrade(&self.alive);
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            while alive.strong_count() > 0 {
                match stdin().lock().read(&mut bytes) {
                    Ok(number) => {
                        for key in pressed(&bytes[..number]) {
                            if sender.blocking_send(key).is_err() {
                                return;
                            }
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => return,
                }
            }
        });
        keys
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        restore(&self.before);
    }
}

/// Restores the screen and the settings. Errors are ignored: the terminal is gone then.
fn restore(before: &Termios) {
    let _ = stdout().write_all(LEAVE.as_bytes());
    let _ = stdout().flush();
    let _ = tcsetattr(stdin(), OptionalActions::Flush, before);
}

/// The message of a panic is printed before anything is dropped: it would go with the screen that it is printed on.
fn restore_on_panic(before: Termios) {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        restore(&before);
        print(panic);
    }));
}

/// Signals that ask a program to end. One that ends by itself restores the terminal first.
#[derive(Debug)]
pub(crate) struct EndSignals {
    terminate: Signal,
    hang_up: Signal,
    interrupt: Signal,
}

impl EndSignals {
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the first of them.
    pub(crate) async fn recv(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.hang_up.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// The keys that a few bytes from a terminal stand for. A sequence comes in one piece.
fn pressed(bytes: &[u8]) -> Vec<Key> {
    match bytes {
        b"\x1b" => return vec![Key::Escape],
        b"\x1b[A" | b"\x1bOA" => return vec![Key::Up],
        b"\x1b[B" | b"\x1bOB" => return vec![Key::Down],
        b"\x1b[5~" => return vec![Key::PageUp],
        b"\x1b[6~" => return vec![Key::PageDown],
        [0x1b, ..] => return Vec::new(),
        _ => {}
    }
    let text = String::from_utf8_lossy(bytes);
    let keys = text.chars().filter_map(|letter| match letter {
        '\u{3}' | '\u{4}' => Some(Key::Quit),
        '\r' | '\n' => Some(Key::Enter),
        '\u{7f}' | '\u{8}' => Some(Key::Backspace),
        letter if letter.is_control() => None,
        letter => Some(Key::Letter(letter)),
    });
    keys.collect()
}
