//! The path of a field in an object, formatted only for an error.

use std::fmt;

/// `spec.devices[3].attributes[model]`, as a chain of steps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    parent: Option<&'a Path<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Field(&'a str),
    Index(usize),
    Key(&'a str),
}

/// Keys of maps are cut beyond this: the longest that a valid one can be, `domain/identifier`.
const KEY_BYTES_MAX: usize = 96;

impl<'a> Path<'a> {
    /// A field of the object itself.
    pub(crate) const fn root(field: &'a str) -> Self {
        Self { parent: None, step: Step::Field(field) }
    }

    /// A field below.
    pub(crate) const fn field(&'a self, name: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Field(name) }
    }

    /// An item of the list.
    pub(crate) const fn index(&'a self, at: usize) -> Self {
        Self { parent: Some(self), step: Step::Index(at) }
    }

    /// An entry of the map.
    pub(crate) const fn key(&'a self, key: &'a str) -> Self {
        Self { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Field(name) if self.parent.is_some() => write!(f, ".{name}"),
            Step::Field(name) => f.write_str(name),
            Step::Index(at) => write!(f, "[{at}]"),
            Step::Key(key) if key.len() <= KEY_BYTES_MAX => write!(f, "[{key}]"),
            Step::Key(key) => {
                let start: String = key.chars().take(KEY_BYTES_MAX / 2).collect();
                write!(f, "[{start}...]")
            }
        }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> Self {
        path.to_string()
    }
}

impl From<&Path<'_>> for String {
    fn from(path: &Path<'_>) -> Self {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_read_as_kubernetes_writes_them() {
        let spec = Path::root("spec");
        assert_eq!(
            spec.field("devices").index(3).field("attributes").key("a.b/c").to_string(),
            "spec.devices[3].attributes[a.b/c]"
        );
        let long = "é".repeat(100);
        assert!(spec.key(&long).to_string().len() < 110);
    }
}
