//! Whether the server is well: `/healthz`, `/livez`, `/readyz`.

use crate::{Server, query::Query, respond::Answer};

/// `ok`, or with `?verbose` every check by name; 500 if one fails. Checks in `?exclude=` are passed over.
pub(crate) fn answer(server: &Server, path: &str, query: &Query) -> Answer {
    let stats = server.store().stats();
    let checks = [("ping", None), ("store", stats.read_only)];
    let mut text = String::new();
    let mut failed = false;
    for (name, trouble) in checks {
        let excluded = query.get("exclude").is_some_and(|excluded| excluded == name);
        text.push_str(&match trouble {
            _ if excluded => format!("[+]{name} excluded: ok\n"),
            None => format!("[+]{name} ok\n"),
            Some(why) => {
                failed = true;
                format!("[-]{name} failed: {why}\n")
            }
        });
    }
    match (failed, query.has("verbose")) {
        (false, false) => Answer::text(200, "ok"),
        (false, true) => Answer::text(200, format!("{text}{path} check passed\n")),
        (true, _) => Answer::text(500, format!("{text}{path} check failed\n")),
    }
}
