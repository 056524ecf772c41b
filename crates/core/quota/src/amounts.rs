//! Amounts of resources by name.

use alloc::{
    borrow::ToOwned,
    collections::BTreeMap,
    string::{String, ToString},
};
use core::fmt;

use lazaret_model::Quantity;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// Amounts of resources, in order of their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<String, Quantity>);

/// The resources that something requests, and their limits.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Requests {
    pub(crate) requests: Amounts,
    pub(crate) limits: Amounts,
}

impl Amounts {
    /// The amount of a resource, if it is named.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Quantity> {
        self.0.get(name)
    }

    /// Sets the amount of a resource.
    pub fn set(&mut self, name: impl Into<String>, amount: Quantity) {
        self.0.insert(name.into(), amount);
    }

    /// The resources that are named.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Each resource with its amount.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), amount))
    }

    /// Whether no resource is named.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Adds an amount to that of a resource.
    pub(crate) fn add_one(&mut self, name: &str, amount: &Quantity) {
        match self.0.get_mut(name) {
            Some(known) => *known = known.add(amount),
            None => {
                self.0.insert(name.to_owned(), amount.clone());
            }
        }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        other.iter().for_each(|(name, amount)| self.add_one(name, amount));
    }

    /// The larger of both, resource by resource.
    pub(crate) fn max(&mut self, other: &Self) {
        for (name, amount) in other.iter() {
            if self.get(name).is_none_or(|known| amount > known) {
                self.set(name, amount.clone());
            }
        }
    }

    /// The amounts by which this exceeds the other: nothing below zero, and no zeros.
    pub(crate) fn beyond(&self, other: &Self) -> Self {
        let more = self.iter().filter_map(|(name, amount)| {
            let more = other.get(name).map_or_else(|| amount.clone(), |known| amount.sub(known));
            (more.sign() > 0).then(|| (name.to_owned(), more))
        });
        Self(more.collect())
    }

    /// Only these resources.
    pub(crate) fn only(&self, keep: impl Fn(&str) -> bool) -> Self {
        let kept = self.iter().filter(|(name, _)| keep(name));
        Self(kept.map(|(name, amount)| (name.to_owned(), amount.clone())).collect())
    }
}

impl FromIterator<(String, Quantity)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (String, Quantity)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}

/// As refusals list amounts: `cpu=1,memory=2Gi`.
impl fmt::Display for Amounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, amount)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{name}={amount}")?;
        }
        Ok(())
    }
}

impl<'de> Deserialize<'de> for Amounts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let read = Option::<BTreeMap<String, Amount>>::deserialize(deserializer)?.unwrap_or_default();
        Ok(read.into_iter().map(|(name, Amount(amount))| (name, amount)).collect())
    }
}

/// One amount, as text or as a number.
struct Amount(Quantity);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AmountVisitor).map(Self)
    }
}

struct AmountVisitor;

impl Visitor<'_> for AmountVisitor {
    type Value = Quantity;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a quantity")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
        Quantity::parse(text).map_err(|_| E::custom("not a quantity"))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
        Ok(Quantity::from_i64(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
        self.visit_str(&number.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(text: &str) -> Amounts {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn amounts_are_read_as_text_and_as_numbers_and_written_in_order() {
        let read = amounts(r#"{"memory": "1536Mi", "cpu": 2, "pods": "4"}"#);
        assert_eq!(read.to_string(), "cpu=2,memory=1536Mi,pods=4");
        assert_eq!(amounts("null").to_string(), "");
        assert!(serde_json::from_str::<Amounts>(r#"{"cpu": "much"}"#).is_err());
    }

    #[test]
    fn what_is_more_has_neither_zeros_nor_what_is_less() {
        let (new, old) = (amounts(r#"{"a": 3, "b": 1, "c": 1}"#), amounts(r#"{"a": 1, "b": 1, "d": 5}"#));
        assert_eq!(new.beyond(&old).to_string(), "a=2,c=1");
        assert_eq!(old.beyond(&new).to_string(), "d=5");
    }
}
