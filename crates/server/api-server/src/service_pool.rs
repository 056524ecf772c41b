//! Cluster IPs and node ports: which are taken, by Services that are stored and by writes that have not ended.
//!
//! The stored Services are the truth. Their addresses and ports are kept up to date from a watch of the store, so there is nothing to repair
//! after a restart; those of a write are held by its [`Reservation`] until the store has it.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use lazaret_kinds::{PoolError, ServicePool, service_holdings};
use lazaret_storage::{Item, Key, RangeOptions, Storage, Watch};

use crate::{object, random, service_ranges::ServiceRanges};

/// Where Services are stored.
const SERVICES: &str = "/core/services/";

/// The addresses and ports that are taken.
#[derive(Default)]
pub(crate) struct Pool {
    state: Mutex<State>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool").finish_non_exhaustive()
    }
}

#[derive(Default)]
struct State {
    watch: Option<Watch>,
    /// The addresses and ports of each stored Service, by its key.
    stored: BTreeMap<Key, Holding>,
    /// How often each is held, by stored Services and by reservations.
    addresses: AllocatedNumbers,
    ports: AllocatedNumbers,
}

#[derive(Default)]
struct Holding {
    addresses: Vec<u32>,
    ports: Vec<u32>,
}

/// Numbers that are taken, with how often each is.
#[derive(Default)]
struct AllocatedNumbers(BTreeMap<u32, u32>);

impl AllocatedNumbers {
    fn add(&mut self, number: u32) {
        *self.0.entry(number).or_default() += 1;
    }

    fn remove(&mut self, number: u32) {
        if let Some(count) = self.0.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&number);
            }
        }
    }

    /// The first free number from `from` to `to`.
    fn free(&self, from: u32, to: u32) -> Option<u32> {
        if from > to {
            return None;
        }
        let mut candidate = from;
        for taken in self.0.range(from..=to).map(|(taken, _)| *taken) {
            if taken > candidate {
                break;
            }
            candidate = taken.checked_add(1)?;
        }
        (candidate <= to).then_some(candidate)
    }

    /// A free number of a range: of its upper part at random while there is one, so that the lower part stays free for people who choose
    /// numbers themselves.
    fn any(&self, (first, last): (u32, u32), lower: u32) -> Option<u32> {
        let upper = first.saturating_add(lower).min(last);
        let start = upper + random::below(last - upper + 1);
        self.free(start, last)
            .or_else(|| self.free(upper, last))
            .or_else(|| upper.checked_sub(1).and_then(|end| self.free(first, end)))
    }
}

impl State {
    /// Takes in what was written since the last look. Whether that could be read: nothing is given out where it could not.
    fn catch_up(&mut self, store: &dyn Storage) -> bool {
        while let Some(watch) = &mut self.watch {
            match watch.try_next() {
                Ok(None) => return true,
                Ok(Some(event)) => {
                    self.forget(&event.key);
                    if let Some(item) = &event.new {
                        self.learn(item);
                    }
                }
                Err(_) => self.watch = None,
            }
        }
        // There is no watch yet, or it fell behind: begin anew.
        for key in self.stored.keys().cloned().collect::<Vec<_>>() {
            self.forget(&key);
        }
        let Ok(range) = store.range(SERVICES.as_bytes(), &RangeOptions::default()) else { return false };
        range.items.iter().for_each(|item| self.learn(item));
        self.watch = store.watch(SERVICES.into(), range.revision).ok();
        true
    }

    fn learn(&mut self, item: &Item) {
        let service = object::decode(&item.value);
        let (addresses, ports) = service_holdings(&service);
        let addresses = addresses.into_iter().filter_map(|text| text.parse::<Ipv4Addr>().ok());
        let holding = Holding {
            addresses: addresses.map(u32::from).collect(),
            ports: ports.into_iter().filter_map(|port| u32::try_from(port).ok()).collect(),
        };
        holding.addresses.iter().for_each(|address| self.addresses.add(*address));
        holding.ports.iter().for_each(|port| self.ports.add(*port));
        self.stored.insert(item.key.clone(), holding);
    }

    fn forget(&mut self, key: &Key) {
        if let Some(holding) = self.stored.remove(key) {
            self.release(&holding);
        }
    }

    fn release(&mut self, holding: &Holding) {
        holding.addresses.iter().for_each(|address| self.addresses.remove(*address));
        holding.ports.iter().for_each(|port| self.ports.remove(*port));
    }
}

/// The addresses and ports taken by one write. Dropping it releases those that the store did not get.
pub(crate) struct Reservation<'a> {
    pool: &'a Pool,
    ranges: ServiceRanges,
    taken: Holding,
}

impl Reservation<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.pool.lock()
    }
}

impl Pool {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn reserve(&self, store: &dyn Storage, ranges: ServiceRanges) -> Option<Reservation<'_>> {
        let known = self.lock().catch_up(store);
        known.then(|| Reservation { pool: self, ranges, taken: Holding::default() })
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let taken = std::mem::take(&mut self.taken);
        self.lock().release(&taken);
    }
}

