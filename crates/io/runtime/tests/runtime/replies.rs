//! The outcome that each refusal of a call becomes.

use lazaret_runtime::{CallError, Outcome, Reply};

#[test]
fn each_refusal_is_one_outcome_and_a_budget_speaks_for_itself() {
    let why = || "Cannot evict pod as it would violate the pod's disruption budget.".to_owned();
    let rows = [
        (CallError::NotFound(why()), Outcome::Gone),
        (CallError::AlreadyExists(why()), Outcome::Conflict),
        (CallError::Conflict(why()), Outcome::Conflict),
        (CallError::Invalid(why()), Outcome::Refused),
        (CallError::Budget(why()), Outcome::Held),
        (CallError::Forbidden(why()), Outcome::RetryLater),
        (CallError::TooMany(why()), Outcome::RetryLater),
        (CallError::Expired(why()), Outcome::RetryLater),
        (CallError::Unavailable(why()), Outcome::RetryLater),
        (CallError::Unknown(why()), Outcome::Unknown),
    ];
    for (error, outcome) in rows {
        let reply = Reply::from(&error);
        assert_eq!(reply.outcome, outcome, "{error}");
        let words = reply.why.unwrap();
        assert!(words.ends_with(&why()), "{words}");
        assert_eq!(
            words == why(),
            outcome == Outcome::Held,
            "only a budget's words come as they are: {words}"
        );
    }
}
