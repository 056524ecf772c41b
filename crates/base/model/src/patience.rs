//! How long a taint is tolerated: one pure function of the taint and the tolerations. The eviction asks it when pods have to go, the
//! allocator whether it is worth giving a device out.

use crate::{Taint, Timestamp, Toleration, tolerates};

/// How long a taint is tolerated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Patience {
    /// This number of seconds from when the taint was set; zero when nothing tolerates it.
    Seconds(i64),
    /// For ever.
    Forever,
}

impl Patience {
    /// The instant at which it ends for a taint that was set at `time_added`. Saturates: what cannot be counted is
    /// [`Timestamp::NEVER`]. DEVIATION(saturating-toleration).
    #[must_use]
    pub fn ends(self, time_added: Timestamp) -> Timestamp {
        match self {
            Self::Seconds(seconds) => time_added.plus_secs(seconds),
            Self::Forever => Timestamp::NEVER,
        }
    }
}

/// How long these tolerations tolerate `taint`. Of several that match, one without a limit wins; otherwise the shortest. A rule that gives
/// notice is tolerated until the notice is over.
/// Negative seconds are none. DEVIATION(empty-effect-toleration): a toleration with an empty effect counts here as it does for the scheduler;
/// Kubernetes 1.37 wants the literal `NoExecute` and so evicts pods that it keeps placing.
#[must_use]
pub fn patience(taint: &Taint, tolerations: &[Toleration]) -> Patience {
    let mut shortest: Option<i64> = None;
    for toleration in tolerations.iter().filter(|toleration| tolerates(toleration, taint)) {
        match toleration.seconds {
            None => return Patience::Forever,
            Some(seconds) => {
                let seconds = seconds.max(0);
                shortest = Some(shortest.map_or(seconds, |other| other.min(seconds)));
            }
        }
    }
    let notice = taint.eviction.as_ref().and_then(|spec| spec.notice_seconds);
    Patience::Seconds(shortest.max(notice).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use alloc::{sync::Arc, vec::Vec};

    use super::*;
    use crate::{Effect, EvictionSpec, TolerationOperator};

    fn taint() -> Taint {
        Taint { key: "k".into(), value: "v".into(), effect: Effect::NoExecute, ..Taint::default() }
    }

    fn exists(key: &str, effect: Option<Effect>, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: key.into(),
            operator: TolerationOperator::Exists,
            value: "".into(),
            effect,
            seconds,
        }
    }

    #[test]
    fn table() {
        let evict = || Some(Effect::NoExecute);
        let forever = Patience::Forever;
        let secs = Patience::Seconds;
        let equal = |value: &str, seconds| Toleration {
            value: value.into(),
            operator: TolerationOperator::Equal,
            ..exists("k", evict(), seconds)
        };
        let unknown =
            Toleration { operator: TolerationOperator::Unknown("Near".into()), ..exists("k", evict(), None) };
        let cases: Vec<(&str, Vec<Toleration>, Patience)> = alloc::vec![
            ("none", alloc::vec![], secs(0)),
            ("60 s", alloc::vec![exists("k", evict(), Some(60))], secs(60)),
            (
                "smallest wins",
                alloc::vec![exists("k", evict(), Some(60)), exists("", evict(), Some(30))],
                secs(30)
            ),
            (
                "for ever wins",
                alloc::vec![exists("k", evict(), Some(60)), exists("k", evict(), None)],
                forever
            ),
            (
                "for ever first",
                alloc::vec![exists("k", evict(), None), exists("k", evict(), Some(0))],
                forever
            ),
            ("negative", alloc::vec![exists("k", evict(), Some(-5))], secs(0)),
            ("zero", alloc::vec![exists("k", evict(), Some(0))], secs(0)),
            ("other key", alloc::vec![exists("other", evict(), None)], secs(0)),
            ("other effect", alloc::vec![exists("k", Some(Effect::NoSchedule), None)], secs(0)),
            ("empty effect, for ever", alloc::vec![exists("k", None, None)], forever),
            ("empty effect, 5 s", alloc::vec![exists("", None, Some(5))], secs(5)),
            ("equal value", alloc::vec![equal("v", Some(7))], secs(7)),
            ("other value", alloc::vec![equal("w", None)], secs(0)),
            ("unknown operator", alloc::vec![unknown], secs(0)),
            ("huge", alloc::vec![exists("k", evict(), Some(i64::MAX))], secs(i64::MAX)),
        ];
        for (name, tolerations, expected) in cases {
            assert_eq!(patience(&taint(), &tolerations), expected, "{name}");
        }
    }

    #[test]
    fn nobody_leaves_before_the_notice_is_over() {
        let spec = EvictionSpec { notice_seconds: Some(60), ..EvictionSpec::default() };
        let taint = Taint { eviction: Some(Arc::new(spec)), ..taint() };
        let toleration = |seconds| [exists("k", None, seconds)];
        assert_eq!(patience(&taint, &[]), Patience::Seconds(60));
        assert_eq!(patience(&taint, &toleration(Some(5))), Patience::Seconds(60));
        assert_eq!(patience(&taint, &toleration(Some(90))), Patience::Seconds(90));
        assert_eq!(patience(&taint, &toleration(None)), Patience::Forever);
    }

    #[test]
    fn ends_saturates_instead_of_wrapping() {
        let now = Timestamp::from_secs(1_700_000_000);
        assert_eq!(Patience::Seconds(i64::MAX).ends(now), Timestamp::NEVER);
        assert_eq!(Patience::Seconds(9_300_000_000_000_000).ends(now), Timestamp::NEVER);
        assert_eq!(Patience::Seconds(30).ends(now), Timestamp::from_secs(1_700_000_030));
        assert_eq!(Patience::Forever.ends(now), Timestamp::NEVER);
    }
}
