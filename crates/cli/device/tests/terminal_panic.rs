//! A program that panics on a terminal leaves it as it was, and its message where it can be read. The program is this test, started again.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    env,
    fs::{File, OpenOptions},
    io::Read as _,
    os::unix::fs::OpenOptionsExt as _,
    process::Command,
    thread,
};

use rustix::{
    fs::OFlags,
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, tcgetattr},
};

/// As `kubectl device top` uses it; the crate shows it to nobody.
#[allow(dead_code, reason = "keys and signals are for the command")]
#[path = "../src/commands/terminal.rs"]
mod terminal;

use terminal::Terminal;

/// Set for the program that panics.
const CHILD: &str = "LAZARET_TEST_PANICS_ON_A_TERMINAL";
const MESSAGE: &str = "the screen cannot be drawn";
const NAME: &str = "a_panic_leaves_the_terminal_as_it_was_and_can_be_read";
/// Another screen, and the one of before with its cursor.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// Both ends of a new terminal.
fn new_terminal() -> (File, File) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
    let flags = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
    let terminal = OpenOptions::new().read(true).write(true).custom_flags(flags).open(path).unwrap();
    (File::from(master), terminal)
}

/// Whether lines are edited and echoed by the terminal itself, as before a program takes it over.
fn is_as_before(terminal: &File) -> bool {
    tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
}

#[test]
fn a_panic_leaves_the_terminal_as_it_was_and_can_be_read() {
    if env::var_os(CHILD).is_some() {
        let mut shown = Terminal::open().unwrap();
        assert!(!tcgetattr(std::io::stdin()).unwrap().local_modes.contains(LocalModes::ICANON));
        shown.draw((80, 24), vec!["a frame".to_owned()]).unwrap();
        panic!("{MESSAGE}");
    }
    let (mut master, terminal) = new_terminal();
    assert!(is_as_before(&terminal));
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture", "--test-threads", "1"])
        .env(CHILD, "1")
        .stdin(terminal.try_clone().unwrap())
        .stdout(terminal.try_clone().unwrap())
        .stderr(terminal.try_clone().unwrap())
        .spawn()
        .unwrap();
    let reader = thread::spawn(move || {
        let (mut bytes, mut text) = ([0; 4096], String::new());
        while let Ok(number @ 1..) = master.read(&mut bytes) {
            text.push_str(&String::from_utf8_lossy(&bytes[..number]));
        }
        text
    });
    assert!(!child.wait().unwrap().success(), "it panics");
    assert!(is_as_before(&terminal));
    // The reader ends when nobody has the terminal any more.
    drop(terminal);
    let text = reader.join().unwrap();
    let (drawn, after) =
        text.split_once(LEAVE).unwrap_or_else(|| panic!("the screen of before is not back: {text:?}"));
    assert!(drawn.contains(ENTER) && drawn.contains("a frame"), "{drawn:?}");
    assert!(
        !drawn.contains(MESSAGE) && after.contains(MESSAGE),
        "the message goes with the screen: {text:?}"
    );
}