impl ServicePool for Reservation<'_> {
    fn take_address(&mut self, wanted: Option<&str>) -> Result<String, PoolError> {
        let range = self.ranges.addresses();
        let mut state = self.lock();
        let (number, text) = if let Some(text) = wanted {
            let number = text.parse::<Ipv4Addr>().ok().map(u32::from);
            let number = number.filter(|number| (range.0..=range.1).contains(number));
            let number = number.ok_or_else(|| PoolError::OutOfRange(self.ranges.network()))?;
            if state.addresses.0.contains_key(&number) {
                return Err(PoolError::Taken);
            }
            (number, text.to_owned())
        } else {
            let number = state.addresses.any(range, self.ranges.chosen_addresses()).ok_or(PoolError::Full)?;
            (number, Ipv4Addr::from(number).to_string())
        };
        state.addresses.add(number);
        drop(state);
        self.taken.addresses.push(number);
        Ok(text)
    }

    fn take_port(&mut self, wanted: Option<i64>) -> Result<i64, PoolError> {
        let range = self.ranges.ports();
        let mut state = self.lock();
        let number = if let Some(wanted) = wanted {
            let number = u32::try_from(wanted).ok().filter(|number| (range.0..=range.1).contains(number));
            let number = number.ok_or_else(|| PoolError::OutOfRange(format!("{}-{}", range.0, range.1)))?;
            if state.ports.0.contains_key(&number) {
                return Err(PoolError::Taken);
            }
            number
        } else {
            state.ports.any(range, self.ranges.chosen_ports()).ok_or(PoolError::Full)?
        };
        state.ports.add(number);
        drop(state);
        self.taken.ports.push(number);
        Ok(number.into())
    }
}

#[cfg(test)]
mod tests {
    use lazaret_store::{Op, Options, Store};

    use super::*;

    fn ranges() -> ServiceRanges {
        ServiceRanges::new("10.0.0.0/29", "30000-30003").unwrap()
    }

    fn service(address: &str, port: i64) -> String {
        format!(
            r#"{{"spec":{{"type":"NodePort","clusterIPs":["{address}"],"ports":[{{"nodePort":{port}}}]}}}}"#
        )
    }

    #[test]
    fn what_is_stored_or_reserved_is_taken_and_nothing_else() {
        let (store, pool) = (Store::ephemeral(Options::default()).unwrap(), Pool::default());
        store.txn_blocking(vec![Op::create("/core/services/n/a", service("10.0.0.1", 30_000))]).unwrap();
        let mut first = pool.reserve(&store, ranges()).unwrap();
        assert_eq!(first.take_address(Some("10.0.0.1")), Err(PoolError::Taken));
        assert_eq!(first.take_address(Some("10.0.0.2")), Ok("10.0.0.2".into()));
        let mut second = pool.reserve(&store, ranges()).unwrap();
        assert_eq!(second.take_address(Some("10.0.0.2")), Err(PoolError::Taken), "a write in flight has it");
        assert_eq!(second.take_port(Some(30_000)), Err(PoolError::Taken));
        drop(first);
        assert_eq!(second.take_address(Some("10.0.0.2")), Ok("10.0.0.2".into()), "given back");
        for outside in ["10.0.0.0", "10.0.0.7", "10.0.0.8", "x"] {
            let refused = PoolError::OutOfRange("10.0.0.0/29".into());
            assert_eq!(second.take_address(Some(outside)), Err(refused), "{outside}");
        }
        assert_eq!(second.take_port(Some(-1)), Err(PoolError::OutOfRange("30000-30003".into())));
        // Four addresses and three ports are left, each given once.
        let mut left: Vec<_> = (0..4).map(|_| second.take_address(None).unwrap()).collect();
        left.sort();
        assert_eq!(left, ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]);
        assert_eq!(second.take_address(None), Err(PoolError::Full));
        let mut ports: Vec<_> = (0..3).map(|_| second.take_port(None).unwrap()).collect();
        ports.sort_unstable();
        assert_eq!((ports, second.take_port(None)), (vec![30_001, 30_002, 30_003], Err(PoolError::Full)));
        drop(second);
        let item = store.get("/core/services/n/a").unwrap();
        store.txn_blocking(vec![Op::delete("/core/services/n/a", item.modified)]).unwrap();
        let mut third = pool.reserve(&store, ranges()).unwrap();
        assert_eq!(third.take_address(Some("10.0.0.1")), Ok("10.0.0.1".into()), "its Service is gone");
    }

    #[test]
    fn the_lower_part_is_given_last() {
        let ranges = ServiceRanges::new("10.0.0.0/24", "30000-32767").unwrap();
        assert_eq!((ranges.chosen_addresses(), ranges.chosen_ports()), (16, 86));
        let (store, pool) = (Store::ephemeral(Options::default()).unwrap(), Pool::default());
        let mut reservation = pool.reserve(&store, ranges).unwrap();
        let last = |text: &str| text.parse::<Ipv4Addr>().unwrap().octets()[3];
        let given: Vec<u8> = (0..254).map(|_| last(&reservation.take_address(None).unwrap())).collect();
        assert!(given[..238].iter().all(|number| *number >= 17), "{given:?}");
        assert!(given[238..].iter().all(|number| *number < 17), "{given:?}");
    }
}
