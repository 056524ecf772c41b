//! What fields mean, in words for people.
//!
//! The text is part of the program and is searched where it is: it is asked for when somebody fetches a document, and never
//! otherwise. In `descriptions/*.txt`, one for each group, a type begins at the left margin with its name and what it is; each indented
//! line is a field. What is said of `*` in `common.txt` holds for fields of any type that say nothing themselves.

const GROUPS: &[(&str, &str)] = &[
    ("resource", include_str!("../descriptions/resource.txt")),
    ("core", include_str!("../descriptions/core.txt")),
    ("meta", include_str!("../descriptions/meta.txt")),
];

const COMMON: &str = include_str!("../descriptions/common.txt");
const ANY: &str = "*";

/// What is said of one type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Description {
    /// From the line of the type on.
    text: &'static str,
}

impl Description {
    /// Of a type by its name, `resource/v1.Device`. A type means the same in every version.
    pub(crate) fn of(shape: &str) -> Self {
        let (package, name) = shape.split_once('.').unwrap_or_default();
        let group = package.split('/').next().unwrap_or_default();
        let known = GROUPS.iter().find(|(known, _)| *known == group).map_or("", |(_, text)| text);
        Self { text: section(known, name) }
    }

    /// What the type is.
    pub(crate) fn itself(self) -> Option<&'static str> {
        self.text.lines().next().and_then(|line| line.split_once(": ")).map(|(_, text)| text)
    }

    /// What a field of it means.
    pub(crate) fn field(self, name: &str) -> Option<&'static str> {
        said(self.text, name).or_else(|| said(section(COMMON, ANY), name))
    }
}

/// The lines about a type.
fn section(text: &'static str, name: &str) -> &'static str {
    let mut at = 0;
    let mut begin = None;
    for line in text.split_inclusive('\n') {
        if !line.starts_with(' ') {
            if begin.is_some() {
                break;
            }
            begin = line.strip_prefix(name).is_some_and(|rest| rest.starts_with(':')).then_some(at);
        }
        at += line.len();
    }
    begin.and_then(|begin| text.get(begin..at)).unwrap_or_default()
}

fn said(section: &'static str, name: &str) -> Option<&'static str> {
    let mut fields = section.lines().skip(1).filter_map(|line| line.trim_start().split_once(": "));
    fields.find(|(field, _)| *field == name).map(|(_, text)| text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazaret_schema::builtin;

    fn types<'a>(package: &'a str) -> impl Iterator<Item = &'static lazaret_schema::StructType> + 'a {
        let all = builtin().names().filter_map(|(name, id)| Some((name, builtin().get_struct(id)?)));
        all.filter(move |(name, _)| name.starts_with(package)).map(|(_, found)| found)
    }

    #[test]
    fn every_field_of_a_kind_for_devices_is_described() {
        let mut missing = Vec::new();
        for found in types("resource/") {
            let description = Description::of(&found.name);
            if description.itself().is_none() {
                missing.push(found.name.clone());
            }
            let fields = found.fields.keys().filter(|field| said(description.text, field).is_none());
            missing.extend(fields.map(|field| format!("{}.{field}", found.name)));
        }
        assert_eq!(missing, Vec::<String>::new());
    }

    #[test]
    fn whatever_is_described_is_there() {
        for (group, text) in GROUPS {
            let known: Vec<_> = types(&format!("{group}/")).collect();
            let mut fields: Vec<&str> = Vec::new();
            for line in text.lines() {
                let (name, said) = line.split_once(": ").unwrap_or_else(|| panic!("{group}: {line:?}"));
                assert!(said.ends_with('.') && !said.contains("  "), "{group}: {line:?}");
                if let Some(field) = name.strip_prefix("  ") {
                    assert!(fields.contains(&field), "{group}: no field {field:?}");
                } else {
                    let same = known.iter().filter(|found| found.name.rsplit('.').next() == Some(name));
                    fields = same.flat_map(|found| found.fields.keys().map(String::as_str)).collect();
                    assert!(!fields.is_empty() || name == "NullValue", "{group}: no type {name:?}");
                }
            }
        }
    }

    #[test]
    fn a_type_that_says_nothing_of_a_field_leaves_it_to_what_holds_for_all() {
        let deployment = Description::of("apps/v1.Deployment");
        assert_eq!(deployment.itself(), None);
        assert_eq!(deployment.field("spec"), Some("Desired state."));
        assert_eq!(deployment.field("frob"), None);
        assert!(Description::of("core/v1.Pod").field("spec").is_some_and(|text| text.contains("containers")));
    }
}
