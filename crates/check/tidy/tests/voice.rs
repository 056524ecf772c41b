//! Text that people read is plain: it has none of the openings and phrases that [`tic`] finds, and no name is a metaphor.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

use std::{fs, path::Path};

use lazaret_tidy::{Workspace, files, literals};

/// Words that a sentence does not begin with. They name no subject.
const BEGINNINGS: &[&str] = &["What", "Who", "Nobody"];
/// Phrases that stand for a number or for a word of Kubernetes.
const PHRASES: &[&str] = &["so many", "is told", "are told"];
/// The name of a page, a button and a question.
const WHAT_IF: &[&str] = &["-if", " if"];
/// Names that are metaphors, and the names that replaced them.
const METAPHORS: &[(&str, &str)] = &[
    ("bears_bars", "is_optional"),
    ("deaf_until", "batch_until"),
    ("Moment", "DecodeCache"),
    ("Desk", "PartContext"),
    ("CapacityDesk", "CapacityClient"),
    ("Overseer", "ReplacementTracker"),
    ("RightOfWay", "Priority"),
    ("Shelf", "Table or MemoryObjects"),
];
/// A name that may stand inside a module, where the input of another crate has to be told from the own one, but not in a public item.
const PRIVATE_ONLY: (&str, &str) = ("Heard", "Change");
/// Crates that only tests and developers run.
const NOT_FOR_USERS: &[&str] = &["sim", "tidy", "testkit", "instructions", "nvml-double", "missing"];

/// The tic in a text, if it has one. Questions may begin with "What" and "Who".
fn tic(text: &str) -> Option<&'static str> {
    if let Some(phrase) = PHRASES.iter().find(|phrase| words(text, phrase).next().is_some()) {
        return Some(phrase);
    }
    BEGINNINGS.iter().copied().find(|word| {
        words(text, word).any(|after| {
            let is_question =
                after.find(['.', '!', '?', '\n']).is_some_and(|at| after[at..].starts_with('?'));
            !is_question && !WHAT_IF.iter().any(|name| after.starts_with(name))
        })
    })
}

/// The text after each place at which `word` stands as a word of its own.
fn words<'a>(text: &'a str, word: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(word).filter_map(move |(at, _)| {
        let (before, after) = (&text[..at], &text[at + word.len()..]);
        let apart = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        (apart(before.chars().next_back()) && apart(after.chars().next())).then_some(after)
    })
}

#[test]
fn a_tic_is_found_and_a_question_is_none() {
    for (text, found) in [
        ("What it waits for.", Some("What")),
        ("It is held. Who may approve it is in the spec.", Some("Who")),
        ("Nobody answers", Some("Nobody")),
        ("At most so many pods", Some("so many")),
        ("a plugin is told why", Some("is told")),
        ("What would it do?", None),
        ("Is it held? What follows is not known.", Some("What")),
        ("What-if", None),
        ("What if…", None),
        ("Whatever was out of service counts, for those who asked", None),
    ] {
        assert_eq!(tic(text), found, "{text}");
    }
}

/// Gathers tics with their places.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    fn look(&mut self, path: &Path, line: usize, text: &str) {
        if let Some(tic) = tic(text) {
            self.0.push(format!("{}:{line}: {tic:?} in {text:?}", path.display()));
        }
    }

    fn assert_none(self) {
        let Self(found) = self;
        assert!(
            found.is_empty(),
            "name the subject, the number or the verb of Kubernetes:\n{}",
            found.join("\n")
        );
    }
}

#[test]
fn documents_are_plain() {
    let workspace = Workspace::load().unwrap();
    let mut documents = files(&workspace.root.join("docs"), ".md");
    let roots = ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| workspace.root.join(name));
    documents.extend(roots);
    let mut findings = Findings::default();
    for path in &documents {
        let text = fs::read_to_string(path).unwrap();
        let mut is_code = false;
        for (at, line) in text.lines().enumerate() {
            is_code ^= line.trim_start().starts_with("```");
            if !is_code {
                findings.look(path, at + 1, line);
            }
        }
    }
    assert!(documents.len() > 30, "only {} documents", documents.len());
    findings.assert_none();
}

#[test]
fn manifests_pages_and_descriptions_are_plain() {
    let workspace = Workspace::load().unwrap();
    let mut findings = Findings::default();
    let mut known = 0;
    for (folder, ending, comment) in [
        ("deploy", ".yaml", None),
        ("deploy", ".tpl", None),
        ("deploy", ".json", None),
        ("examples", ".yaml", None),
        ("crates/wire/schema/tables", ".txt", None),
        ("crates/server/dashboard/ui", ".html", None),
        ("crates/server/dashboard/ui", ".js", Some(["//", "/*", "*"])),
    ] {
        for path in files(&workspace.root.join(folder), ending) {
            known += 1;
            for (at, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
                let is_comment =
                    |marks: [&str; 3]| marks.iter().any(|mark| line.trim_start().starts_with(mark));
                if !comment.is_some_and(is_comment) {
                    findings.look(&path, at + 1, line);
                }
            }
        }
    }
    assert!(known > 50, "only {known} files");
    findings.assert_none();
}

/// Literals of the product; its help texts are comments.
#[test]
fn texts_of_programs_are_plain() {
    let workspace = Workspace::load().unwrap();
    let mut findings = Findings::default();
    let mut known = 0;
    for package in &workspace.crates {
        if NOT_FOR_USERS.contains(&package.short()) {
            continue;
        }
        for path in files(&package.folder.join("src"), ".rs") {
            let is_test = path.components().any(|part| part.as_os_str() == "tests")
                || path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
            if is_test {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            for literal in literals(&text) {
                known += 1;
                findings.look(&path, literal.line, &literal.text);
            }
        }
    }
    assert!(known > 10_000, "only {known} literals");
    findings.assert_none();
}

/// Those of tests as well, and of help texts.
#[test]
fn comments_are_plain() {
    let workspace = Workspace::load().unwrap();
    let list = Path::new(file!()).file_name();
    let mut findings = Findings::default();
    let mut known = 0;
    for path in workspace.crates.iter().flat_map(|package| files(&package.folder, ".rs")) {
        if path.file_name() == list {
            continue;
        }
        for (at, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            if let Some(comment) = line.trim_start().strip_prefix("//") {
                known += 1;
                findings.look(&path, at + 1, comment);
            }
        }
    }
    assert!(known > 20_000, "only {known} lines");
    findings.assert_none();
}

/// In code, comments and documents alike; only the list above has these names.
#[test]
fn no_name_is_a_metaphor() {
    let workspace = Workspace::load().unwrap();
    let list = Path::new(file!()).file_name().unwrap();
    let mut looked_at = files(&workspace.root.join("docs"), ".md");
    looked_at.extend(workspace.crates.iter().flat_map(|package| files(&package.folder, ".rs")));
    looked_at.retain(|path| path.file_name() != Some(list));
    let mut found = Vec::new();
    for path in &looked_at {
        let text = fs::read_to_string(path).unwrap();
        for (at, line) in text.lines().enumerate() {
            let is_public = line.trim_start().starts_with("pub ");
            for (name, better) in METAPHORS.iter().chain(is_public.then_some(&PRIVATE_ONLY)) {
                if words(line, name).next().is_some() {
                    found.push(format!("{}:{}: {name}, better {better}", path.display(), at + 1));
                }
            }
        }
    }
    assert!(looked_at.len() > 1_000, "only {} files", looked_at.len());
    assert!(found.is_empty(), "{}", found.join("\n"));
}
