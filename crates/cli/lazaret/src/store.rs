//! `lazaret store`: check, back up, restore and compact the files of a server, and make keys for them.

mod compact;
mod new_key;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Result, anyhow};
use clap::Subcommand;
use lazaret_store::{ArchiveError, Archived, OpenError, Report, back_up, restore, verify};
use serde::Serialize;

use crate::{
    Verdict,
    output::{self, Format, Table},
    place::Place,
};

/// Revisions that a restored store leaves out. Clients that saw revisions of the lost store must not meet them again
/// with another content: at 1,000 writes a second this covers eleven days between backup and loss.
const SKIP_REVISIONS: u64 = 1_000_000_000;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Read every file of a store and check it; the server may be running
    #[command(after_help = VERIFY_EXAMPLES)]
    Verify {
        #[command(flatten)]
        place: Place,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Write what a store holds into one file, and read it back; the server may be running
    #[command(after_help = BACKUP_EXAMPLES)]
    Backup {
        /// The file to make; encrypted if the store is
        file: PathBuf,
        #[command(flatten)]
        place: Place,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Make a store of a backup; the server must be stopped and the store's directory empty
    #[command(after_help = RESTORE_EXAMPLES)]
    Restore {
        /// The backup
        file: PathBuf,
        #[command(flatten)]
        place: Place,
        /// Leave out this many revisions, so that no client takes a new revision for one that it saw before
        #[arg(long, value_name = "COUNT", default_value_t = SKIP_REVISIONS)]
        skip_revisions: u64,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Write a snapshot now and remove the log before it; through the server if it is running
    Compact(compact::Args),
    /// Make a key for encryption at rest
    NewKey(new_key::Args),
}

const VERIFY_EXAMPLES: &str =
    "Exit codes: 0 intact, 1 not readable (a key is missing, for instance), 2 damaged.

Examples:
  lazaret store verify --data-dir /var/lib/lazaret
  lazaret store verify --data-dir /var/lib/lazaret --encryption-key-file /etc/lazaret/keys -o json";

const BACKUP_EXAMPLES: &str = "The backup holds all that was acknowledged before the command. Certificates and the key of tokens are not in it:
they are in the data directory, and a new server makes new ones.

Examples:
  lazaret store backup /backups/monday --data-dir /var/lib/lazaret
  lazaret store backup /backups/monday --data-dir /var/lib/lazaret --encryption-key-file /etc/lazaret/keys";

const RESTORE_EXAMPLES: &str = "Examples:
  lazaret store restore /backups/monday --data-dir /var/lib/lazaret-new
  lazaret up --data-dir /var/lib/lazaret-new";

impl Command {
    pub(crate) fn run(self) -> Result<Verdict> {
        match self {
            Command::Verify { place, output } => check(&place, output),
            Command::Backup { file, place, output } => {
                let dir = place.store()?;
                output::note(&format!("reading {}", dir.display()));
                let done = back_up(&dir, &file, &place.options()?).map_err(|error| anyhow!(error))?;
                print_done(&Done::new("backed up", &done, &file.display().to_string()), output)
            }
            Command::Restore { file, place, skip_revisions, output } => {
                let dir = place.store()?;
                output::note(&format!("reading {}", file.display()));
                let done = restore(&file, &dir, skip_revisions, &place.options()?)
                    .map_err(|error| anyhow!(error))?;
                print_done(&Done::new("restored", &done, &dir.display().to_string()), output)
            }
            Command::Compact(args) => args.run(),
            Command::NewKey(args) => args.run(),
        }
    }
}

/// A file that was written.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    done: &'static str,
    path: String,
    revision: u64,
    items: u64,
    bytes: u64,
}

impl Done {
    fn new(done: &'static str, archived: &Archived, path: &str) -> Self {
        let Archived { revision, items, bytes } = *archived;
        Self { done, path: path.to_owned(), revision, items, bytes }
    }
}

fn print_done(done: &Done, format: Format) -> Result<Verdict> {
    if format == Format::Table {
        let Done { done, path, revision, items, bytes } = done;
        output::print(&format!(
            "{done} {items} objects at revision {revision}: {path} ({bytes} bytes, checked)\n"
        ))?;
    } else {
        output::structured(done, format)?;
    }
    Ok(Verdict::Yes)
}

/// The findings of `verify`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Checked {
    intact: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    damage: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    oldest_revision: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    items: Option<u64>,
    /// Bytes at the end of the log that are no whole commit.
    tail_bytes: u64,
    files: Vec<CheckedFile>,
    /// For each key in use, how many files need it; `identity` stands for files that are not encrypted.
    keys_in_use: BTreeMap<String, usize>,
    /// Keys of the key file that no file needs and that do not encrypt new ones.
    keys_unused: Vec<String>,
}

