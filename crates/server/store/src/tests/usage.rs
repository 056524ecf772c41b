//! The counts of directories.

use crate::{Op, Options, Store, Totals};

#[test]
fn keys_are_counted_in_their_directories_through_changes_and_restarts() {
    let folder = std::env::temp_dir().join(format!("lazaret-usage-{}", std::process::id()));
    let open = || Store::open(&folder, Options::default()).unwrap();
    let store = open();
    for key in ["/core/pods/a/x", "/core/pods/a/y", "/core/pods/b/x", "/core/nodes/n"] {
        store.txn_blocking(vec![Op::create(key, "1")]).unwrap();
    }
    store.txn_blocking(vec![Op::put("/core/pods/a/x", "22")]).unwrap();
    store.txn_blocking(vec![Op::delete_any("/core/pods/a/y"), Op::delete_any("/core/pods/a/none")]).unwrap();
    let counts = |store: &Store| {
        ["/core/pods/a/", "/core/pods/b/", "/core/pods/", "/core/nodes/", "/core/none/"]
            .map(|directory| store.count_in(directory))
    };
    assert_eq!(counts(&store), [1, 1, 2, 1, 0]);
    assert_eq!(store.totals().items, 3);
    let bytes = store.totals().bytes;
    store.close();
    drop(store);
    let store = open();
    assert_eq!(counts(&store), [1, 1, 2, 1, 0], "as after a restart");
    assert_eq!(store.totals(), Totals { items: 3, bytes });
    store.close();
    std::fs::remove_dir_all(folder).unwrap();
}
