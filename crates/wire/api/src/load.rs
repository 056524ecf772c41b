//! Files and directories of objects.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fmt, fs,
    io::Read,
    path::{Path as FilePath, PathBuf},
};

use lazaret_model::{
    DeviceClass, DeviceTaintRule, Node, Pod, ResourceClaim, ResourceSlice, ResourceSlicePatch, Text,
};

use crate::{
    convert::ClaimTemplate,
    decode::{Header, Object, decode},
    document::{Place, Syntax, for_each_object},
    field::FieldError,
};

/// The largest file that is read.
pub const FILE_BYTES_MAX: u64 = 64 << 20;
/// Directories within directories are followed this far.
const DIRECTORY_DEPTH_MAX: usize = 32;
/// Bound on the errors reported at once.
const ERRORS_MAX: usize = 100;

/// Everything that was loaded, in the order of the files and the documents in them.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// Slices that drivers publish.
    pub slices: Vec<ResourceSlice>,
    /// Classes of devices.
    pub classes: Vec<DeviceClass>,
    /// Claims.
    pub claims: Vec<ResourceClaim>,
    /// Templates of claims.
    pub templates: Vec<ClaimTemplate>,
    /// Rules that taint.
    pub rules: Vec<DeviceTaintRule>,
    /// Patches of devices.
    pub patches: Vec<ResourceSlicePatch>,
    /// Pods.
    pub pods: Vec<Pod>,
    /// Nodes.
    pub nodes: Vec<Node>,
    /// How many objects of other kinds were passed over, by kind.
    pub skipped: BTreeMap<String, usize>,
    /// Slices that share a name with another and are used all the same, each in a sentence.
    pub repeated: Vec<String>,
}

impl Objects {
    /// Adds an object.
    pub fn insert(&mut self, object: Object) {
        match object {
            Object::Slice(slice) => self.slices.push(slice),
            Object::Class(class) => self.classes.push(class),
            Object::Claim(claim) => self.claims.push(claim),
            Object::Template(template) => self.templates.push(template),
            Object::Rule(rule) => self.rules.push(rule),
            Object::Patch(patch) => self.patches.push(patch),
            Object::Pod(pod) => self.pods.push(pod),
            Object::Node(node) => self.nodes.push(node),
            // Nothing that is loaded from files asks about groups.
            Object::Group(_) => *self.skipped.entry("PodGroup".to_owned()).or_default() += 1,
            Object::Other(kind) => *self.skipped.entry(kind).or_default() += 1,
        }
    }
}

/// Something that could not be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    /// The file, or what the text was called.
    pub file: String,
    /// Which document of the file, from one; 0 when the file itself is the problem.
    pub document: usize,
    /// Which item of a list, from one.
    pub item: Option<usize>,
    /// Kind, namespace and name, as far as they are known.
    pub object: String,
    /// The field and the reason.
    pub error: FieldError,
}

/// All that could not be loaded, at most 100.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadErrors(pub Vec<LoadError>);

/// Loads files, and directories with all that they hold in `.yaml`, `.yml` and `.json`, in the order of their names.
///
/// # Errors
/// When a file cannot be read, a document is not what it says it is, or an object is there twice. All files are
/// read, so that all errors are reported at once.
pub fn load<P: AsRef<FilePath>>(paths: impl IntoIterator<Item = P>) -> Result<Objects, LoadErrors> {
    let mut loader = Loader::default();
    for path in paths {
        loader.path(path.as_ref(), 0);
    }
    loader.finish()
}

/// Loads a text, as from a pipe. The name is for errors, and its ending decides between JSON and YAML.
///
/// # Errors
/// When a document is not what it says it is, or an object is there twice.
pub fn load_text(name: &str, text: &str) -> Result<Objects, LoadErrors> {
    let mut loader = Loader::default();
    loader.text(name, text);
    loader.finish()
}

#[derive(Default)]
struct Loader {
    objects: Objects,
    /// Where each object was seen, by kind, namespace and name.
    seen: BTreeMap<String, String>,
    errors: Vec<LoadError>,
}

impl Loader {
    fn finish(self) -> Result<Objects, LoadErrors> {
        if self.errors.is_empty() { Ok(self.objects) } else { Err(LoadErrors(self.errors)) }
    }

    fn path(&mut self, path: &FilePath, depth: usize) {
        let found = if path.is_dir() { self.directory(path, depth) } else { self.file(path) };
        if let Err(message) = found {
            self.file_error(path, message);
        }
    }

