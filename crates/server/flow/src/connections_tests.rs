use super::*;
use proptest::prelude::*;
use std::vec::Vec;

const LIMITS: ConnectionLimits = ConnectionLimits {
    total: 8,
    unidentified: 4,
    unidentified_per_address: 3,
    workload: 4,
    workload_per_user: 2,
};

fn open(table: &mut Connections<u8>, address: u128) -> (ConnectionId, Option<ConnectionId>) {
    match table.open(address, |_| true) {
        Opened::Kept(id, evicted) => (id, evicted),
        Opened::Refused => panic!("refused"),
    }
}

#[test]
fn a_flood_from_one_address_closes_its_own_oldest() {
    let mut table = Connections::new(LIMITS);
    let (other, _) = open(&mut table, 1);
    let first: Vec<ConnectionId> = (0..3).map(|_| open(&mut table, 2).0).collect();
    assert_eq!(open(&mut table, 2).1, Some(first[0]));
    assert_eq!(open(&mut table, 2).1, Some(first[1]));
    assert_eq!(open(&mut table, 3).1, Some(other), "all the unidentified together have a limit too");
    assert_eq!(table.len(), 4);
}

#[test]
fn connections_in_use_are_closed_last() {
    let mut table = Connections::new(LIMITS);
    let ids: Vec<ConnectionId> = (0..3).map(|_| open(&mut table, 2).0).collect();
    let idle = |id: ConnectionId| id == ids[1];
    assert!(matches!(table.open(2, idle), Opened::Kept(_, Some(id)) if id == ids[1]));
    assert!(matches!(table.open(2, |_| false), Opened::Kept(_, Some(id)) if id == ids[0]));
}

#[test]
fn an_administrator_gets_in_through_a_flood_and_stays() {
    let mut table = Connections::new(LIMITS);
    for address in 0..100 {
        open(&mut table, address);
    }
    let (admin, _) = open(&mut table, 7);
    assert_eq!(table.identify(admin, Level::Exempt, &1, |_| true), Identified::Kept(None));
    for address in 0..100 {
        assert_ne!(open(&mut table, address).1, Some(admin));
    }
}

#[test]
fn a_user_with_too_many_loses_the_oldest_idle_one_or_the_new_one() {
    let mut table = Connections::new(LIMITS);
    let ids: Vec<ConnectionId> = (0..3).map(|at| open(&mut table, at).0).collect();
    for id in &ids[..2] {
        assert_eq!(table.identify(*id, Level::Workload, &1, |_| true), Identified::Kept(None));
    }
    assert_eq!(table.identify(ids[2], Level::Workload, &1, |_| true), Identified::Kept(Some(ids[0])));
    let (another, _) = open(&mut table, 9);
    assert_eq!(table.identify(another, Level::Workload, &1, |_| false), Identified::Refused);
    assert_eq!(table.len(), 2);
}

#[test]
fn a_full_table_without_strangers_refuses_the_next() {
    let mut table = Connections::new(LIMITS);
    for at in 0..8 {
        let (id, _) = open(&mut table, at);
        table.identify(id, Level::System, &1, |_| true);
    }
    assert_eq!(table.open(50, |_| true), Opened::Refused);
}

#[test]
fn requests_without_credentials_identify_nobody() {
    let mut table = Connections::new(LIMITS);
    let (id, _) = open(&mut table, 1);
    table.identify(id, Level::Anonymous, &1, |_| true);
    table.identify(id, Level::Health, &1, |_| true);
    assert!(table.unidentified.contains(&id));
}

proptest! {
    #[test]
    fn no_limit_is_exceeded_and_closed_connections_leave_nothing(
        steps in proptest::collection::vec((0_u8..3, 0_usize..64, 0_u8..4, any::<bool>()), 0..300),
    ) {
        let mut table = Connections::new(LIMITS);
        let mut open: Vec<ConnectionId> = Vec::new();
        for (what, at, who, idle) in steps {
            let gone = |open: &mut Vec<ConnectionId>, id: ConnectionId| open.retain(|one| *one != id);
            match what {
                0 => if let Opened::Kept(id, evicted) = table.open(u128::from(who), |_| idle) {
                    evicted.into_iter().for_each(|id| gone(&mut open, id));
                    open.push(id);
                },
                1 if !open.is_empty() => {
                    let id = open[at % open.len()];
                    let level = Level::ALL[at % 6];
                    match table.identify(id, level, &who, |_| idle) {
                        Identified::Kept(evicted) => evicted.into_iter().for_each(|id| gone(&mut open, id)),
                        Identified::Refused => gone(&mut open, id),
                    }
                }
                _ if !open.is_empty() => table.close(open.swap_remove(at % open.len())),
                _ => {}
            }
            prop_assert_eq!(table.len(), open.len());
            prop_assert!(table.len() <= LIMITS.total);
            prop_assert!(table.unidentified.len() <= LIMITS.unidentified);
            prop_assert!(table.addresses.values().all(|count| *count <= LIMITS.unidentified_per_address));
            prop_assert_eq!(table.addresses.values().sum::<usize>(), table.unidentified.len());
            prop_assert!(table.workload_total <= LIMITS.workload);
            prop_assert!(table.workload.values().all(|mine| mine.len() <= LIMITS.workload_per_user));
            prop_assert_eq!(table.workload.values().map(BTreeSet::len).sum::<usize>(), table.workload_total);
        }
        for id in open {
            table.close(id);
        }
        prop_assert!(table.is_empty() && table.addresses.is_empty() && table.workload.is_empty());
    }
}
