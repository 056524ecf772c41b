//! The dashboard in a real browser, against `lazaret up`: every page in every look, acts by mouse and by keyboard alone, rules
//! as YAML, drains, incidents, guards, a user with few rights, a lost server, recordings. Says NOT RUN where there is no chromium. Conditions are waited for; no time is judged.
//!
//! `LAZARET_PICTURES=FOLDER` leaves pictures of every page there.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]
#![allow(clippy::disallowed_methods, reason = "a test waits in real time for a browser")]
#![allow(clippy::print_stderr, clippy::print_stdout, reason = "figures and what did not run are for people")]

mod acts;
mod chromium;
mod drains;
mod figures;
mod incidents;
mod looks;
mod numbers;
mod recordings;
mod rules;
mod server;
#[path = "../../../../check/testkit/tests/tools/mod.rs"]
mod tools;

use chromium::Browser;
use lazaret_missing::not_run;

/// A browser, or a word on why there is none.
fn browser(test: &str) -> Option<Browser> {
    let found = chromium::find();
    if found.is_none() {
        not_run(test, "chromium", "there is no chromium");
    }
    found.map(|path| Browser::start(&path))
}
