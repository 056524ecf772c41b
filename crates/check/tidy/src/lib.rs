//! The workspace as data, for the tests beside this crate that check its shape: which way dependencies point, what
//! cores may reach for, licences, sizes, documents.
//!
//! **Invariant.** Reads the source tree and what `cargo metadata` says of it, offline. Nothing depends on it, and no
//! code of the product is run.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

mod absence;
mod literals;
mod modules;
mod ratchets;
mod shape;

pub use absence::mapped_to_nothing;
pub use literals::{Literal, literals, product_code, without_text};
pub use modules::Modules;
pub use ratchets::Counts;
pub use shape::{Function, functions, methods};

/// The workspace: where it is, and what cargo knows of it and of everything it is built from.
#[derive(Debug)]
pub struct Workspace {
    /// The folder with the workspace's `Cargo.toml`.
    pub root: PathBuf,
    /// The crates under `crates/`.
    pub crates: Vec<Package>,
    /// Every package in the lock file, ours included.
    pub packages: Vec<Package>,
}

/// One package.
#[derive(Debug, Clone)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its licence expression, empty if it states none.
    pub license: String,
    /// The folder it is in.
    pub folder: PathBuf,
    /// The packages that it needs to run (neither build nor dev), by name.
    pub dependencies: BTreeSet<String>,
}

impl Package {
    /// The name without the prefix of all of ours; `cli` for the command.
    #[must_use]
    pub fn short(&self) -> &str {
        short(&self.name)
    }
}

/// The name of a crate of ours without the prefix; `cli` for the command.
#[must_use]
pub fn short(name: &str) -> &str {
    name.strip_prefix("lazaret-").unwrap_or(if name == "lazaret" { "cli" } else { name })
}

impl Workspace {
    /// Asks cargo, offline.
    ///
    /// # Errors
    /// When cargo cannot be run or its answer is not understood.
    pub fn load() -> io::Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize()?;
        let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
        // Packages for other platforms are never fetched, so cargo could not describe them offline.
        let output = Command::new(cargo)
            .args([
                "metadata",
                "--format-version",
                "1",
                "--offline",
                "--locked",
                "--filter-platform",
                &host()?,
            ])
            .current_dir(&root)
            .output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        let metadata: Value = serde_json::from_slice(&output.stdout)?;
        let packages: Vec<Package> = array(&metadata["packages"]).iter().map(package).collect();
        let members: BTreeSet<String> =
            array(&metadata["workspace_members"]).iter().map(|id| text(id).to_owned()).collect();
        let crates = array(&metadata["packages"])
            .iter()
            .filter(|entry| members.contains(text(&entry["id"])))
            .map(package)
            .collect();
        Ok(Self { root, crates, packages })
    }

    /// A file of the workspace as text, empty if it is not there.
    #[must_use]
    pub fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root.join(path)).unwrap_or_default()
    }
}

/// All files below `folder` whose name ends so, in order; build output and fuzzing's leftovers aside.
#[must_use]
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | ".git" | "node_modules" | "artifacts" | "corpus") {
                    open.push(path);
                }
            } else if name.ends_with(ending) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// The platform that this machine builds for.
fn host() -> io::Result<String> {
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let output = Command::new(rustc).arg("-vV").output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("host: "));
    line.map(str::to_owned).ok_or_else(|| io::Error::other("rustc does not say what it builds for"))
}

fn package(entry: &Value) -> Package {
    let folder = Path::new(text(&entry["manifest_path"])).parent().unwrap_or(Path::new("")).to_path_buf();
    let dependencies = array(&entry["dependencies"])
        .iter()
        .filter(|dependency| dependency["kind"].is_null())
        .map(|dependency| text(&dependency["name"]).to_owned())
        .collect();
    Package {
        name: text(&entry["name"]).to_owned(),
        version: text(&entry["version"]).to_owned(),
        license: text(&entry["license"]).to_owned(),
        folder,
        dependencies,
    }
}

fn array(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
