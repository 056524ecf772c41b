//! Which groups of watches an event concerns.

use lazaret_storage::Key;
use proptest::prelude::*;

use crate::history::History;
use crate::watch::Groups;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn an_event_concerns_exactly_the_groups_of_its_prefixes(
        prefixes in prop::collection::btree_set("[ab/]{0,5}", 0..20),
        key in "[ab/]{1,6}",
    ) {
        let history = History::new(1, 10, 1_000);
        let mut groups = Groups::default();
        for prefix in &prefixes {
            groups.join(&Key::from(prefix.as_str()), 1, &history);
        }
        let mut seen = Vec::new();
        groups.concerned(key.as_bytes(), |group| seen.push(group.prefix().to_string()));
        seen.sort();
        let expected: Vec<_> = prefixes.into_iter().filter(|prefix| key.starts_with(prefix)).collect();
        prop_assert_eq!(seen, expected);
    }
}
