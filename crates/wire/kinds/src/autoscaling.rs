//! Autoscalers of pods: checked and kept. Nothing here measures what pods use.

use lazaret_json::{Value, json};

use crate::{
    Column, Context, Errors, Rules,
    check::{dns_label, not_supported},
    kind::age,
    names::path_segment,
    path::Path,
    resource_names::container_resource,
    value::{
        canonical_quantities, field_mut, fill, has, is_filled, list, number, put, quantity, remove, some,
        text,
    },
};

/// Autoscalers of pods.
#[derive(Debug)]
pub(crate) struct HorizontalPodAutoscaler;

const PERIOD_SECONDS_MAX: i64 = 1800;
const STABILIZATION_SECONDS_MAX: i64 = 3600;
const CPU_PERCENT: i64 = 80;
/// Of how many metrics a table shows targets.
const METRICS_SHOWN_MAX: usize = 2;
/// The types of metrics, and the field of each.
const SOURCES: &[(&str, &str)] = &[
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

impl Rules for HorizontalPodAutoscaler {
    fn default(&self, object: &mut Value, _context: &Context<'_>) {
        let spec = field_mut(object, "spec");
        fill(spec, "minReplicas", 1);
        if !is_filled(spec, "metrics") {
            let target = json!({"type": "Utilization", "averageUtilization": CPU_PERCENT});
            put(
                spec,
                "metrics",
                json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]),
            );
        }
        if let Some(behavior) = spec.get_mut("behavior").filter(|behavior| behavior.is_object()) {
            let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
            let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
            let up = field_mut(behavior, "scaleUp");
            fill(up, "stabilizationWindowSeconds", 0);
            fill(up, "selectPolicy", "Max");
            fill(up, "policies", json!([pods, percent]));
            let down = field_mut(behavior, "scaleDown");
            fill(down, "selectPolicy", "Max");
            fill(down, "policies", json!([percent]));
        }
        canonical_quantities(object, "autoscaling/v2.HorizontalPodAutoscaler");
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        remove(object, "status");
    }

    fn validate_create(&self, object: &Value, _context: &Context<'_>, errors: &mut Errors) {
        spec(errors, &object["spec"], true);
    }

    fn validate_update(&self, new: &Value, old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        let target = |object: &Value| {
            let target = &object["spec"]["scaleTargetRef"];
            (text(target, "apiVersion").to_owned(), text(target, "kind").to_owned())
        };
        spec(errors, &new["spec"], target(new) != target(old));
    }

    fn validate_status(&self, new: &Value, _old: &Value, _context: &Context<'_>, errors: &mut Errors) {
        for field in ["currentReplicas", "desiredReplicas"] {
            let count = number(&new["status"], field);
            if count < 0 {
                let path = Path::root("status");
                errors.invalid(path.field(field), count, "must be greater than or equal to 0");
            }
        }
    }

    fn columns(&self) -> &'static [Column] {
        const COLUMNS: &[Column] = &[
            Column::text("Reference"),
            Column::text("Targets"),
            Column::text("MinPods"),
            Column::text("MaxPods"),
            Column::text("Replicas"),
            Column::AGE,
        ];
        COLUMNS
    }

    fn cells(&self, object: &Value, context: &Context<'_>) -> Vec<Value> {
        let (spec, target) = (&object["spec"], &object["spec"]["scaleTargetRef"]);
        let least = some(spec, "minReplicas").map_or_else(|| "<unset>".to_owned(), Value::to_string);
        vec![
            format!("{}/{}", text(target, "kind"), text(target, "name")).into(),
            targets(spec, &object["status"]).into(),
            least.into(),
            number(spec, "maxReplicas").into(),
            number(&object["status"], "currentReplicas").into(),
            age(object, context),
        ]
    }
}

fn targets(spec: &Value, status: &Value) -> String {
    let metrics = list(spec, "metrics");
    if metrics.is_empty() {
        return "<none>".into();
    }
    let shown: Vec<String> = metrics
        .iter()
        .take(METRICS_SHOWN_MAX)
        .enumerate()
        .map(|(at, metric)| {
            let Some((_, field)) = SOURCES.iter().find(|(kind, _)| *kind == text(metric, "type")) else {
                return "<unknown type>".to_owned();
            };
            let wanted = &metric[*field]["target"];
            let current = list(status, "currentMetrics")
                .get(at)
                .map_or(&Value::Null, |metric| &metric[*field]["current"]);
            let show = |holder: &Value, field: &str| {
                some(holder, field)
                    .map(|amount| amount.as_str().map_or_else(|| amount.to_string(), str::to_owned))
            };
            let percent =
                |holder: &Value| show(holder, "averageUtilization").map(|number| format!("{number}%"));
            let unknown = || "<unknown>".to_owned();
            let by_resource = field.to_ascii_lowercase().ends_with("resource");
            let average = show(wanted, "averageValue");
            let (current, wanted, after) = match average {
                Some(average) => {
                    let after = if by_resource || *field == "pods" { "" } else { " (avg)" };
                    (show(current, "averageValue").unwrap_or_else(unknown), average, after)
                }
                None if by_resource => {
                    let wanted = percent(wanted).unwrap_or_else(|| "<auto>".to_owned());
                    (percent(current).unwrap_or_else(unknown), wanted, "")
                }
                None => (
                    show(current, "value").unwrap_or_else(unknown),
                    show(wanted, "value").unwrap_or_default(),
                    "",
                ),
            };
            let before =
                if by_resource { format!("{}: ", text(&metric[*field], "name")) } else { String::new() };
            format!("{before}{current}/{wanted}{after}")
        })
        .collect();
    let more = metrics.len().saturating_sub(METRICS_SHOWN_MAX);
    let rest = if more > 0 { format!(" + {more} more...") } else { String::new() };
    shown.join(", ") + &rest
}

