//! `/etc/resolv.conf`, read and written.

use std::collections::BTreeMap;

/// More of a node's file is not read.
const FILE_BYTES_MAX: usize = 1 << 20;

/// How names are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResolverConfig {
    /// Addresses of servers.
    pub servers: Vec<String>,
    /// Domains that are tried in turn.
    pub searches: Vec<String>,
    /// `ndots:5` and the like.
    pub options: Vec<String>,
}

impl ResolverConfig {
    /// Reads a `resolv.conf`. Of several search lines the last counts, of options with the same name the last.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut config = Self::default();
        let mut options = BTreeMap::new();
        let text = text.get(..FILE_BYTES_MAX).unwrap_or(text);
        for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => config.servers.extend(words.next().map(str::to_owned)),
                Some("search") => {
                    let domains = words.filter(|domain| *domain != ".");
                    config.searches =
                        domains.map(|domain| domain.strip_suffix('.').unwrap_or(domain).to_owned()).collect();
                }
                Some("options") => {
                    for option in words {
                        let name = option.split(':').next().unwrap_or_default();
                        options.insert(name.to_owned(), option.to_owned());
                    }
                }
                Some(_) | None => {}
            }
        }
        config.options = options.into_values().collect();
        config
    }

    /// The file.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { servers, searches, options } = self;
        let mut text = String::new();
        if !searches.is_empty() {
            text.push_str(&format!("search {}\n", searches.join(" ")));
        }
        for server in servers {
            text.push_str(&format!("nameserver {server}\n"));
        }
        if !options.is_empty() {
            text.push_str(&format!("options {}\n", options.join(" ")));
        }
        text
    }
}
