//! Which modules of a crate need which others, by the paths in their files.
//!
//! A module is a file. It needs another if a path in it leads there: of a `use` or in the code, from `crate`, `super` or `self`, or from a module
//! below it. A name that a module only re-exports leads to the module that has it. Comments, literals and tests count for nothing. Methods are not
//! seen: a type may be extended by modules above the one that has it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use crate::{files, product_code, without_text};

/// The segments of a path; those of a module lead to it from the root of its crate.
type Segments = Vec<String>;

/// Re-exports that lead to re-exports are followed this far.
const REEXPORTS_MAX: usize = 8;

/// The modules of a crate.
#[derive(Debug, Default)]
pub struct Modules {
    /// Each module with those that it needs.
    needs: BTreeMap<Segments, BTreeSet<Segments>>,
}

/// A path as a file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Named {
    path: Segments,
    /// The name that it has from now on, where others may use it.
    exported: Option<String>,
}

impl Modules {
    /// The modules below `folder`, which is the `src` of a crate.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn load(folder: &Path) -> io::Result<Self> {
        let mut sources = Vec::new();
        for path in files(folder, ".rs") {
            let name = path.strip_prefix(folder).unwrap_or(&path).to_string_lossy().into_owned();
            sources.push((name, fs::read_to_string(&path)?));
        }
        let sources: Vec<(&str, &str)> =
            sources.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        Ok(Self::of(&sources))
    }

    /// The modules of files, each with its path below `src`.
    fn of(sources: &[(&str, &str)]) -> Self {
        let product = sources.iter().filter(|(file, _)| !file.contains("tests"));
        let named: BTreeMap<Segments, Vec<Named>> =
            product.map(|(file, text)| (module_of(file), paths(text))).collect();
        let exports = Exports::of(&named);
        let needs = named.iter().filter(|(module, _)| !module.is_empty()).map(|(module, paths)| {
            let targets = paths.iter().filter_map(|named| exports.target(&named.path, module));
            (module.clone(), targets.filter(|target| target != module && !target.is_empty()).collect())
        });
        Self { needs: needs.collect() }
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.needs.len()
    }

    /// For each module that needs itself by way of others, those of them that it needs directly.
    #[must_use]
    pub fn circles(&self) -> Vec<String> {
        let reached: BTreeMap<&Segments, BTreeSet<&Segments>> =
            self.needs.keys().map(|module| (module, self.reached(module))).collect();
        let mut lines = Vec::new();
        for (module, needs) in &self.needs {
            let returns =
                |other: &&Segments| reached.get(*other).is_some_and(|reached| reached.contains(module));
            let back: Vec<String> = needs.iter().filter(returns).map(|other| other.join("::")).collect();
            if !back.is_empty() {
                lines.push(format!("{} needs {}", module.join("::"), back.join(", ")));
            }
        }
        lines
    }

    fn reached<'a>(&'a self, module: &'a Segments) -> BTreeSet<&'a Segments> {
        let (mut seen, mut open) = (BTreeSet::new(), vec![module]);
        while let Some(at) = open.pop() {
            open.extend(self.needs.get(at).into_iter().flatten().filter(|other| seen.insert(*other)));
        }
        seen
    }
}

/// For each module the names that others find there, with the paths that they stand for.
struct Exports(BTreeMap<Segments, BTreeMap<String, Segments>>);

impl Exports {
    fn of(named: &BTreeMap<Segments, Vec<Named>>) -> Self {
        let mut exports = Self(named.keys().map(|module| (module.clone(), BTreeMap::new())).collect());
        for (module, paths) in named {
            for Named { path, exported } in paths {
                if let (Some(name), Some(path)) = (exported, exports.absolute(path, module)) {
                    exports.0.entry(module.clone()).or_default().insert(name.clone(), path);
                }
            }
        }
        exports
    }

    /// A path in a module as it is from the root of the crate; `None` for one that leads out of the crate, or to an item of the module itself.
    fn absolute(&self, path: &[String], module: &[String]) -> Option<Segments> {
        let (mut from, mut rest) = (module.to_vec(), path);
        match path.first()?.as_str() {
            "crate" => (from, rest) = (Vec::new(), &path[1..]),
            "self" | "super" => {
                while let Some(first @ ("self" | "super")) = rest.first().map(String::as_str) {
                    if first == "super" {
                        from.pop();
                    }
                    rest = &rest[1..];
                }
            }
            first => {
                let below = [module, &[first.to_owned()]].concat();
                self.0.get(&below)?;
            }
        }
        from.extend(rest.iter().filter(|segment| *segment != "self").cloned());
        Some(from)
    }

    /// The module that has what a path in `module` names.
    fn target(&self, path: &[String], module: &[String]) -> Option<Segments> {
        let mut path = self.absolute(path, module)?;
        for _ in 0..REEXPORTS_MAX {
            let found = (0..=path.len()).rev().find(|end| self.0.contains_key(&path[..*end]))?;
            let (module, rest) = path.split_at(found);
            let Some(leads) = rest.first().and_then(|name| self.0.get(module)?.get(name)) else {
                return Some(module.to_vec());
            };
            let next = [leads.as_slice(), &rest[1..]].concat();
            if next == path {
                return Some(module.to_vec());
            }
            path = next;
        }
        None
    }
}

fn module_of(file: &str) -> Segments {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let mut module: Segments = path.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| last == "mod") || path == "lib" || path == "main" {
        module.pop();
    }
    module
}