fn spec(errors: &mut Errors, spec: &Value, target_is_new: bool) {
    let path = Path::root("spec");
    let (least, most) = (some(spec, "minReplicas").and_then(Value::as_i64), number(spec, "maxReplicas"));
    if let Some(least) = least.filter(|least| *least < 1) {
        errors.invalid(path.field("minReplicas"), least, "must be greater than or equal to 1");
    }
    if most == 0 {
        errors.required(path.field("maxReplicas"), "must be set and greater than 0");
    } else if most < 0 {
        errors.invalid(path.field("maxReplicas"), most, "must be greater than or equal to 1");
    }
    if least.is_some_and(|least| most < least) {
        errors.invalid(path.field("maxReplicas"), most, "must be greater than or equal to `minReplicas`");
    }
    let target = &spec["scaleTargetRef"];
    let at = path.field("scaleTargetRef");
    reference(errors, &at, target);
    let core_allowed = text(target, "kind") == "ReplicationController";
    if target_is_new && !core_allowed && !text(target, "apiVersion").contains('/') {
        let why = "apiVersion must specify API group";
        errors.invalid(at.field("apiVersion"), text(target, "apiVersion"), why);
    }
    for (at, metric) in list(spec, "metrics").iter().enumerate() {
        self::metric(errors, &path.field("metrics").index(at), metric);
    }
    if let Some(behavior) = some(spec, "behavior") {
        let path = path.field("behavior");
        for field in ["scaleUp", "scaleDown"] {
            if let Some(rules) = some(behavior, field) {
                self::rules(errors, &path.field(field), rules);
            }
        }
    }
}

fn reference(errors: &mut Errors, path: &Path<'_>, target: &Value) {
    for field in ["kind", "name"] {
        match text(target, field) {
            "" => errors.required(path.field(field), ""),
            said => {
                if let Err(why) = path_segment(said) {
                    errors.invalid(path.field(field), said, why);
                }
            }
        }
    }
}

fn metric(errors: &mut Errors, path: &Path<'_>, metric: &Value) {
    let kind = text(metric, "type");
    let known: Vec<&str> = SOURCES.iter().map(|(kind, _)| *kind).collect();
    if kind.is_empty() {
        errors.required(path.field("type"), "must specify a metric source type");
    }
    let expected = SOURCES.iter().find(|(known, _)| *known == kind).map(|(_, field)| *field);
    let Some(expected) = expected else {
        errors.push(path.field("type"), not_supported(kind, &known));
        return;
    };
    if !has(metric, expected) {
        errors.required(path.field(expected), "must populate information for the given metric source");
    }
    for (_, field) in SOURCES.iter().filter(|(_, field)| has(metric, field)) {
        if *field == expected {
            source(errors, &path.field(field), field, &metric[*field]);
        } else {
            errors.forbidden(path.field(field), "must populate the given metric source only");
        }
    }
}

fn source(errors: &mut Errors, path: &Path<'_>, kind: &str, source: &Value) {
    if kind == "object" {
        reference(errors, &path.field("describedObject"), &source["describedObject"]);
    }
    if ["object", "external", "pods"].contains(&kind) {
        let path = path.field("metric");
        match text(&source["metric"], "name") {
            "" => errors.required(path.field("name"), "must specify a metric name"),
            name => {
                if let Err(why) = path_segment(name) {
                    errors.invalid(path.field("name"), name, why);
                }
            }
        }
    } else if text(source, "name").is_empty() {
        errors.required(path.field("name"), "must specify a resource name");
    } else if kind == "containerResource" {
        container_resource(errors, &path.field("name"), text(source, "name"));
    }
    if kind == "containerResource" {
        match text(source, "container") {
            "" => errors.required(path.field("container"), "must specify a container"),
            container => dns_label(errors, &path.field("container"), container),
        }
    }
    target(errors, &path.field("target"), kind, &source["target"]);
}

