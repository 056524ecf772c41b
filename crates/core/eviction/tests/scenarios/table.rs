//! Tables of cases: what happens, and what is done about it. Each is run in the written order, with all that is done
//! checked, and then in every other order of its events, which must lead to the same end.

use lazaret_eviction::Options;

use crate::world::World;

/// `events`: one line each, `;` between steps that keep their order. `log`: what is done in the written order; a line
/// that ends with `…` says how the real one begins.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    events: Vec<String>,
    log: Vec<&'static str>,
}

pub(crate) fn case(name: &'static str, events: &[&str], log: &[&'static str]) -> Case {
    Case { name, events: events.iter().map(|event| (*event).to_owned()).collect(), log: log.to_vec() }
}

pub(crate) fn steps(lines: &[&str]) -> String {
    lines.join(" ; ")
}

pub(crate) fn check(case: &Case) {
    let order: Vec<usize> = (0..case.events.len()).collect();
    let written = run(case, &order);
    let same = written.log.len() == case.log.len()
        && written.log.iter().zip(&case.log).all(|(line, expected)| match expected.strip_suffix('…') {
            Some(start) => line.starts_with(start),
            None => line == expected,
        });
    assert!(same, "{}: {:#?} instead of {:#?}", case.name, written.log, case.log);
    let end = written.end_state();
    assert_eq!(written.plans(), written.recomputed(), "{}", case.name);
    for order in permutations(order) {
        assert_eq!(run(case, &order).end_state(), end, "{} in the order {order:?}", case.name);
    }
}

fn run(case: &Case, order: &[usize]) -> World {
    let mut world = World::new(Options::default());
    for event in order {
        world.apply(&case.events[*event]);
    }
    world.run_until(10_000_000);
    world
}

/// At most six events: 720 orders.
fn permutations(items: Vec<usize>) -> Vec<Vec<usize>> {
    assert!(items.len() <= 6);
    let Some((last, rest)) = items.split_last() else { return vec![vec![]] };
    let shorter = permutations(rest.to_vec());
    shorter
        .into_iter()
        .flat_map(|order| {
            (0..=order.len()).map(move |place| {
                let mut order = order.clone();
                order.insert(place, *last);
                order
            })
        })
        .collect()
}
