//! Every number leads to what it counts: all of them are clicked on every page, and what opens is counted.

use serde_json::{Value, json};

use crate::{
    acts::{DIALOG, NO_DIALOG, go, signed_in},
    browser,
    chromium::Page,
    looks::furnish,
    server::Cluster,
};

/// Clicks every number of the page: what it says, what it stands for, and how many are listed. A dialog is read and closed at once, before anything is drawn anew.
const CLICK_ALL: &str = r"(() => {
  const found = [];
  for (const one of [...document.querySelectorAll('main [data-count]')].filter((one) => one.checkVisibility())) {
    one.click();
    const dialog = document.querySelector('dialog.listing[open]');
    const number = (name) => Number(dialog?.querySelector(`[data-${name}]`)?.dataset[name] ?? 0);
    const listed = dialog ? dialog.querySelectorAll('[data-listed]').length + number('hidden') + number('unnamed') : -1;
    dialog?.remove();
    // Of a metric the series are listed, and their sum or rate is shown.
    const says = one.closest('.tile') ? Number(one.dataset.count) : parseInt(one.textContent.replace(/,/g, ''), 10);
    found.push([one.textContent, says, Number(one.dataset.count), listed]);
  }
  return found;
})()";

/// Numbers of things that lead nowhere. Sentences of the server, times, commands and dialogs are not the page's to link.
const DEAD_ENDS: &str = r"(() => {
  const found = [];
  const walk = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    const element = node.parentElement;
    if (!element.checkVisibility() || element.closest('a, button, time, code, output, textarea, label, option, .note, .item, .timeline, .command, td')) continue;
    // A limit counts nothing.
    if (/\b(above|at most) /.test(node.textContent)) continue;
    const alone = /^[\d,]+$/.test(node.textContent.trim());
    if (alone || /\d (pods?|devices?|claims?|nodes?|rules?|namespaces?|changes?|flaps?|checks?|incidents?|open|past|drained|evicted|left)\b/.test(node.textContent)) found.push(node.textContent);
  }
  return found;
})()";

fn check(page: &Page<'_>, path: &str, numbers_min: usize) {
    assert_eq!(page.eval(DEAD_ENDS), json!([]), "{path}: numbers that lead nowhere");
    let found = page.eval(CLICK_ALL);
    let found = found.as_array().unwrap();
    assert!(found.len() >= numbers_min, "{path}: {found:?}");
    for number in found {
        let (says, counts, listed) = (&number[1], &number[2], &number[3]);
        assert!(
            says == counts && counts == listed,
            "{path}: {number} says {says}, counts {counts} and lists {listed}"
        );
    }
}

/// The devices that the map has, as it says itself.
fn mapped(page: &Page<'_>) -> Value {
    page.eval("parseInt(document.querySelector('[role=application]').getAttribute('aria-label'), 10)")
}

#[test]
fn every_number_leads_to_what_it_counts() {
    let Some(browser) = browser("every_number_leads_to_what_it_counts") else { return };
    let cluster = Cluster::start(4);
    let page = signed_in(&browser, &cluster, 32);
    furnish(&cluster, &page);
    // The drain and the incident are done before numbers are compared.
    page.until("[...lazaret.fleet.rules.values()].every((rule) => rule.status?.conditions?.some((one) => one.type === 'Drained' && one.status === 'True'))");

    go(&page, "fleet");
    check(&page, "fleet", 1);
    // Every state of the legend shows as many devices as it says; none of them shows all.
    let states = page.eval("document.querySelectorAll('.legend button').length").as_u64().unwrap();
    for at in 0..states {
        let number = page.eval(&format!(
            "(() => {{ const one = document.querySelectorAll('.legend button')[{at}]; one.click(); return parseInt(one.querySelector('b').textContent, 10); }})()"
        ));
        if number != 0 {
            assert_eq!(mapped(&page), number, "state {at}");
        }
        page.eval(&format!("document.querySelectorAll('.legend button')[{at}].click()"));
    }
    assert_eq!(mapped(&page), 32);
    page.click(
        "document.querySelector('.total .tally')",
        "document.querySelectorAll('tbody tr').length === 32",
    );

    go(&page, "whatif/gpu.example.com/node-1/gpu-1,gpu.example.com/node-2/gpu-0");
    page.until("/would be evicted/.test(document.querySelector('main').innerText)");
    check(&page, "whatif", 5);
    for (path, numbers_min) in [("drains", 5), ("incidents", 3), ("replay", 1)] {
        go(&page, path);
        check(&page, path, numbers_min);
    }
    go(&page, "cluster");
    page.until("/All [0-9]+ checks pass/.test(document.querySelector('main').innerText) && document.querySelectorAll('.tile').length > 3");
    check(&page, "cluster", 5);

    // By mouse and by keyboard as well, and what is listed is a link.
    go(&page, "incidents");
    page.click("document.querySelector('main header [data-count]')", DIALOG);
    page.key("Escape");
    page.until(NO_DIALOG);
    page.click("document.querySelector('main header [data-count]')", DIALOG);
    page.click("document.querySelector('dialog.listing a')", "/^#\\/incidents\\/./.test(location.hash)");
    page.until(NO_DIALOG);
    assert_eq!(page.problems(), Vec::<String>::new());
}