fn target(errors: &mut Errors, path: &Path<'_>, kind: &str, target: &Value) {
    let sort = text(target, "type");
    if sort.is_empty() {
        errors.required(path.field("type"), "must specify a metric target type");
    }
    if !["Utilization", "Value", "AverageValue"].contains(&sort) {
        errors.invalid(path.field("type"), sort, "must be either Utilization, Value, or AverageValue");
    }
    for field in ["value", "averageValue"] {
        if let Some(said) = some(target, field)
            && quantity(said).is_some_and(|amount| amount.sign() <= 0)
        {
            errors.invalid(path.field(field), said.clone(), "must be positive");
        }
    }
    if let Some(percent) =
        some(target, "averageUtilization").and_then(Value::as_i64).filter(|percent| *percent < 1)
    {
        errors.invalid(path.field("averageUtilization"), percent, "must be greater than 0");
    }
    let (value, average, percent) =
        (has(target, "value"), has(target, "averageValue"), has(target, "averageUtilization"));
    match kind {
        "object" if !value && !average => {
            errors.required(path.field("averageValue"), "must set either a target value or averageValue");
        }
        "external" if !value && !average => errors.required(
            path.field("averageValue"),
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => errors.forbidden(
            path.field("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => {
            errors.required(path.field("averageValue"), "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !percent && !average => errors.required(
            path.field("averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        "resource" | "containerResource" if percent && average => errors.forbidden(
            path.field("averageValue"),
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn rules(errors: &mut Errors, path: &Path<'_>, rules: &Value) {
    if let Some(seconds) = some(rules, "stabilizationWindowSeconds").and_then(Value::as_i64) {
        let path = path.field("stabilizationWindowSeconds");
        if seconds < 0 {
            errors.invalid(path, seconds, "must be greater than or equal to zero");
        } else if seconds > STABILIZATION_SECONDS_MAX {
            let why = format!("must be less than or equal to {STABILIZATION_SECONDS_MAX}");
            errors.invalid(path, seconds, why);
        }
    }
    const SELECT: &[&str] = &["Disabled", "Max", "Min"];
    if has(rules, "selectPolicy") && !SELECT.contains(&text(rules, "selectPolicy")) {
        errors.push(path.field("selectPolicy"), not_supported(text(rules, "selectPolicy"), SELECT));
    }
    if !is_filled(rules, "policies") {
        errors.required(path.field("policies"), "must specify at least one Policy");
    }
    for (at, policy) in list(rules, "policies").iter().enumerate() {
        let path = path.field("policies");
        let path = path.index(at);
        const TYPES: &[&str] = &["Percent", "Pods"];
        if !TYPES.contains(&text(policy, "type")) {
            errors.push(path.field("type"), not_supported(text(policy, "type"), TYPES));
        }
        for field in ["value", "periodSeconds"] {
            if number(policy, field) <= 0 {
                errors.invalid(path.field(field), number(policy, field), "must be greater than zero");
            }
        }
        let period = number(policy, "periodSeconds");
        if period > PERIOD_SECONDS_MAX {
            let why = format!("must be less than or equal to {PERIOD_SECONDS_MAX}");
            errors.invalid(path.field("periodSeconds"), period, why);
        }
    }
    if let Some(said) = some(rules, "tolerance")
        && quantity(said).is_some_and(|amount| amount.is_negative())
    {
        errors.invalid(path.field("tolerance"), said.clone(), "must be greater than or equal to 0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{World, kind, set};

    #[test]
    fn defaults_are_those_of_kubernetes_and_what_cannot_be_is_refused() {
        let scalers = kind("autoscaling", "horizontalpodautoscalers");
        let scaler = json!({"metadata": {"name": "a"}, "spec": {"maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Disabled"}},
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        let stored = World::new().create(scalers, scaler.clone()).ok();
        assert_eq!(stored["spec"]["minReplicas"], 1);
        assert_eq!(stored["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 80);
        assert_eq!(stored["spec"]["behavior"]["scaleUp"]["policies"].as_array().unwrap().len(), 2);
        assert_eq!(stored["spec"]["behavior"]["scaleDown"]["selectPolicy"], "Disabled");
        let row = World::new().row(scalers, &stored);
        assert_eq!(
            row[..5],
            ["Reference=Deployment/d", "Targets=cpu: <unknown>/80%", "MinPods=1", "MaxPods=3", "Replicas=0"]
        );
        let rows: &[(&str, Value, &[&str])] = &[
            ("/spec/maxReplicas", json!(0), &["spec.maxReplicas Invalid", "spec.maxReplicas Required"]),
            ("/spec/minReplicas", json!(4), &["spec.maxReplicas Invalid"]),
            ("/spec/scaleTargetRef/kind", json!(""), &["spec.scaleTargetRef.kind Required"]),
            ("/spec/scaleTargetRef/apiVersion", json!("v1"), &["spec.scaleTargetRef.apiVersion Invalid"]),
            (
                "/spec/metrics",
                json!([{"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue"}}}]),
                &["spec.metrics[0].pods.target.averageValue Required"],
            ),
            (
                "/spec/metrics",
                json!([{"type": "Resource", "external": {}}]),
                &["spec.metrics[0].external Forbidden", "spec.metrics[0].resource Required"],
            ),
            (
                "/spec/behavior",
                json!({"scaleUp": {"policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}]}}),
                &["spec.behavior.scaleUp.policies[0].periodSeconds Invalid"],
            ),
        ];
        for (pointer, value, wanted) in rows {
            assert_eq!(
                World::new().create(scalers, set(&scaler, pointer, value.clone())).wrong(),
                *wanted,
                "{pointer}"
            );
        }
    }
}
