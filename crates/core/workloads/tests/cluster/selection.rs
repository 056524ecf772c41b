//! Which controllers run.

use lazaret_workloads::{ALL, Selection};

fn names(list: &str) -> Vec<&'static str> {
    Selection::parse(list).unwrap().rules().iter().map(|rules| rules.name).collect()
}

#[test]
fn a_list_chooses_controllers_by_the_names_that_kubernetes_has_for_them() {
    let all: Vec<&str> = ALL.iter().map(|rules| rules.name).collect();
    let without = |left_out: &[&str]| -> Vec<&str> {
        all.iter().filter(|name| !left_out.contains(name)).copied().collect()
    };
    for (list, expected) in [
        ("*", all.clone()),
        ("", vec![]),
        ("job-controller", vec!["job"]),
        ("pod-garbage-collector-controller, job-controller", vec!["job", "podgc"]),
        ("*,-pod-garbage-collector-controller", without(&["podgc"])),
        ("-disruption-controller,*", without(&["disruption", "stale-disruption"])),
        ("-job-controller", vec![]),
        ("-job-controller,job-controller,*", without(&["job"])),
        ("job-controller,-job-controller,*", all.clone()),
    ] {
        assert_eq!(names(list), expected, "{list}");
    }
    assert_eq!(Selection::default().rules().len(), ALL.len());
}

#[test]
fn every_controller_can_be_left_out_and_no_other_name_is_accepted() {
    let refusal = Selection::parse("*,-ttl-controller").unwrap_err();
    let known = refusal.strip_prefix("\"ttl-controller\" is not in the list of known controllers: ").unwrap();
    let none =
        format!("*,{}", known.split(", ").map(|name| format!("-{name}")).collect::<Vec<_>>().join(","));
    assert_eq!(names(&none), Vec::<&str>::new());
    let each: usize = known.split(", ").map(|name| names(name).len()).sum();
    assert_eq!(each, ALL.len(), "no rules belong to two names");
}
