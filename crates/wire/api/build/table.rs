//! The tables as the build script needs them. Those of `schema` are checked by its tests.

use std::{collections::BTreeMap, error::Error, fs};

use crate::limits::Limits;

const TABLES: &str = "../schema/tables";

/// The fields of each type.
pub(crate) type Table = BTreeMap<String, Vec<Field>>;

#[derive(Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    /// Without the `*` of an optional one.
    pub(crate) ty: String,
    pub(crate) is_optional: bool,
    pub(crate) is_always: bool,
    pub(crate) is_required: bool,
    /// In JSON.
    pub(crate) default: Option<String>,
    pub(crate) limits: Limits,
}

impl Field {
    /// The name in Rust: `deadlineSeconds` as `deadline_seconds`.
    pub(crate) fn snake_case(&self) -> String {
        match snake_case(&self.name) {
            name if matches!(name.as_str(), "for" | "type") => format!("r#{name}"),
            name => name,
        }
    }
}

pub(crate) fn snake_case(name: &str) -> String {
    let mut out = String::new();
    let mut is_inside = false;
    for c in name.chars() {
        if c.is_ascii_uppercase() && is_inside {
            out.push('_');
        }
        is_inside = !c.is_ascii_uppercase();
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Reads a table. Fields of embedded types of the same table stand with those of the type that embeds them.
pub(crate) fn table(name: &str) -> Result<Table, Box<dyn Error>> {
    let path = format!("{TABLES}/{name}.txt");
    println!("cargo::rerun-if-changed={path}");
    let (mut types, mut current) = (Table::new(), String::new());
    let mut aliases = BTreeMap::new();
    let text = fs::read_to_string(&path)?;
    let is_read = |line: &&str| !line.is_empty() && !line.starts_with('#') && !line.starts_with("    ");
    for line in text.lines().filter(is_read) {
        if let Some(said) = line.strip_prefix("  ") {
            let field = field(said, &aliases).ok_or_else(|| format!("{path}: {line}"))?;
            types.get_mut(&current).ok_or_else(|| format!("{path}: {line}"))?.push(field);
        } else if let Some((name, meaning)) = line.split_once(" = ") {
            aliases.insert(name, meaning);
        } else {
            line.split(' ').next().unwrap_or_default().clone_into(&mut current);
            types.insert(current.clone(), Vec::new());
        }
    }
    let lenders = types.clone();
    for fields in types.values_mut() {
        let lent = |field: &Field| lenders.get(&field.ty).filter(|_| field.name == "inline").cloned();
        *fields =
            fields.iter().flat_map(|field| lent(field).unwrap_or_else(|| vec![field.clone()])).collect();
    }
    Ok(types)
}

fn field(line: &str, aliases: &BTreeMap<&str, &str>) -> Option<Field> {
    let mut words = line.split(' ');
    let (name, ty) = (words.next()?, words.nth(1)?);
    let (is_optional, ty) = (ty.starts_with('*'), ty.trim_start_matches('*'));
    let mut meant = aliases.get(ty).copied().unwrap_or(ty).split(' ');
    let mut field = Field {
        name: name.to_owned(),
        ty: meant.next()?.to_owned(),
        is_optional,
        is_always: false,
        is_required: false,
        default: None,
        limits: Limits::default(),
    };
    for flag in meant.chain(words) {
        field.is_always |= flag == "!";
        field.is_required |= flag == "required";
        if let Some(value) = flag.strip_prefix("default=") {
            field.default = Some(value.to_owned());
        }
        // Flags that are no limits matter to the server alone.
        let _ = field.limits.take(flag);
    }
    Some(field)
}
