//! Which option a taint falls under.

use lazaret_model::Text;

use crate::policy::{TaintOption, WILDCARD};

/// The option for a taint: among those of its key the one that says most, else `*`. A key that has an entry of its own
/// is none of the wildcard's business, even where that entry asks for another value.
pub(crate) fn option_for<'a>(
    options: &'a [TaintOption],
    key: &Text,
    value: &Text,
    effect: &Text,
) -> Option<&'a TaintOption> {
    let fits = |option: &&TaintOption| {
        option.value.as_ref().is_none_or(|wanted| wanted == value)
            && option.effect.as_ref().is_none_or(|wanted| wanted == effect)
    };
    let exact = options.iter().filter(|option| option.key == *key);
    if exact.clone().next().is_some() {
        return exact.filter(fits).max_by_key(|option| (option.value.is_some(), option.effect.is_some()));
    }
    options.iter().find(|option| option.key == WILDCARD).filter(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn option(key: &str, value: Option<&str>, effect: Option<&str>, secs: i64) -> TaintOption {
        TaintOption { key: key.into(), value: value.map(Text::from), effect: effect.map(Text::from), secs }
    }

    #[test]
    fn the_most_exact_option_wins_and_a_wildcard_only_takes_what_nobody_named() {
        let options = vec![
            option("*", None, Some("NoExecute"), 1),
            option("a", None, None, 2),
            option("a", Some("x"), None, 3),
            option("a", Some("x"), Some("NoSchedule"), 4),
            option("a", None, Some("NoExecute"), 5),
            option("b", Some("x"), None, 6),
        ];
        let rows = [
            ("a", "", "NoSchedule", Some(2)),
            ("a", "x", "NoExecute", Some(3)),
            ("a", "x", "NoSchedule", Some(4)),
            ("a", "y", "NoExecute", Some(5)),
            ("b", "x", "NoSchedule", Some(6)),
            ("b", "y", "NoExecute", None),
            ("c", "", "NoExecute", Some(1)),
            ("c", "", "NoSchedule", None),
        ];
        for (key, value, effect, wanted) in rows {
            let found = option_for(&options, &key.into(), &value.into(), &effect.into());
            assert_eq!(found.map(|option| option.secs), wanted, "{key}={value}:{effect}");
        }
        assert_eq!(option_for(&[], &"a".into(), &"".into(), &"".into()), None);
    }
}