    fn file_error(&mut self, path: &FilePath, message: String) {
        self.report(LoadError {
            file: path.display().to_string(),
            document: 0,
            item: None,
            object: String::new(),
            error: FieldError { path: String::new(), message },
        });
    }

    fn report(&mut self, error: LoadError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    fn directory(&mut self, path: &FilePath, depth: usize) -> Result<(), String> {
        if depth == DIRECTORY_DEPTH_MAX {
            return Err(format!("is more than {DIRECTORY_DEPTH_MAX} directories deep"));
        }
        let mut entries: Vec<PathBuf> = fs::read_dir(path)
            .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
            .map_err(|error| format!("list: {error}"))?;
        entries.sort();
        for entry in entries {
            // A link to a directory may lead back to where we came from.
            let looped = entry.is_symlink() && entry.is_dir();
            if entry.is_dir() && !looped || is_ours(&entry) {
                self.path(&entry, depth + 1);
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &FilePath) -> Result<(), String> {
        let file = fs::File::open(path).map_err(|error| format!("open: {error}"))?;
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| format!("read: {error}"))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(format!("is larger than {} MiB", FILE_BYTES_MAX >> 20));
        }
        self.text(&path.display().to_string(), &text);
        Ok(())
    }

    fn text(&mut self, name: &str, text: &str) {
        // Windows tools like to start a file with a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        for_each_object(text, Syntax::of(name, text), &mut |place, found| {
            if let Err((object, error)) = self.object(name, place, found) {
                self.report(LoadError {
                    file: name.to_owned(),
                    document: place.document,
                    item: place.item,
                    object,
                    error,
                });
            }
        });
    }

    fn object(
        &mut self,
        file: &str,
        place: Place,
        found: Result<(Header, &str), FieldError>,
    ) -> Result<(), (String, FieldError)> {
        let (header, json) = found.map_err(|error| (String::new(), error))?;
        let label = header.label();
        let object = decode(&header, json).map_err(|error| (label.clone(), error))?;
        if matches!(object, Object::Other(_)) {
            self.objects.insert(object);
            return Ok(());
        }
        let here = format!("{file}: {place}");
        match (self.seen.entry(header.identity()), object) {
            (Entry::Vacant(entry), object) => {
                entry.insert(here);
                self.objects.insert(object);
            }
            (Entry::Occupied(entry), Object::Slice(slice)) => {
                self.objects
                    .repeated
                    .push(format!("{label} is in {} and in {here}: both are used", entry.get()));
                let name = self.name_beside(&slice.name);
                self.objects.insert(Object::Slice(ResourceSlice { name, ..slice }));
            }
            (Entry::Occupied(entry), _) => {
                let message = format!("is already in {}", entry.get());
                return Err((label, FieldError { path: String::new(), message }));
            }
        }
        Ok(())
    }

    /// A name that no slice has yet and that sorts right behind `name`: it separates two captures of a pool, or two pools
    /// with the same names of slices.
    fn name_beside(&self, name: &Text) -> Text {
        let taken = |candidate: &str| self.objects.slices.iter().any(|slice| slice.name == candidate);
        let mut number = 2_usize;
        loop {
            let candidate = format!("{name} ({number})");
            if !taken(&candidate) {
                return candidate.into();
            }
            number += 1;
        }
    }
}

fn is_ours(path: &FilePath) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).map(str::to_ascii_lowercase);
    matches!(ending.as_deref(), Some("yaml" | "yml" | "json"))
}

impl Header {
    /// For people: what is known of the kind and the name.
    fn label(&self) -> String {
        let (namespace, name) = (&self.metadata.0.namespace.0, &self.metadata.0.name.0);
        let name = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        format!("{} {name}", self.kind.0).trim().to_owned()
    }

    /// Equal for two objects that are the same, in whatever version.
    fn identity(&self) -> String {
        let namespaced = matches!(self.kind.0.as_str(), "Pod" | "ResourceClaim" | "ResourceClaimTemplate");
        let namespace = match self.metadata.0.namespace.0.as_str() {
            _ if !namespaced => "",
            "" => "default",
            other => other,
        };
        format!("{} {namespace}/{}", self.kind.0, self.metadata.0.name.0)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {}", self.document)?;
        self.item.map_or(Ok(()), |item| write!(f, ", item {item}"))
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.file)?;
        if self.document > 0 {
            write!(f, "{}", Place { document: self.document, item: self.item })?;
            if !self.object.is_empty() {
                write!(f, " ({})", self.object)?;
            }
            f.write_str(": ")?;
        }
        self.error.fmt(f)
    }
}

impl std::error::Error for LoadError {}

impl fmt::Display for LoadErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            if at > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for LoadErrors {}
