//! All definitions together.

use super::own_definitions;

/// A column of the type `date` shows how long ago that was, and `<invalid>` for what is yet to come.
#[test]
fn columns_that_show_an_age_show_the_past() {
    for definition in own_definitions() {
        let columns = definition["spec"]["versions"][0]["additionalPrinterColumns"].as_array().cloned();
        for column in columns.unwrap_or_default().iter().filter(|column| column["type"] == "date") {
            assert_eq!(column["jsonPath"], ".metadata.creationTimestamp", "{column:?}");
        }
    }
}
