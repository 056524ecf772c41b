//! Modules of a crate need each other one way.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use lazaret_tidy::{Modules, Workspace};

/// Crates that grew circles once, each with modules that it has at least.
const CRATES: [(&str, usize); 5] =
    [("bench", 30), ("cel", 60), ("fleet", 50), ("scheduler", 35), ("server", 150)];

#[test]
fn no_module_needs_itself_by_way_of_others() {
    let root = Workspace::load().unwrap().root;
    for (name, least) in CRATES {
        let modules = Modules::load(&root.join("crates").join(name).join("src")).unwrap();
        assert!(modules.count() >= least, "{name} has {} modules", modules.count());
        assert_eq!(modules.circles(), Vec::<String>::new(), "{name}");
    }
}
