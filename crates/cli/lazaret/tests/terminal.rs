//! `kubectl device top` on a terminal: it draws without flicker, and leaves the terminal as it was, however it ends.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "a test waits in real time for a process")]

mod support;

use std::{
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    fs::OFlags,
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize},
};
use support::{Cluster, LAZARET, PATIENCE};

const LOOK_EVERY: Duration = Duration::from_millis(50);
/// The screen of before, with its cursor.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
const CLEAR: &str = "\x1b[2J";
const FRAME: &str = "\x1b[?2026h";

/// `kubectl device top` on a terminal of 80 columns and 24 lines.
struct Shown {
    process: Child,
    /// Held open: a terminal that no process holds hangs up.
    terminal: File,
    keyboard: File,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Shown {
    fn start(cluster: &Cluster) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap().into_string().unwrap();
        let no_control = i32::try_from(OFlags::NOCTTY.bits()).unwrap();
        let terminal = {
            use std::os::unix::fs::OpenOptionsExt as _;
            OpenOptions::new().read(true).write(true).custom_flags(no_control).open(path).unwrap()
        };
        let process = Command::new(LAZARET)
            .args(["device", "top"])
            .env("KUBECONFIG", cluster.folder.path().join("kubeconfig"))
            .env("TERM", "xterm")
            .stdin(terminal.try_clone().unwrap())
            .stdout(terminal.try_clone().unwrap())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let keyboard = File::from(master);
        let (mut output, written) = (keyboard.try_clone().unwrap(), Arc::new(Mutex::new(Vec::new())));
        let kept = Arc::clone(&written);
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(number @ 1..) = output.read(&mut bytes) {
                kept.lock().unwrap().extend_from_slice(&bytes[..number]);
            }
        });
        Self { process, terminal, keyboard, written }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    fn until(&mut self, what: &str, holds: impl Fn(&mut Self) -> bool) {
        let end = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(Instant::now() < end, "{what}: never; written: {:?}", self.text());
            thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether lines are edited and echoed by the terminal itself, as before a program takes it over.
    fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.terminal).unwrap().local_modes;
        modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }

    fn until_drawn(&mut self) {
        self.until("it draws the fleet", |shown| shown.text().contains(" devices on 2 nodes"));
        assert!(!self.is_as_before(), "single keys are read");
    }

    fn until_ended(&mut self) {
        self.until("it ends", |shown| matches!(shown.process.try_wait(), Ok(Some(_))));
        self.until("the screen of before is back", |shown| shown.text().ends_with(LEAVE));
        assert!(self.is_as_before());
        assert!(self.process.wait().unwrap().success());
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }
}

#[test]
fn a_terminal_is_left_as_it_was_however_top_ends() {
    let cluster = Cluster::start(&["--nodes", "2", "--devices", "4"]);
    let mut shown = Shown::start(&cluster);
    shown.until_drawn();
    // Later frames write what changed: the screen is cleared when it is entered and before the first frame, and never again.
    shown.until("it draws again", |shown| shown.text().matches(FRAME).count() > 3);
    assert_eq!(shown.text().matches(CLEAR).count(), 2, "{:?}", shown.text());
    shown.keyboard.write_all(b"/node-2\r").unwrap();
    shown.until("it filters", |shown| shown.text().contains(" devices on 1 node   filter: node-2"));
    shown.keyboard.write_all(b"q").unwrap();
    shown.until_ended();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut shown = Shown::start(&cluster);
        shown.until_drawn();
        shown.signal(signal);
        shown.until_ended();
    }
}
