//! `lazaret node image`: the images that a node has.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use lazaret_images::{Image, Images, Keychain, Limits};
use serde::Serialize;

use crate::{
    Verdict,
    output::{self, Format, Table},
};

/// Import, list, pull and remove the images of a node.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Import an OCI layout, an archive of `docker save`, or a root file system
    Import {
        /// A directory or a tar file, which may be compressed; `-` is standard input
        #[arg(value_name = "PATH")]
        path: PathBuf,
        /// The name of the image, where the archive has none or another is wanted
        #[arg(long, value_name = "IMAGE")]
        name: Option<String>,
        #[command(flatten)]
        place: Place,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// List images
    List {
        #[command(flatten)]
        place: Place,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Pull an image from its registry
    Pull {
        /// The image, as in a pod
        #[arg(value_name = "IMAGE")]
        name: String,
        /// A file with credentials, as in a Secret of type kubernetes.io/dockerconfigjson
        #[arg(long, value_name = "PATH")]
        pull_secret: Option<PathBuf>,
        #[command(flatten)]
        place: Place,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    /// Remove images that no container uses
    Remove {
        /// Names or ids
        #[arg(value_name = "IMAGE", required = true)]
        names: Vec<String>,
        #[command(flatten)]
        place: Place,
    },
    /// Remove all images that no container uses
    Prune {
        #[command(flatten)]
        place: Place,
        /// How to print
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

#[derive(Debug, clap::Args)]
struct Place {
    /// Where the node keeps its files
    #[arg(long, value_name = "PATH", default_value = lazaret_driver::KUBELET_ROOT)]
    root: PathBuf,
    /// Where the node keeps its images, if `lazaret node` has that flag too [default: images below --root]
    #[arg(long, value_name = "PATH", conflicts_with = "root")]
    image_root: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  lazaret node image import busybox.tar
  docker save app:1 | lazaret node image import -
  lazaret node image import ./rootfs --name localhost/tools:1
  lazaret node image list -o json
  lazaret node image prune

Registries are asked over HTTPS; those on loopback over plain HTTP.";

/// An image in machine-readable form.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    name: String,
    id: String,
    repo_digest: Option<String>,
    bytes: u64,
    layers: Vec<PathBuf>,
}

impl From<Image> for Shown {
    fn from(image: Image) -> Self {
        let Image { id, name, repo_digest, config: _, layers, is_opaque: _, bytes } = image;
        Self { name, id, repo_digest, bytes, layers }
    }
}

impl Args {
    pub(crate) fn run(self) -> Result<Verdict> {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().enable_all().build().context("start the runtime")?;
        runtime.block_on(self.work())?;
        Ok(Verdict::Yes)
    }

    async fn work(self) -> Result<()> {
        match self.action {
            Action::Import { path, name, place, output } => {
                show(import(&place.open()?, &path, name.as_deref()).await?, output)
            }
            Action::List { place, output } => show(place.open()?.list().await?, output),
            Action::Pull { name, pull_secret, place, output } => {
                show(vec![pull(&place.open()?, &name, pull_secret.as_deref()).await?], output)
            }
            Action::Remove { names, place } => remove(&place.open()?, &names).await,
            Action::Prune { place, output } => prune(&place.open()?, output).await,
        }
    }
}

impl Place {
    fn open(&self) -> Result<Images> {
        let below_root = || self.root.join(lazaret_images::DIRECTORY);
        Ok(Images::open(self.image_root.clone().unwrap_or_else(below_root), Limits::default())?)
    }
}

async fn import(images: &Images, path: &Path, name: Option<&str>) -> Result<Vec<Image>> {
    if path == Path::new("-") {
        return images.import_reader(std::io::stdin(), name).await.context("import standard input");
    }
    images.import(path, name).await.with_context(|| format!("import {}", path.display()))
}

async fn pull(images: &Images, name: &str, pull_secret: Option<&Path>) -> Result<Image> {
    let keychain = match pull_secret {
        Some(path) => {
            let content = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
            Keychain::parse(&content).with_context(|| format!("read {}", path.display()))?
        }
        None => Keychain::default(),
    };
    Ok(images.pull(name, &keychain).await?)
}

async fn remove(images: &Images, names: &[String]) -> Result<()> {
    let mut failed = 0;
    for name in names {
        match images.remove(name).await {
            Ok(()) => output::note(&format!("removed {name}")),
            Err(error) => {
                failed += 1;
                output::note(&format!("error: {error}"));
            }
        }
    }
    if failed > 0 {
        bail!("{failed} of {} images were not removed", names.len());
    }
    Ok(())
}

async fn prune(images: &Images, format: Format) -> Result<()> {
    let collected = images.prune().await?;
    if format != Format::Table {
        let value = serde_json::json!({ "names": collected.names, "bytes": collected.bytes });
        return output::structured(&value, format);
    }
    for name in &collected.names {
        output::print(&format!("{name}\n"))?;
    }
    output::note(&format!(
        "removed {}, {}",
        lazaret_print::count(collected.names.len(), "name"),
        size(collected.bytes)
    ));
    Ok(())
}

fn show(images: Vec<Image>, format: Format) -> Result<()> {
    let images: Vec<Shown> = images.into_iter().map(Shown::from).collect();
    if format != Format::Table {
        return output::structured(&images, format);
    }
    let mut table = Table::new(&["NAME", "ID", "LAYERS", "SIZE"]);
    for image in images {
        // As much of an id as Docker shows.
        let id = image.id.trim_start_matches("sha256:").chars().take(12).collect::<String>();
        table.row([image.name, id, image.layers.len().to_string(), size(image.bytes)]);
    }
    Ok(output::print(&table.to_string())?)
}

/// Bytes for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let (mut value, mut unit) = (bytes, "B");
    let mut rest = 0;
    for next in UNITS {
        if value < 1_024 {
            break;
        }
        rest = value % 1_024 * 10 / 1_024;
        value /= 1_024;
        unit = next;
    }
    if unit == "B" || value >= 100 { format!("{value}{unit}") } else { format!("{value}.{rest}{unit}") }
}
