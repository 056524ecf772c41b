//! The commands in the documents print what is shown there.
//!
//! Every block that begins with ```` ```console ```` is run: a line `$ COMMAND` by the shell at the root of the workspace, with the binary of
//! this build first on the path. The lines up to the next command are what it must print, both streams together; a last line `? N` is its
//! exit code where that is not 0. With `UPDATE_CONSOLE=1` the blocks are rewritten with what was printed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// Runs a command; what it printed, and its exit code if that is not 0.
fn run(command: &str) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_lazaret")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1; {command}")])
        .current_dir(root())
        .env("PATH", path)
        .env("COLUMNS", "110")
        .env_remove("RUST_BACKTRACE")
        .output()
        .unwrap();
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    match output.status.code() {
        Some(0) => text,
        code => format!("{text}? {}\n", code.map_or_else(|| "killed".to_owned(), |code| code.to_string())),
    }
}

/// The document with every console block as it is when run, and how many commands there were.
fn played(document: &str) -> (String, usize) {
    let mut out = String::new();
    let mut commands = 0;
    let mut in_block = false;
    for line in document.lines() {
        match (in_block, line) {
            (false, "```console") => in_block = true,
            (true, "```") => in_block = false,
            (true, line) => {
                let Some(command) = line.strip_prefix("$ ") else { continue };
                commands += 1;
                out.push_str(&format!("{line}\n{}", run(command)));
                continue;
            }
            (false, _) => {}
        }
        out.push_str(line);
        out.push('\n');
    }
    (out, commands)
}

#[test]
fn documents_show_what_the_command_prints() {
    let mut documents = vec![root().join("README.md")];
    for folder in ["docs", "crates/cli/lazaret/tests/console"] {
        let entries = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
        documents.extend(entries.filter(|path| path.extension().is_some_and(|ending| ending == "md")));
    }
    documents.sort();
    let mut total = 0;
    for path in documents {
        let written = fs::read_to_string(&path).unwrap();
        let (actual, commands) = played(&written);
        total += commands;
        if actual == written {
            continue;
        }
        if env::var_os("UPDATE_CONSOLE").is_some() {
            fs::write(&path, actual).unwrap();
            continue;
        }
        let at = actual.lines().zip(written.lines()).position(|(a, b)| a != b).unwrap_or(0);
        let around =
            |text: &str| text.lines().skip(at.saturating_sub(3)).take(12).collect::<Vec<_>>().join("\n");
        panic!(
            "{}: line {}\n--- printed\n{}\n--- written\n{}",
            path.display(),
            at + 1,
            around(&actual),
            around(&written)
        );
    }
    assert!(total >= 20, "only {total} commands were found");
}
