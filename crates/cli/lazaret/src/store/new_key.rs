//! `lazaret store new-key`: a key file, or a new key at the beginning of one.

use std::{
    fs::{self, OpenOptions, Permissions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use lazaret_store::{EncryptionKey, EncryptionKeys};

use crate::{Verdict, output, place::read_keys};

/// Make a key for encryption at rest.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The key file to make; without it the line goes to standard output
    file: Option<PathBuf>,
    /// Put the new key before those that the file holds: it encrypts from the next start on, they still decrypt
    #[arg(long, requires = "file")]
    rotate: bool,
}

const EXAMPLES: &str = "A key file has one entry a line: an id, a space and 32 bytes in base64; or the word `identity`, which stands for files
that are not encrypted. The first entry is for writing, all of them for reading.

Examples:
  lazaret store new-key /etc/lazaret/keys                    a new store, encrypted from the beginning
  echo identity >> /etc/lazaret/keys                         or one that is not encrypted yet
  lazaret up --encryption-key-file /etc/lazaret/keys

To rotate: put a new key first, start the server again, compact, and remove the old key once `verify` says so:
  lazaret store new-key --rotate /etc/lazaret/keys
  lazaret store compact
  lazaret store verify --encryption-key-file /etc/lazaret/keys";

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        let key = EncryptionKey::generate().context("the operating system gives no random bytes")?;
        let Some(file) = &self.file else {
            output::print(&format!("{}\n", key.line()))?;
            return Ok(Verdict::Yes);
        };
        let text = if self.rotate {
            let old = read_keys(file)?;
            let name = file.display().to_string();
            EncryptionKeys::parse(&old, &name).with_context(|| format!("read keys from {name}"))?;
            format!("{}\n{old}", key.line())
        } else {
            if file.symlink_metadata().is_ok() {
                bail!("{} exists: give another path, or --rotate to add a key to it", file.display());
            }
            format!("{}\n", key.line())
        };
        write_private(file, &text).with_context(|| format!("write {}", file.display()))?;
        output::print(&format!("{} is the first key of {}\n", key.id(), file.display()))?;
        Ok(Verdict::Yes)
    }
}

/// Whole or not at all, for the owner only: losing half a key file would lose a store.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let beside = path.with_file_name(name);
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&beside)?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::File::open(parent)?.sync_all()
}