#[derive(Debug, Serialize)]
struct CheckedFile {
    name: String,
    bytes: u64,
    frames: u64,
    key: String,
}

fn check(place: &Place, format: Format) -> Result<Verdict> {
    let options = place.options()?;
    let checked = match verify(&place.store()?, &options) {
        Ok(report) => Checked::new(report, options.encryption.ids()),
        Err(ArchiveError::Open(error @ (OpenError::Damaged { .. } | OpenError::Missing { .. }))) => {
            Checked { damage: Some(error.to_string()), ..Checked::default() }
        }
        Err(error) => return Err(anyhow!(error)),
    };
    if format == Format::Table {
        output::print(&checked.text(place.encryption_key_file.is_some()))?;
    } else {
        output::structured(&checked, format)?;
    }
    Ok(if checked.intact { Verdict::Yes } else { Verdict::No })
}

impl Checked {
    fn new<'a>(report: Report, keys: impl Iterator<Item = &'a str>) -> Self {
        let files: Vec<CheckedFile> = report
            .files
            .into_iter()
            .map(|file| CheckedFile {
                name: file.name,
                bytes: file.bytes,
                frames: file.frames,
                key: file.key.unwrap_or_else(|| "identity".into()),
            })
            .collect();
        let mut keys_in_use: BTreeMap<String, usize> = BTreeMap::new();
        for file in &files {
            *keys_in_use.entry(file.key.clone()).or_default() += 1;
        }
        let keys_unused =
            keys.skip(1).filter(|id| !keys_in_use.contains_key(*id)).map(str::to_owned).collect();
        Self {
            intact: true,
            damage: None,
            revision: Some(report.revision),
            oldest_revision: Some(report.oldest),
            items: Some(report.items),
            tail_bytes: report.tail_bytes,
            files,
            keys_in_use,
            keys_unused,
        }
    }

    fn text(&self, has_key_file: bool) -> String {
        if let Some(damage) = &self.damage {
            return format!("damaged: {damage}\n");
        }
        let mut table = Table::new(&["FILE", "BYTES", "FRAMES", "KEY"]);
        for file in &self.files {
            let (bytes, frames) = (file.bytes.to_string(), file.frames.to_string());
            table.row([file.name.as_str(), &bytes, &frames, &file.key]);
        }
        let mut text = table.to_string();
        let (items, revision) = (self.items.unwrap_or(0), self.revision.unwrap_or(0));
        text.push_str(&format!("\nintact: {items} objects at revision {revision}\n"));
        if self.tail_bytes > 0 {
            text.push_str(&format!(
                "tail: {} bytes that are no whole commit: one being written, or torn by a crash and cut off at the next start\n",
                self.tail_bytes
            ));
        }
        if has_key_file {
            for id in &self.keys_unused {
                text.push_str(&format!(
                    "key {id} is not used by any file: it may be removed from the key file\n"
                ));
            }
            let writing = self.files.last().map_or("", |file| file.key.as_str());
            for (id, count) in self.keys_in_use.iter().filter(|(id, _)| *id != writing) {
                text.push_str(&format!(
                    "key {id} is still used by {}: `lazaret store compact` ends that\n",
                    lazaret_print::count(*count, "file")
                ));
            }
        }
        text
    }
}
