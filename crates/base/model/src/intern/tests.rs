use alloc::{collections::BTreeMap, format, string::String, vec::Vec};

use proptest::prelude::*;

use super::{Interner, Symbol};
use crate::{AttrId, AttrNames, QualifiedName};

#[test]
fn numbers_are_given_in_order_of_first_sight() {
    let mut interner = Interner::new();
    assert!(interner.is_empty());
    let numbers: Vec<_> = ["a", "b", "a", "", "b"].map(|text| interner.intern(text).0).into();
    assert_eq!(numbers, [0, 1, 0, 2, 1]);
    assert_eq!(interner.len(), 3);
    assert_eq!(interner.get("b"), Some(Symbol(1)));
    assert_eq!(interner.get("c"), None);
    assert_eq!(*interner.resolve(Symbol(2)), "");
}

#[test]
fn names_without_a_domain_are_the_drivers() {
    let mut names = AttrNames::default();
    let own = names.intern(&QualifiedName::of_key("model", "gpu.example.com"));
    let full = names.intern(&QualifiedName::of_key("gpu.example.com/model", "other.example.com"));
    let other = names.intern(&QualifiedName::of_key("model", "other.example.com"));
    assert_eq!((own, full, other), (AttrId(0), AttrId(0), AttrId(1)));
    assert_eq!(names.get(&QualifiedName::of_key("color", "gpu.example.com")), AttrId::ABSENT);
    assert_eq!(format!("{}", names.resolve(other)), "other.example.com/model");
    assert_eq!((names.len(), names.is_empty()), (2, false));
}

proptest! {
    #[test]
    fn equal_strings_have_equal_numbers(texts in proptest::collection::vec("[ab]{0,4}", 0..200)) {
        let mut interner = Interner::new();
        let mut reference: BTreeMap<String, u32> = BTreeMap::new();
        for text in &texts {
            let next = u32::try_from(reference.len()).unwrap();
            let expected = *reference.entry(text.clone()).or_insert(next);
            prop_assert_eq!(interner.intern(text), Symbol(expected));
        }
        for (text, number) in &reference {
            prop_assert_eq!(interner.get(text), Some(Symbol(*number)));
            prop_assert_eq!(interner.resolve(Symbol(*number)).as_str(), text.as_str());
        }
    }
}
