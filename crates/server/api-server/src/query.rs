//! The query of a URL.

use std::collections::{BTreeMap, btree_map::Entry};

use percent_encoding::percent_decode_str;

use crate::ApiError;

/// The parameters of a request; the first of several with one name counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Query {
    parameters: BTreeMap<String, String>,
    /// Further ones of a name that was there already.
    repeated: Vec<(String, String)>,
}

impl Query {
    pub(crate) fn parse(text: &str) -> Self {
        let mut parameters = BTreeMap::new();
        let mut repeated = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            match parameters.entry(decode(key)) {
                Entry::Vacant(place) => {
                    place.insert(decode(value));
                }
                Entry::Occupied(taken) => repeated.push((taken.key().clone(), decode(value))),
            }
        }
        Self { parameters, repeated }
    }

    /// A parameter, unless absent or empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.parameters.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All parameters of a name, in their order.
    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        let further =
            self.repeated.iter().filter(move |(key, _)| key == name).map(|(_, value)| value.as_str());
        self.parameters.get(name).map(String::as_str).into_iter().chain(further)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.parameters.contains_key(name)
    }

    /// Whether something is switched on: whatever is there says so, but for `false` and `0`.
    pub(crate) fn flag(&self, name: &str) -> bool {
        self.parameters.get(name).is_some_and(|value| value != "0" && !value.eq_ignore_ascii_case("false"))
    }

    pub(crate) fn number(&self, name: &str) -> Result<Option<i64>, ApiError> {
        self.get(name)
            .map(|text| {
                text.parse().map_err(|_| {
                    ApiError::bad_request(format!("query parameter {name}: {text:?} is not a whole number"))
                })
            })
            .transpose()
    }

    /// Nothing is to be written. No other value than `All` gets this far.
    pub(crate) fn dry_run(&self) -> bool {
        self.get("dryRun").is_some()
    }
}

fn decode(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_the_first_counts() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=true&watch=false&limit=5&empty=");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch"));
        for (text, expected) in
            [("", false), ("a", true), ("a=", true), ("a=1", true), ("a=0", false), ("a=False", false)]
        {
            assert_eq!(Query::parse(text).flag("a"), expected, "{text:?}");
        }
        assert_eq!(query.number("limit").unwrap(), Some(5));
        assert_eq!(query.all("watch").collect::<Vec<_>>(), ["true", "false"]);
        assert_eq!(query.get("empty"), None);
        assert!(query.has("empty"));
        assert!(Query::parse("limit=x").number("limit").is_err());
    }
}
