//! The modules of the page as one file. A browser that finds the imports of a module only after it has read it asks in as many rounds as
//! modules are deep; one file is one request.
//!
//! Each module becomes a function that is called once and returns what it exports. It has to be written as ours are: one `import { … } from
//! "./name.js";` a line, at the start of the line, `export` in front of a declaration, and no text in backquotes over several lines.
//!
//! Comments that have lines of their own are left out: the types of the page are half of its lines, and no browser reads them.

use std::fmt::Write as _;

/// A module: its name and its text.
pub type Module = (&'static str, &'static str);

/// All modules that `entry` needs, each after those that it needs itself.
///
/// # Errors
/// Which module is missing or needs itself.
pub fn bundle(entry: &str, modules: &[Module]) -> Result<String, String> {
    let mut bundle = Bundle { modules, done: Vec::new(), open: Vec::new(), text: String::new() };
    bundle.add(entry)?;
    Ok(bundle.text)
}

struct Bundle<'a> {
    modules: &'a [Module],
    done: Vec<String>,
    /// Modules that are being added: one of them that is needed again needs itself.
    open: Vec<String>,
    text: String,
}

impl Bundle<'_> {
    fn add(&mut self, name: &str) -> Result<(), String> {
        if self.done.iter().any(|one| one == name) {
            return Ok(());
        }
        if self.open.iter().any(|one| one == name) {
            return Err(format!("{name} needs itself"));
        }
        let found = self.modules.iter().find(|(one, _)| *one == name);
        let (_, source) = found.ok_or_else(|| format!("there is no {name}"))?;
        self.open.push(name.to_owned());
        let (mut body, mut exports) = (String::new(), Vec::new());
        for line in
            code(source).ok_or_else(|| format!("{name}: a comment or a text in backquotes is not closed"))?
        {
            if let Some((names, from)) = import(line) {
                self.add(from)?;
                let _ = writeln!(body, "const {{ {} }} = {};", names.trim(), variable(from));
            } else if let Some(declaration) = line.strip_prefix("export ") {
                exports.push(declared(declaration).ok_or_else(|| format!("{name}: {line}"))?);
                let _ = writeln!(body, "{declaration}");
            } else {
                let _ = writeln!(body, "{line}");
            }
        }
        let exports = exports.join(", ");
        let _ = write!(
            self.text,
            "// {name}\nconst {} = (() => {{\n{body}return {{ {exports} }};\n}})();\n",
            variable(name)
        );
        self.open.pop();
        self.done.push(name.to_owned());
        Ok(())
    }
}

/// The lines of a module without those that are comments. None where it cannot be told: a comment is not closed or has code after it in its last
/// line, or backquotes are not closed in their line, so that a line that looks like a comment may be part of a text.
fn code(source: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut lines = source.lines();
    while let Some(line) = lines.next() {
        let text = line.trim();
        if text.starts_with("//") {
            continue;
        }
        match text.strip_prefix("/*").map(|comment| comment.find("*/").map(|end| &comment[end + 2..])) {
            // The whole line.
            Some(Some("")) => {}
            // Over several lines.
            Some(None) => {
                let last = lines.find(|line| line.contains("*/"))?;
                if !last.trim_end().ends_with("*/") {
                    return None;
                }
            }
            // Code, or a comment and code.
            None | Some(Some(_)) => {
                if line.matches('`').count() % 2 != 0 {
                    return None;
                }
                found.push(line);
            }
        }
    }
    Some(found)
}

/// The names that a line imports, and the file that it imports them from.
fn import(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("import {")?;
    let (names, from) = rest.split_once("} from \"./")?;
    Some((names, from.strip_suffix("\";")?))
}

/// The name that a declaration declares.
fn declared(declaration: &str) -> Option<&str> {
    let kinds = ["const ", "class ", "function ", "async function ", "async function* "];
    let rest = kinds.iter().find_map(|kind| declaration.strip_prefix(kind))?;
    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
    Some(&rest[..end])
}

/// The name of a module in the bundle.
fn variable(file: &str) -> String {
    let name = file.strip_suffix(".js").unwrap_or(file);
    format!("module_{}", name.replace('-', "_"))
}
