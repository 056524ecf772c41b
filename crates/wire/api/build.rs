//! Writes the readers of everything that a DeviceTaintRule and our own kinds are made of, from the tables of `schema`.
//!
//! A field is a line of a table. From it follow the name and type on the wire, the default, the limits that are checked when an object is read, whether
//! only v1alpha3 has it, and, where the type of the model has a field of the same name, how it gets there. `src/wire/rule.rs` and `src/convert/rule.rs`
//! include what is written here, `src/wire/own.rs` and `src/convert/own.rs` what `build/own.rs` writes.

use std::{env, error::Error, fmt::Write as _, fs, path::Path};

use table::{Field, snake_case, table};

#[allow(dead_code, unreachable_pub, reason = "it is a part of another crate")]
#[path = "../schema/src/limits.rs"]
mod limits;
#[path = "build/own.rs"]
mod own;
#[path = "build/table.rs"]
mod table;

/// A type of the tables, and what is made of it.
struct Reader {
    /// In the tables.
    table: &'static str,
    /// On the wire.
    wire: &'static str,
    /// In the model, with the fields that the model does not have.
    model: Option<(&'static str, &'static [&'static str])>,
    /// Its limits are checked, and fields of v1alpha3 brought back.
    is_checked: bool,
}

const READERS: &[Reader] = &[
    Reader { table: "DeviceTaintRuleSpec", wire: "RuleSpec", model: None, is_checked: true },
    Reader { table: "DeviceTaintSelector", wire: "DeviceSelector", model: None, is_checked: true },
    Reader { table: "DeviceTaint", wire: "Taint", model: Some(("Taint", &["data"])), is_checked: true },
    Reader {
        table: "DeviceTaintRuleEviction",
        wire: "Eviction",
        model: Some(("EvictionSpec", &[])),
        is_checked: true,
    },
    Reader { table: "DeviceTaintRuleWindow", wire: "Window", model: None, is_checked: false },
    Reader { table: "DeviceTaintRuleStatus", wire: "RuleStatus", model: None, is_checked: false },
    Reader {
        table: "DeviceTaintRuleEvictions",
        wire: "RuleEvictions",
        model: Some(("EvictionCount", &[])),
        is_checked: false,
    },
];

/// Types that are read by hand.
const BY_HAND: &[(&str, &str)] = &[("meta/v1.Condition", "Condition"), ("DeviceSelector", "Selector")];

fn main() -> Result<(), Box<dyn Error>> {
    for file in ["build.rs", "build"] {
        println!("cargo::rerun-if-changed={file}");
    }
    println!("cargo::rerun-if-changed=../schema/src/limits.rs");
    let (narrow, wide) = (table("resource_v1")?, table("resource_v1alpha3")?);
    let (mut fields, mut impls) = (String::from("fields! {\n"), String::new());
    for reader in READERS {
        let found = wide.get(reader.table).ok_or_else(|| format!("no type {} in the table", reader.table))?;
        let known = narrow.get(reader.table);
        let is_new =
            |field: &Field| known.is_some_and(|known| known.iter().all(|one| one.name != field.name));
        write_fields(&mut fields, reader, found)?;
        if reader.is_checked || reader.model.is_some() {
            write_impl(&mut impls, reader, found, is_new)?;
        }
    }
    fields.push_str("}\n");
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("rule_fields.rs"), fields)?;
    fs::write(Path::new(&out).join("rule_impls.rs"), impls)?;
    let (fields, impls) = own::write(&table("lazaret_v1alpha1")?)?;
    fs::write(Path::new(&out).join("own_fields.rs"), fields)?;
    fs::write(Path::new(&out).join("own_impls.rs"), impls)?;
    Ok(())
}

fn write_fields(out: &mut String, reader: &Reader, fields: &[Field]) -> Result<(), Box<dyn Error>> {
    writeln!(out, "pub(crate) struct {} {{", reader.wire)?;
    for field in fields {
        let (name, ty) = (field.snake_case(), wire_type(field)?);
        writeln!(out, "pub(crate) {name}: {ty} = {:?},", field.name)?;
    }
    writeln!(out, "}}")?;
    Ok(())
}

/// The type of a field on the wire.
fn wire_type(field: &Field) -> Result<String, Box<dyn Error>> {
    if let Some(item) = field.ty.strip_prefix("[]") {
        return Ok(format!("Nullable<Vec<{}>>", plain_type(item)?));
    }
    let holder = if field.is_optional { "Option" } else { "Nullable" };
    Ok(format!("{holder}<{}>", plain_type(&field.ty)?))
}

fn plain_type(ty: &str) -> Result<&'static str, Box<dyn Error>> {
    let of_reader = READERS.iter().find(|reader| reader.table == ty).map(|reader| reader.wire);
    let by_hand = || BY_HAND.iter().find(|(table, _)| *table == ty).map(|(_, wire)| *wire);
    match ty {
        "string" => Ok("String"),
        "int32" | "int64" => Ok("i64"),
        "bool" => Ok("bool"),
        "time" | "microtime" => Ok("Instant"),
        "raw" => Ok("Raw"),
        _ => Ok(of_reader.or_else(by_hand).ok_or_else(|| format!("no reader of {ty}"))?),
    }
}