/// All paths of more than one segment in a file.
fn paths(source: &str) -> Vec<Named> {
    let code = without_text(product_code(source));
    let tokens = tokens(&code);
    let (mut found, mut at) = (Vec::new(), 0);
    let mut exports = false;
    while at < tokens.len() {
        match tokens[at] {
            // An item of tests: up to its end, which is a semicolon or braces.
            "#" if tokens[at..].starts_with(&["#", "[", "cfg", "(", "test", ")", "]"]) => {
                at = after_item(&tokens, at)
            }
            "pub" => {
                exports = true;
                at += 1;
                if tokens.get(at) == Some(&"(") {
                    at += tokens[at..].iter().position(|token| *token == ")").map_or(1, |close| close + 1);
                }
                continue;
            }
            "use" => at = use_tree(&tokens, at + 1, &[], exports, &mut found),
            token if is_word(token) && tokens.get(at + 1) == Some(&"::") => {
                let mut path = vec![token.to_owned()];
                while tokens.get(at + 1) == Some(&"::")
                    && tokens.get(at + 2).is_some_and(|token| is_word(token))
                {
                    path.push(tokens[at + 2].to_owned());
                    at += 2;
                }
                found.push(Named { path, exported: None });
                at += 1;
            }
            _ => at += 1,
        }
        exports = false;
    }
    found
}

/// Reads one tree of a `use` that begins at a token; where it ends.
fn use_tree(
    tokens: &[&str],
    mut at: usize,
    before: &[String],
    exports: bool,
    found: &mut Vec<Named>,
) -> usize {
    let mut path = before.to_vec();
    while let Some(token) = tokens.get(at).copied() {
        match token {
            "{" => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    // At least one token further, whatever it is.
                    at = use_tree(tokens, at, &path, exports, found).max(at + 1);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            "::" => at += 1,
            "as" => at += 2,
            token if is_word(token) || token == "*" => {
                path.push(token.to_owned());
                at += 1;
            }
            _ => break,
        }
    }
    let alias = tokens.get(at.wrapping_sub(2)).filter(|token| **token == "as").and(tokens.get(at - 1));
    let name = alias.map(|alias| (*alias).to_owned()).or_else(|| path.last().cloned());
    found.push(Named { path, exported: name.filter(|_| exports) });
    at
}

/// The token after an item: after its semicolon, or after its braces.
fn after_item(tokens: &[&str], from: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match *token {
            "{" => depth += 1,
            "}" => depth = depth.saturating_sub(1),
            ";" => {}
            _ => continue,
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

fn is_word(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Words, `::`, and all other characters one by one.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let len = if is_word(rest) {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        tokens.push(&rest[..len]);
        rest = rest[len..].trim_start();
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIB: (&str, &str) = ("lib.rs", "mod a;\nmod b;\npub use b::{Kind, inner::Deep as Deeper};");

    fn circles(sources: &[(&str, &str)]) -> Vec<String> {
        Modules::of(&[&[LIB], sources].concat()).circles()
    }

    #[test]
    fn a_circle_is_found_whichever_way_paths_are_written() {
        let circle = ["a needs b", "b needs a"];
        for back in [
            "use crate::a::Item;",
            "use crate::{a::Item, c};",
            "use crate::{\n    c,\n    a::{self, Item},\n};",
            "use super::a::Item;",
            "fn f(item: &crate::a::Item) {}",
            "fn f() { super::a::run(); }",
            "pub(crate) use crate::a::Item as Other;",
        ] {
            assert_eq!(circles(&[("a.rs", "use crate::b;"), ("b.rs", back)]), circle, "{back}");
        }
    }

    #[test]
    fn names_of_the_root_lead_to_the_modules_that_have_them() {
        let inner = ("b/inner.rs", "pub struct Deep;");
        let b = ("b.rs", "mod inner;\nuse crate::a::Item;\npub enum Kind {}");
        assert_eq!(circles(&[("a.rs", "use crate::Kind;"), b, inner]), ["a needs b", "b needs a"]);
        assert!(circles(&[("a.rs", "use crate::Deeper;"), b, inner]).is_empty(), "only below b");
    }

    #[test]
    fn a_module_and_those_below_it_are_no_exception() {
        let circle = ["b needs b::inner", "b::inner needs b"];
        for (above, below) in [
            ("mod inner;\nfn f() { inner::run(); }", "use super::Item;"),
            ("mod inner;\nuse inner::run;", "fn f(item: super::Item) {}"),
            ("mod inner;\nuse self::inner::run;", "use crate::b::Item;"),
        ] {
            assert_eq!(circles(&[("b/mod.rs", above), ("b/inner.rs", below)]), circle, "{above} {below}");
        }
        let beside = [
            ("b/mod.rs", "mod inner;\nmod data;\nuse inner::run;"),
            ("b/inner.rs", "use super::data::Item;"),
            ("b/data.rs", ""),
        ];
        assert!(circles(&beside).is_empty());
    }

    #[test]
    fn comments_literals_tests_and_visibility_need_nothing() {
        for back in [
            "/// See [`crate::a::Item`].",
            "const TEXT: &str = \"crate::a::Item\";",
            "#[cfg(test)]\nuse crate::a::Item;",
            "#[cfg(test)]\nmod tests {\n    use crate::a::Item;\n}",
            "pub(in crate::a) struct Item;",
        ] {
            assert!(circles(&[("a.rs", "use crate::b;"), ("b.rs", back)]).is_empty(), "{back}");
        }
        assert!(circles(&[("a.rs", "use crate::b::tests;"), ("b/tests.rs", "use crate::a;")]).is_empty());
    }
}
