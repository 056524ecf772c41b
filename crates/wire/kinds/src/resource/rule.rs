//! Rules that taint devices.

use std::sync::LazyLock;

use lazaret_api::window;
use lazaret_json::{Value, json};
use lazaret_model::WindowError;

use super::{
    cel,
    common::{default_pace, default_time_added, effect_of_release, paceless, without_pace},
    compile_budget::CompileBudget,
    superset::{self, Superset},
};
use crate::{
    Column, Context, Errors, Rules,
    check::conditions,
    kind::{age, since},
    limits,
    path::Path,
    rules::{SPEC_AND_METADATA, keep_status},
    value::{field_mut, list, put, same_field, some, text},
};

const CONDITIONS_MAX: usize = 8;

static SUPERSET: LazyLock<Superset> = LazyLock::new(|| Superset::of("DeviceTaintRule"));

/// Rules that taint devices.
#[derive(Debug)]
pub(crate) struct Rule;

impl Rules for Rule {
    fn predates_conventions(&self, version: &str) -> bool {
        version != "v1"
    }

    fn default(&self, object: &mut Value, context: &Context<'_>) {
        let taint = field_mut(field_mut(object, "spec"), "taint");
        default_time_added(taint, context);
        default_pace(taint, context);
    }

    fn default_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        let taint = |spec: &Value| [spec["taint"].clone()];
        let (new_taint, old_taint) = (taint(&new["spec"]), taint(&old["spec"]));
        let stays = paceless(&new_taint, &old_taint, |taint| ("", taint));
        self.default(new, context);
        if !stays.is_empty() {
            without_pace(&mut new["spec"]["taint"]);
        }
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        put(object, "status", json!({}));
    }

    fn validate_create(&self, object: &Value, context: &Context<'_>, errors: &mut Errors) {
        superset::validate(errors, object);
        validate(errors, &object["spec"], None, context);
    }

    fn status_resets(&self) -> &'static [&'static str] {
        SPEC_AND_METADATA
    }

    fn prepare_update(&self, new: &mut Value, old: &Value, context: &Context<'_>) {
        keep_status(new, old);
        // The time says since when there is this effect: a client that changes the effect and not the time means now.
        let before = &old["spec"]["taint"];
        let taint = field_mut(field_mut(new, "spec"), "taint");
        if text(taint, "effect") != text(before, "effect")
            && text(taint, "timeAdded") == text(before, "timeAdded")
        {
            put(taint, "timeAdded", context.timestamp());
        }
    }

    fn validate_update(&self, new: &Value, old: &Value, context: &Context<'_>, errors: &mut Errors) {
        superset::validate(errors, new);
        validate(errors, &new["spec"], Some(&old["spec"]), context);
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let path = Path::root("status");
        conditions(errors, &path.field("conditions"), list(&new["status"], "conditions"), CONDITIONS_MAX);
        limits::check(errors, &path, "resource/v1alpha3.DeviceTaintRuleStatus", &new["status"], None);
    }

    fn to_version(&self, object: &mut Value, version: &str) {
        if version != "v1alpha3" {
            SUPERSET.hide(object);
        }
    }

    fn from_version(&self, object: &mut Value, version: &str, old: Option<&Value>) {
        if version != "v1alpha3" {
            SUPERSET.restore(object, old);
        }
    }

    fn differs_in(&self, object: &Value, version: &str) -> bool {
        version != "v1alpha3" && (object.is_null() || SUPERSET.is_used(object))
    }

    fn differs_where(&self, version: &str) -> Option<&'static [&'static str]> {
        match version {
            "v1alpha3" => Some(&[]),
            _ => Some(&SUPERSET.fields),
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Key"),
            Column::text("Value"),
            Column::text("Effect"),
            Column::text("TimeAdded"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let taint = &object["spec"]["taint"];
        let added = Some(text(taint, "timeAdded")).filter(|time| !time.is_empty());
        vec![
            text(taint, "key").into(),
            text(taint, "value").into(),
            text(taint, "effect").into(),
            added.map_or_else(String::new, |time| since(Some(time), context)).into(),
            age(object, context),
        ]
    }
}

fn validate(errors: &mut Errors, spec: &Value, old: Option<&Value>, context: &Context<'_>) {
    let path = Path::root("spec");
    limits::check(errors, &path, "resource/v1alpha3.DeviceTaintRuleSpec", spec, old);
    if old.is_none_or(|old| text(&old["taint"], "effect") != "None") {
        effect_of_release(errors, &path.field("taint"), &spec["taint"], context);
    }
    if let Some(selector) = some(spec, "deviceSelector") {
        let path = path.field("deviceSelector");
        let stored = old.is_some_and(|old| same_field(selector, &old["deviceSelector"], "selectors"));
        cel::selectors(
            errors,
            &path.field("selectors"),
            list(selector, "selectors"),
            stored,
            (context, &CompileBudget::default()),
        );
        let evicts_all = |spec: &Value| {
            spec["deviceSelector"] == json!({}) && text(&spec["taint"], "effect") == "NoExecute"
        };
        if evicts_all(spec) && !old.is_some_and(evicts_all) {
            errors.warn(
                "spec.deviceSelector: an empty selector selects every device in the cluster, and effect NoExecute evicts every pod that uses one and does not tolerate the taint",
            );
        }
    }
    let eviction = path.field("eviction");
    windows(errors, &eviction.field("windows"), list(&spec["eviction"], "windows"));
}

/// When evictions may begin: times and time zones, which no limit of the table can say.
pub(crate) fn windows(errors: &mut Errors, path: &Path<'_>, windows: &[Value]) {
    for (at, said) in windows.iter().enumerate() {
        let path = path.index(at);
        let field = |name: &str| text(said, name);
        let (field, why) = match window(field("start"), field("duration"), field("timeZone")) {
            Ok(_) => continue,
            Err(WindowError::Start) => ("start", "must be a time as in 02:00 or Sat 02:00"),
            Err(WindowError::Duration) => {
                ("duration", "must be a time as in 4h or 1h30m, not longer than until the next start")
            }
            Err(WindowError::Zone) => {
                ("timeZone", "must be UTC, an offset as in +02:00 or a name as in Europe/Zurich")
            }
        };
        errors.invalid(path.field(field), text(said, field), why);
    }
}