fn write_impl(
    out: &mut String,
    reader: &Reader,
    fields: &[Field],
    is_new: impl Fn(&Field) -> bool,
) -> Result<(), Box<dyn Error>> {
    writeln!(out, "impl wire::{} {{", reader.wire)?;
    if reader.is_checked {
        writeln!(out, "pub(super) fn check(&self, version: Version, path: &Path<'_>) -> Result<()> {{")?;
        writeln!(out, "let _ = (version, path);")?;
        // One error is reported: a text that is missing is named before all others.
        let (filled, others): (Vec<_>, Vec<_>) = fields.iter().partition(|field| field.limits.filled);
        for field in filled.into_iter().chain(others) {
            write_checks(out, field, is_new(field))?;
        }
        writeln!(out, "Ok(())\n}}")?;
        if fields.iter().any(&is_new) {
            writeln!(out, "/// Takes over the fields that only v1alpha3 has.")?;
            writeln!(out, "pub(super) fn restore(&mut self, said: Self) {{")?;
            for field in fields.iter().filter(|field| is_new(field)) {
                let name = field.snake_case();
                writeln!(out, "self.{name} = said.{name};")?;
            }
            writeln!(out, "}}")?;
        }
    }
    if let Some((model, skipped)) = reader.model {
        writeln!(
            out,
            "pub(super) fn into_model(self, path: &Path<'_>) -> Result<lazaret_model::{model}> {{"
        )?;
        writeln!(out, "Ok(lazaret_model::{model} {{")?;
        for field in fields.iter().filter(|field| !skipped.contains(&field.name.as_str())) {
            let name = field.snake_case();
            let read = if field.limits.values.is_empty() || field.limits.ratchet {
                "from_wire::read"
            } else {
                "from_wire::named"
            };
            writeln!(out, "{name}: {read}(self.{name}, &path.field({:?}))?,", field.name)?;
        }
        writeln!(out, "..Default::default()\n}})\n}}")?;
    }
    writeln!(out, "}}")?;
    Ok(())
}

/// Checks of one field: nothing is said of one that is absent, but that it is required.
fn write_checks(out: &mut String, field: &Field, is_new: bool) -> Result<(), Box<dyn Error>> {
    let (name, limits) = (field.snake_case(), &field.limits);
    let path = format!("&path.field({:?})", field.name);
    let is_there =
        if field.is_optional { format!("self.{name}.is_some()") } else { format!("!self.{name}.is_empty()") };
    let has = |other: &limits::Companion| format!("self.{}.0 == {:?}", snake_case(&other.field), other.value);
    if is_new {
        writeln!(out, "if {is_there} {{ version.superset_only({path})?; }}")?;
    }
    if field.is_always && field.ty == "string" {
        writeln!(out, "limits::required({is_there}, true, {path}, \"\")?;")?;
    }
    if let Some(other) = &limits.required_with {
        let with = format!(" with {} {}", other.field, other.value);
        writeln!(out, "limits::required({is_there}, {}, {path}, {with:?})?;", has(other))?;
    }
    if limits.min.is_some() || limits.max.is_some() {
        writeln!(out, "limits::range(self.{name}, {:?}, {:?}, {path})?;", limits.min, limits.max)?;
    }
    if let Some(bytes) = limits.bytes {
        match field.ty.as_str() {
            "raw" => writeln!(out, "limits::raw(self.{name}.as_ref(), {bytes}, {path})?;")?,
            _ => writeln!(out, "limits::bytes(self.{name}.0.len(), {bytes}, {path})?;")?,
        }
    }
    if let Some(items) = limits.items {
        writeln!(out, "limits::items(self.{name}.0.len(), {items}, {path})?;")?;
    }
    if let Some(other) = &limits.needs {
        let words = format!("needs {} {}", other.field, other.value);
        writeln!(out, "limits::needs({is_there}, {}, {path}, {words:?})?;", has(other))?;
    }
    Ok(())
}
