//! Attribute values as numbers, so that constraints compare integers.

use alloc::{boxed::Box, vec::Vec};

use hashbrown::HashMap;
use lazaret_model::{AttrValue, Text};
use rustc_hash::FxBuildHasher;

/// The values of a device for an attribute, as a constraint sees them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Values {
    /// Nothing: the constraint refuses the device.
    Missing,
    /// One value.
    One(u32),
    /// A value that compares with none, itself included: a list while lists are switched off.
    Odd,
    /// Several values, ascending, not empty.
    Many(Box<[u32]>),
}

impl Values {
    pub(crate) fn ids(&self) -> &[u32] {
        match self {
            Self::Missing | Self::Odd => &[],
            Self::One(id) => core::slice::from_ref(id),
            Self::Many(ids) => ids,
        }
    }

    pub(crate) fn meets(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::One(a), Self::One(b)) => a == b,
            _ => self.ids().iter().any(|id| other.ids().contains(id)),
        }
    }

    /// The values that both have; `None` when there are none.
    pub(crate) fn intersection(&self, other: &Self) -> Option<Self> {
        if let (Self::One(a), Self::One(b)) = (self, other) {
            return (a == b).then_some(Self::One(*a));
        }
        let both: Vec<u32> = self.ids().iter().copied().filter(|id| other.ids().contains(id)).collect();
        match *both {
            [] => None,
            [one] => Some(Self::One(one)),
            _ => Some(Self::Many(both.into())),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Element {
    Int(i64),
    Bool(bool),
    String(Text),
    Version(Text),
}

/// Numbers for the values met in one search.
#[derive(Debug, Default)]
pub(crate) struct ValueTable {
    ids: HashMap<Element, u32, FxBuildHasher>,
}

impl ValueTable {
    /// The values of an attribute; as a set when `lists` is on.
    pub(crate) fn values(&mut self, value: Option<&AttrValue>, lists: bool) -> Values {
        use Element::{Bool, Int, String, Version};
        let Some(value) = value else { return Values::Missing };
        let many: Vec<Element> = match value {
            AttrValue::Int(int) => return Values::One(self.id(Int(*int))),
            AttrValue::Bool(bool) => return Values::One(self.id(Bool(*bool))),
            AttrValue::String(text) => return Values::One(self.id(String(text.clone()))),
            AttrValue::Version(version) => return Values::One(self.id(Version(version.text.clone()))),
            AttrValue::Unsupported => return if lists { Values::Missing } else { Values::Odd },
            AttrValue::Ints(_) | AttrValue::Bools(_) | AttrValue::Strings(_) | AttrValue::Versions(_)
                if !lists =>
            {
                return Values::Odd;
            }
            AttrValue::Ints(ints) => ints.iter().map(|int| Int(*int)).collect(),
            AttrValue::Bools(bools) => bools.iter().map(|bool| Bool(*bool)).collect(),
            AttrValue::Strings(texts) => texts.iter().map(|text| String(text.clone())).collect(),
            AttrValue::Versions(versions) => {
                versions.iter().map(|version| Version(version.text.clone())).collect()
            }
        };
        let mut ids: Vec<u32> = many.into_iter().map(|element| self.id(element)).collect();
        ids.sort_unstable();
        ids.dedup();
        match *ids {
            [] => Values::Missing,
            [one] => Values::One(one),
            _ => Values::Many(ids.into()),
        }
    }

    fn id(&mut self, element: Element) -> u32 {
        let next = u32::try_from(self.ids.len()).unwrap_or(u32::MAX);
        *self.ids.entry(element).or_insert(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalars_are_singletons_and_types_differ() {
        let (int, text) = (AttrValue::Int(1), AttrValue::String("1".into()));
        let list = AttrValue::Ints([2, 1, 1].into());
        let mut table = ValueTable::default();
        let int = table.values(Some(&int), true);
        let text = table.values(Some(&text), true);
        let both = table.values(Some(&list), true);
        assert!(!int.meets(&text) && int.meets(&both));
        assert_eq!(both.intersection(&int), Some(int.clone()));
        assert_eq!(both.intersection(&text), None);
        assert_eq!((both.ids().len(), table.ids.len()), (2, 3));
    }

    #[test]
    fn lists_are_odd_while_switched_off() {
        let list = AttrValue::Ints([1].into());
        let mut table = ValueTable::default();
        let odd = table.values(Some(&list), false);
        assert_eq!(odd, Values::Odd);
        assert!(!odd.meets(&odd));
        assert_eq!(table.values(Some(&AttrValue::Unsupported), true), Values::Missing);
        assert_eq!(table.values(None, false), Values::Missing);
    }
}
