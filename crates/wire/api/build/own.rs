//! Readers of our own kinds: everything of a field that the table says is read by it.

use std::{error::Error, fmt::Write as _};

use crate::table::{Field, Table};

/// A type of the table, and the type of a core that is made of it.
struct Reader {
    /// In the table, and on the wire.
    name: &'static str,
    /// Fields that are not read.
    unread: &'static [&'static str],
    /// A field that is not in the table is refused. Otherwise it is left out.
    is_strict: bool,
    /// Limits are checked. Lists of a status are cut where they are read: it is no reason not to read an object.
    is_checked: bool,
    made: Made,
}

/// The type of a core, whose fields have the same names.
enum Made {
    /// The conversion is written by hand.
    ByHand,
    /// All of them come from here.
    All(&'static str),
    /// Others, and these, are added by hand.
    Some(&'static str, &'static [&'static str]),
}

const READERS: &[Reader] = &[
    lax("Act"),
    strict("AnyDeviceSelector"),
    strict("CELExpression"),
    strict("DeviceExpression"),
    strict("DeviceHealthPolicySpec"),
    Reader { unread: &["conditions"], ..lax("DeviceHealthPolicyStatus") },
    lax("DeviceIdentity"),
    strict("HealthCount"),
    strict("HealthFlaps"),
    strict("HealthJob"),
    lax("HealthLasting"),
    strict("HealthRecovery"),
    strict("HealthRepair"),
    strict("HealthRequest"),
    strict("HealthRule"),
    strict("HealthServiceAccount"),
    strict("HealthStep"),
    strict("HealthTaint"),
    lax("HealthTally"),
    strict("HealthValidation"),
    lax("DeviceIncidentSpec"),
    Reader { unread: &["timeToRecoverSeconds"], ..status("DeviceIncidentStatus") },
    lax("DeviceSignalSpec"),
    Reader {
        made: Made::Some("lazaret_model::DisruptionGuard", &["deviceSelector"]),
        ..lax("DisruptionGuardSpec")
    },
    status("DisruptionGuardStatus"),
    lax("GuardBreaker"),
    Reader { made: Made::All("lazaret_model::BreakerStatus"), ..status("GuardBreakerStatus") },
    Reader { made: Made::All("lazaret_model::ConfirmAbove"), ..lax("GuardConfirmAbove") },
    status("GuardHeldTaint"),
    Reader { made: Made::All("lazaret_model::Pause"), ..lax("GuardPause") },
    Reader { made: Made::All("lazaret_model::GuardPreview"), ..status("GuardSelected") },
    status("GuardWindowStatus"),
    status("IncidentCost"),
    status("IncidentDemand"),
    Reader { made: Made::All("lazaret_lifecycle::Entry"), ..status("IncidentEntry") },
    Reader { made: Made::All("lazaret_lifecycle::Handled"), ..status("IncidentHandled") },
    status("IncidentHeld"),
    status("IncidentTask"),
    Reader { made: Made::All("lazaret_lifecycle::Times"), ..status("IncidentTimes") },
    lax("ReplacementOptions"),
    lax("TaintOption"),
    Reader { unread: &["podSelector"], ..lax("TaintReplacementPolicySpec") },
];

const fn lax(name: &'static str) -> Reader {
    Reader { name, unread: &[], is_strict: false, is_checked: true, made: Made::ByHand }
}

const fn strict(name: &'static str) -> Reader {
    Reader { is_strict: true, ..lax(name) }
}

const fn status(name: &'static str) -> Reader {
    Reader { is_checked: false, unread: &["conditions"], ..lax(name) }
}

/// Types that are read as those of Kubernetes are, by the names that they have there.
const ELSEWHERE: &[(&str, &str)] =
    &[("DeviceSelector", "DeviceSelector"), ("HealthEviction", "Raw"), ("Window", "Window")];

/// The types on the wire, then their checks and conversions.
pub(crate) fn write(table: &Table) -> Result<(String, String), Box<dyn Error>> {
    let (mut fields, mut impls) = (String::from("fields! {\n"), String::new());
    for reader in READERS {
        let found = table.get(reader.name).ok_or_else(|| format!("no type {} in the table", reader.name))?;
        let found = found.iter().filter(|field| !reader.unread.contains(&field.name.as_str()));
        let found: Vec<&Field> = found.collect();
        write_fields(&mut fields, reader, &found)?;
        if reader.is_checked {
            write_check(&mut impls, reader, &found)?;
        }
        match reader.made {
            Made::ByHand => {}
            Made::All(model) => {
                writeln!(impls, "impl FromWire<wire::{}> for {model} {{", reader.name)?;
                writeln!(
                    impls,
                    "fn from_wire(wire: wire::{}, path: &Path<'_>) -> Result<Self> {{",
                    reader.name
                )?;
                write_conversion(&mut impls, &found, &[])?;
                writeln!(impls, "}})\n}}\n}}")?;
            }
            Made::Some(model, others) => {
                writeln!(impls, "impl wire::{} {{", reader.name)?;
                writeln!(impls, "/// The fields that have the same name there, and the rest of it.")?;
                writeln!(
                    impls,
                    "pub(crate) fn into_model(self, rest: {model}, path: &Path<'_>) -> Result<{model}> {{"
                )?;
                writeln!(impls, "type Model = {model};\nlet wire = self;")?;
                write_conversion(&mut impls, &found, others)?;
                writeln!(impls, "..rest }})\n}}\n}}")?;
            }
        }
    }
    fields.push_str("}\n");
    Ok((fields, impls))
}

fn write_fields(out: &mut String, reader: &Reader, fields: &[&Field]) -> Result<(), Box<dyn Error>> {
    let required: Vec<String> =
        fields.iter().filter(|field| field.is_required).map(|field| format!("{:?}", field.name)).collect();
    writeln!(out, "pub(crate) struct {}({}; {}) {{", reader.name, reader.is_strict, required.join(", "))?;
    for field in fields {
        let (name, ty) = (field.snake_case(), wire_type(field)?);
        let default = match &field.default {
            Some(text) if text == "{}" => String::new(),
            Some(text) if text.starts_with('"') => format!(" or Nullable({text}.to_owned())"),
            Some(number) => format!(" or Nullable({number})"),
            None => String::new(),
        };
        writeln!(out, "pub(crate) {name}: {ty} = {:?}{default},", field.name)?;
    }
    writeln!(out, "}}")?;
    Ok(())
}

/// One that is required is there when an object is read; for others null is the same as absence.
fn wire_type(field: &Field) -> Result<String, Box<dyn Error>> {
    let plain = if let Some(item) = field.ty.strip_prefix("[]") {
        format!("Vec<{}>", plain_type(item)?)
    } else {
        plain_type(&field.ty)?.to_owned()
    };
    Ok(match field {
        Field { is_required: true, .. } => plain,
        Field { is_optional: true, .. } => format!("Option<{plain}>"),
        _ => format!("Nullable<{plain}>"),
    })
}

fn plain_type(ty: &str) -> Result<&str, Box<dyn Error>> {
    match ty {
        "string" | "duration" => Ok("String"),
        "int32" | "int64" => Ok("i64"),
        "bool" => Ok("bool"),
        "time" => Ok("Instant"),
        "intorstring" | "json" => Ok("Raw"),
        _ if reader(ty).is_some() => Ok(ty),
        _ => {
            let found = ELSEWHERE.iter().find(|(table, _)| *table == ty).map(|(_, wire)| *wire);
            Ok(found.ok_or_else(|| format!("no reader of {ty}"))?)
        }
    }
}

fn reader(ty: &str) -> Option<&'static Reader> {
    READERS.iter().find(|reader| reader.name == ty)
}

fn write_conversion(out: &mut String, fields: &[&Field], others: &[&str]) -> Result<(), Box<dyn Error>> {
    let model = if others.is_empty() { "Self" } else { "Model" };
    writeln!(out, "Ok({model} {{")?;
    for field in fields.iter().filter(|field| !others.contains(&field.name.as_str())) {
        let name = field.snake_case();
        let read = if field.limits.values.is_empty() { "read" } else { "named" };
        writeln!(out, "{name}: from_wire::{read}(wire.{name}, &path.field({:?}))?,", field.name)?;
    }
    Ok(())
}

/// The limits of the fields, and those of the objects in them.
fn write_check(out: &mut String, reader: &Reader, fields: &[&Field]) -> Result<(), Box<dyn Error>> {
    writeln!(out, "impl wire::{} {{", reader.name)?;
    writeln!(out, "pub(crate) fn check(&self, path: &Path<'_>) -> Result<()> {{\nlet _ = path;")?;
    for field in fields {
        let checks = checks(field)?;
        if checks.is_empty() {
            continue;
        }
        let name = field.snake_case();
        let found = match field {
            Field { is_required: true, .. } => format!("{{ let found = &self.{name};"),
            Field { is_optional: true, .. } => format!("if let Some(found) = &self.{name} {{"),
            _ => format!("{{ let found = &self.{name}.0;"),
        };
        writeln!(out, "{found}\nlet path = &path.field({:?});", field.name)?;
        writeln!(out, "{checks}}}")?;
    }
    writeln!(out, "Ok(())\n}}\n}}")?;
    Ok(())
}

fn checks(field: &Field) -> Result<String, Box<dyn Error>> {
    let (mut out, limits) = (String::new(), &field.limits);
    // An empty text may stand for one that is absent.
    let may_be_absent = !field.is_required && !field.is_optional && field.default.is_none();
    if limits.filled && !may_be_absent {
        writeln!(out, "limits::required(!found.is_empty(), true, path, \"\")?;")?;
    }
    if !limits.values.is_empty() {
        let absent = if may_be_absent { "found.is_empty() || " } else { "" };
        writeln!(
            out,
            "limits::one_of({absent}{:?}.contains(&&**found), {:?}, path, found)?;",
            limits.values,
            limits.values.join(", ")
        )?;
    }
    if let Some(most) = limits.chars {
        writeln!(out, "limits::chars(found, {most}, path)?;")?;
    }
    if field.ty.starts_with("int")
        && field.ty != "intorstring"
        && (limits.min.is_some() || limits.max.is_some())
    {
        writeln!(out, "limits::range(Some(*found), {:?}, {:?}, path)?;", limits.min, limits.max)?;
    }
    if let Some(items) = limits.items {
        writeln!(out, "limits::items(found.len(), {items}, path)?;")?;
    }
    let is_checked = |ty| reader(ty).is_some_and(|reader| reader.is_checked);
    match field.ty.strip_prefix("[]") {
        Some(item) if is_checked(item) => {
            writeln!(out, "for (at, item) in found.iter().enumerate() {{ item.check(&path.index(at))?; }}")?;
        }
        None if is_checked(&field.ty) => writeln!(out, "found.check(path)?;")?,
        Some(_) | None => {}
    }
    Ok(out)
}
