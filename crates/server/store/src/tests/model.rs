//! Random sessions against the model: a map of versions and a list of events.

use lazaret_memory::{Session, steps};
use lazaret_storage::ReadError;
use proptest::prelude::*;

use crate::{CompactError, Options, Store};

const HISTORY_EVENTS_MAX: usize = 25;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn the_store_does_what_the_model_does(steps in steps()) {
        let options = Options { history_events_max: HISTORY_EVENTS_MAX, ..Options::default() };
        let store = Store::ephemeral(options).unwrap();
        let compact = |to: u64| match store.compact_blocking(to) {
            Ok(oldest) => Ok(oldest),
            Err(CompactError::Future { asked, current }) => Err(ReadError::Future { asked, current }),
            Err(error) => panic!("{error}"),
        };
        Session::new(&store, HISTORY_EVENTS_MAX, &compact).run(&steps)?;
    }
}
