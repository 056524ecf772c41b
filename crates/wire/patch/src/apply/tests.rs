use super::*;
use lazaret_schema::builtin;

fn request(manager: &str) -> ApplyRequest<'_> {
    ApplyRequest {
        manager,
        api_version: "v1",
        subresource: "",
        force: false,
        time: "2026-01-01T00:00:00Z",
        ignored: &[],
        other_names: &[],
        compared: Compared(&|_| {}),
    }
}

struct World {
    ty: TypeId,
    object: Option<Value>,
}

impl World {
    fn new(ty: &str) -> Self {
        Self { ty: builtin().find(ty).unwrap(), object: None }
    }

    fn apply(&mut self, manager: &str, config: Value) -> Result<bool, ApplyError> {
        self.apply_with(&request(manager), config)
    }

    fn apply_with(&mut self, request: &ApplyRequest<'_>, config: Value) -> Result<bool, ApplyError> {
        let Ownership { object, changed } =
            apply(builtin(), self.ty, self.object.as_ref(), &config, request)?;
        self.object = Some(object);
        Ok(changed)
    }

    fn write(&mut self, manager: &str, object: Value) {
        self.object = Some(track_update(builtin(), self.ty, self.object.as_ref(), object, &request(manager)));
    }

    fn body(&self) -> Value {
        let mut body = self.object.clone().unwrap();
        drop(ManagedFields::take(&mut body));
        if body["metadata"] == json!({}) {
            body.as_object_mut().unwrap().remove("metadata");
        }
        body
    }

    fn owned(&self, manager: &str) -> Vec<String> {
        let owners = ManagedFields::take(&mut self.object.clone().unwrap());
        owners
            .entries
            .iter()
            .filter(|(known, _)| known.name == manager)
            .flat_map(|(_, entry)| entry.fields.set().display())
            .collect()
    }
}

#[test]
fn applying_a_zero_value_over_another_is_a_change() {
    let node = |wanted: bool| json!({"spec": {"unschedulable": wanted}});
    let mut world = World::new("core/v1.Node");
    world.apply("a", node(true)).unwrap();
    let refused = world.apply("b", node(false)).unwrap_err();
    assert!(
        matches!(&refused, ApplyError::Conflicts(list) if list[0].fields == [".spec.unschedulable"]),
        "{refused}"
    );
    world.apply_with(&ApplyRequest { force: true, ..request("b") }, node(false)).unwrap();
    assert_eq!((world.owned("a").len(), world.owned("b")), (0, vec![".spec.unschedulable".to_owned()]));
    // Of the same zero there may be several owners.
    assert!(world.apply("a", node(false)).unwrap());
    assert_eq!(world.owned("b"), world.owned("a"));
}

#[test]
fn a_claim_reference_is_owned_by_field() {
    let volume = |uid: &str| json!({"spec": {"claimRef": {"name": "c", "uid": uid}}});
    let mut world = World::new("core/v1.PersistentVolume");
    world.write("binder", volume("1"));
    world.apply("me", json!({"spec": {"claimRef": {"name": "c"}}})).unwrap();
    assert_eq!(world.body(), volume("1"), "what others set in it stays");
}

/// The write of a plain `kubectl apply`: the object, and in an annotation the applied configuration.
fn client_side_applied(image: &str, label: &str) -> Value {
    let applied = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"a": label}},
        "spec": {"containers": [{"name": "c", "image": image}]},
    });
    let mut live = applied.clone();
    live["metadata"]["annotations"] =
        json!({"kubectl.kubernetes.io/last-applied-configuration": applied.to_string()});
    live["spec"]["restartPolicy"] = "Always".into();
    live
}

#[test]
fn kubectl_takes_over_what_it_applied_without_the_server() {
    let wanted = |label: &str, image: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": label}}, "spec": {"containers": [{"name": "c", "image": image}]}});
    let mut world = World::new("core/v1.Pod");
    world.write("kubectl-client-side-apply", client_side_applied("i", "1"));
    let refused = world.apply("another", wanted("2", "j")).unwrap_err();
    assert!(matches!(&refused, ApplyError::Conflicts(list) if list[0].fields.len() == 2), "{refused}");
    world.apply("kubectl", wanted("2", "j")).unwrap();
    assert_eq!(world.body()["spec"]["containers"][0]["image"], "j");
    assert_eq!(world.body()["metadata"]["labels"]["a"], "2");

    // A field that another manager changed since no longer belongs to kubectl.
    let mut world = World::new("core/v1.Pod");
    world.write("kubectl-client-side-apply", client_side_applied("i", "1"));
    let mut changed = world.body();
    changed["spec"]["containers"][0]["image"] = "k".into();
    world.write("somebody", changed);
    let refused = world.apply("kubectl", wanted("2", "j")).unwrap_err();
    let ApplyError::Conflicts(list) = &refused else { panic!("{refused}") };
    assert_eq!(list.len(), 1, "{refused}");
    assert_eq!((list[0].manager.name.as_str(), list[0].fields.len()), ("somebody", 1), "{refused}");
}

#[test]
fn the_record_has_kubernetes_form() {
    let mut world = World::new("core/v1.ConfigMap");
    world.apply("a", json!({"metadata": {"name": "x", "labels": {"l": "1"}}, "data": {"k": "v"}})).unwrap();
    let mut object = world.object.unwrap();
    ManagedFields::unfold(&mut object);
    assert_eq!(
        object["metadata"]["managedFields"],
        json!([{
            "manager": "a", "operation": "Apply", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1",
            "fieldsV1": {"f:data": {"f:k": {}}, "f:metadata": {"f:labels": {"f:l": {}}}},
        }])
    );
}

fn fields(world: &World, manager: &str) -> String {
    let owners = ManagedFields::of(world.object.as_ref().unwrap());
    let (_, entry) = owners.entries.iter().find(|(known, _)| known.name == manager).unwrap();
    serde_json::to_string(&entry.fields).unwrap()
}

#[test]
fn a_new_object_owns_its_maps_and_items_themselves_but_not_what_every_object_has() {
    let mut world = World::new("apps/v1.Deployment");
    world.write(
        "a",
        json!({"metadata": {"labels": {"l": "1"}, "annotations": {}}, "spec": {
            "paused": false,
            "strategy": {"rollingUpdate": {"maxSurge": 1}},
            "template": {"metadata": {"labels": {"l": "1"}}, "spec": {
                "containers": [{"name": "c", "resources": {}, "ports": [{"containerPort": 443, "protocol": "TCP"}, {"containerPort": 80, "protocol": "TCP"}]}],
                "volumes": [{"name": "v", "emptyDir": {}}],
            }},
        }, "status": {}}),
    );
    assert_eq!(
        fields(&world, "a"),
        concat!(
            r#"{"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{}}},"#,
            r#""f:template":{"f:metadata":{"f:labels":{".":{},"f:l":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"#,
            r#""f:ports":{".":{},"k:{\"containerPort\":80,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}},"#,
            r#""k:{\"containerPort\":443,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{}}},"#,
            r#""f:volumes":{".":{},"k:{\"name\":\"v\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}}}"#,
        )
    );
}

#[test]
fn a_map_is_owned_by_who_made_it_until_it_is_gone() {
    let mut world = World::new("core/v1.ConfigMap");
    world.write("a", json!({"metadata": {"labels": {"l": "1"}}, "data": {"k": "v"}}));
    world.write("b", json!({"metadata": {"labels": {"m": "1"}}, "data": {"k": "v"}}));
    assert_eq!(fields(&world, "a"), r#"{"f:data":{".":{},"f:k":{}},"f:metadata":{"f:labels":{}}}"#);
    assert_eq!(fields(&world, "b"), r#"{"f:metadata":{"f:labels":{"f:m":{}}}}"#);
    // An empty map is none.
    world.write("c", json!({"metadata": {"labels": {}}, "data": {"k": "v"}}));
    assert_eq!(fields(&world, "a"), r#"{"f:data":{".":{},"f:k":{}}}"#);
    assert_eq!(world.owned("b"), Vec::<String>::new());
}

#[test]
fn a_condition_is_owned_with_the_times_that_nobody_set() {
    let mut world = World::new("core/v1.Pod");
    world.write("a", json!({"spec": {"restartPolicy": "Never"}}));
    world.write(
        "b",
        json!({"spec": {"restartPolicy": "Never"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
    );
    let condition = concat!(
        r#"{"f:status":{"f:conditions":{".":{},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"#,
        r#""f:status":{},"f:type":{}}}}}"#
    );
    assert_eq!(fields(&world, "b"), condition);
    world.write(
        "c",
        json!({"spec": {"restartPolicy": "Never"}, "status": {"conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}),
    );
    assert_eq!(fields(&world, "b"), condition.replace(r#""f:lastTransitionTime":{},"#, ""));
}

#[test]
fn a_record_begins_with_the_object_or_with_the_first_apply() {
    let mut world = World::new("core/v1.ConfigMap");
    world.write("a", json!({"metadata": {"name": "x"}}));
    world.write("b", json!({"metadata": {"name": "x"}, "data": {"k": "v"}}));
    assert_eq!(world.owned("b"), Vec::<String>::new());
    world.apply("c", json!({"data": {"l": "v"}})).unwrap();
    assert_eq!(fields(&world, "before-first-apply"), r#"{"f:data":{".":{},"f:k":{}}}"#);
    assert_eq!(fields(&world, "c"), r#"{"f:data":{"f:l":{}}}"#);
}

#[test]
fn applying_again_changes_nothing_and_leaving_a_field_out_removes_it() {
    let mut world = World::new("core/v1.ConfigMap");
    let config = json!({"metadata": {"name": "x"}, "data": {"a": "1", "b": "2"}});
    assert!(world.apply("m", config.clone()).unwrap());
    assert!(!world.apply("m", config).unwrap());
    assert!(world.apply("m", json!({"metadata": {"name": "x"}, "data": {"a": "1"}})).unwrap());
    assert_eq!(world.body(), json!({"metadata": {"name": "x"}, "data": {"a": "1"}}));
}

#[test]
fn another_managers_field_conflicts_until_forced_and_equal_values_are_shared() {
    let mut world = World::new("core/v1.ConfigMap");
    world.apply("a", json!({"data": {"k": "1", "s": "same"}})).unwrap();
    world.apply("b", json!({"data": {"s": "same"}})).unwrap();
    let error = world.apply("b", json!({"data": {"k": "2", "s": "same"}})).unwrap_err();
    assert_eq!(error.to_string(), r#"Apply failed with 1 conflict: conflict with "a": .data.k"#);
    let forced = ApplyRequest { force: true, ..request("b") };
    world.apply_with(&forced, json!({"data": {"k": "2", "s": "same"}})).unwrap();
    assert_eq!(world.body(), json!({"data": {"k": "2", "s": "same"}}));
    assert_eq!(world.owned("a"), [".data.s"]);
    world.apply("a", json!({})).unwrap();
    assert_eq!(world.body()["data"]["s"], "same", "still owned by b");
}

#[test]
fn plain_writes_own_what_they_change_and_conflicts_name_their_time() {
    let mut world = World::new("core/v1.ConfigMap");
    world.apply("a", json!({"data": {"k": "1", "x": "1"}})).unwrap();
    let mut body = world.body();
    body["data"]["k"] = "2".into();
    world.write("kubectl-edit", body);
    assert_eq!(world.owned("kubectl-edit"), [".data.k"]);
    assert_eq!(world.owned("a"), [".data.x"]);
    let error = world.apply("a", json!({"data": {"k": "1", "x": "1"}})).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Apply failed with 1 conflict: conflict with "kubectl-edit" using v1 at 2026-01-01T00:00:00Z: .data.k"#
    );
    world.write("kubectl-edit", json!({"data": {"x": "1"}}));
    assert_eq!(world.owned("kubectl-edit"), Vec::<String>::new(), "what is gone is owned by nobody");
}

#[test]
fn drivers_share_the_device_list_of_a_claim() {
    let mut world = World::new("resource/v1.ResourceClaim");
    let device = |name: &str| json!({"driver": "d", "pool": "p", "device": name, "conditions": [{"type": "Ready", "status": "True"}]});
    world.write("one", json!({"status": {"devices": [device("one")]}}));
    let status = |device: Value| json!({"status": {"devices": [device]}});
    world.apply("two", status(device("two"))).unwrap();
    world.apply("three", status(device("three"))).unwrap();
    let names = |world: &World| -> Vec<String> {
        world.body()["status"]["devices"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d["device"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&world), ["one", "two", "three"]);
    world.apply("two", json!({"status": {}})).unwrap();
    assert_eq!(names(&world), ["one", "three"]);
}

#[test]
fn an_item_keeps_the_fields_of_others_when_its_applier_leaves() {
    let mut world = World::new("core/v1.Pod");
    world
        .apply("a", json!({"status": {"conditions": [{"type": "X", "status": "True", "message": "m"}]}}))
        .unwrap();
    world.apply("b", json!({"status": {"conditions": [{"type": "X", "reason": "R"}]}})).unwrap();
    world.apply("a", json!({})).unwrap();
    assert_eq!(world.body(), json!({"status": {"conditions": [{"type": "X", "reason": "R"}]}}));
}

#[test]
fn lists_that_are_one_value_are_owned_whole() {
    let mut world = World::new("resource/v1.ResourceClaim");
    world.apply("a", json!({"spec": {"devices": {"requests": [{"name": "r"}]}}})).unwrap();
    assert_eq!(world.owned("a"), [".spec.devices.requests"]);
    assert!(world.apply("b", json!({"spec": {"devices": {"requests": [{"name": "q"}]}}})).is_err());
}

#[test]
fn an_item_may_not_stand_twice_in_what_is_applied() {
    let mut world = World::new("core/v1.Pod");
    let error =
        world.apply("a", json!({"spec": {"containers": [{"name": "c"}, {"name": "c"}]}})).unwrap_err();
    assert!(error.to_string().contains(r#".spec.containers[name="c"]: stands twice"#), "{error}");
}

#[test]
fn keys_with_defaults_identify_items_that_leave_them_out() {
    let mut world = World::new("core/v1.Pod");
    let ports = |ports: Value| json!({"spec": {"containers": [{"name": "c", "ports": ports}]}});
    world
        .apply("a", ports(json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}])))
        .unwrap();
    world.apply("a", ports(json!([{"containerPort": 80, "protocol": "TCP", "name": "web"}]))).unwrap();
    let expected = json!([{"containerPort": 80, "protocol": "TCP", "name": "web"}]);
    assert_eq!(world.body()["spec"]["containers"][0]["ports"], expected);
}

#[test]
fn the_order_of_the_applied_list_wins_and_others_items_keep_their_neighbours() {
    let mut world = World::new("core/v1.Pod");
    let conditions = |names: &[&str]| json!({"status": {"conditions": names.iter().map(|n| json!({"type": n, "status": "True"})).collect::<Vec<_>>()}});
    world.write("w", conditions(&["A", "X", "B", "Y"]));
    world.apply("a", conditions(&["B", "C", "A"])).unwrap();
    let names: Vec<String> = world.body()["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, ["B", "C", "A", "X", "Y"]);
}

#[test]
fn many_plain_writers_are_folded() {
    let mut world = World::new("core/v1.ConfigMap");
    for number in 0..15 {
        let mut body = if number == 0 { json!({"data": {}}) } else { world.body() };
        body["data"][format!("k{number:02}").as_str()] = "v".into();
        world.write(&format!("w{number:02}"), body);
    }
    assert_eq!(ManagedFields::of(world.object.as_ref().unwrap()).entries.len(), 10);
    assert!(!world.owned("ancient-changes").is_empty());
}

#[test]
fn a_writer_may_reset_the_record() {
    let mut world = World::new("core/v1.ConfigMap");
    world.apply("a", json!({"data": {"k": "1"}})).unwrap();
    world.write("b", json!({"metadata": {"managedFields": [{}]}, "data": {"k": "1"}}));
    assert_eq!(world.object.unwrap(), json!({"metadata": {}, "data": {"k": "1"}}));
}

#[test]
fn an_item_goes_with_who_applied_it_though_another_owns_a_field_of_it() {
    let mut world = World::new("apps/v1.Deployment");
    let container = |name: &str| json!({"name": name, "image": "i"});
    let with = |containers: &[Value]| json!({"spec": {"template": {"spec": {"containers": containers}}}});
    world.apply("a", with(&[container("x"), container("y")])).unwrap();
    let mut other = world.object.clone().unwrap();
    other["spec"]["template"]["spec"]["containers"][1]["resources"] = json!({"limits": {"cpu": "1"}});
    world.write("b", other);
    world.apply("a", with(&[container("x")])).unwrap();
    assert_eq!(world.body(), with(&[container("x")]));
    assert_eq!(world.owned("b"), Vec::<String>::new(), "nobody owns what is not there");
    // The owner of the item itself keeps it, with its own fields.
    world.apply("a", with(&[container("x"), container("y")])).unwrap();
    world.apply("c", with(&[json!({"name": "y", "imagePullPolicy": "Always"})])).unwrap();
    world.apply("a", with(&[container("x")])).unwrap();
    assert_eq!(world.body(), with(&[container("x"), json!({"name": "y", "imagePullPolicy": "Always"})]));
}

/// The record as a client sees it.
fn record(world: &World) -> Value {
    let mut object = world.object.clone().unwrap();
    ManagedFields::unfold(&mut object);
    object["metadata"]["managedFields"].clone()
}

#[test]
fn a_record_is_written_by_who_sends_a_whole_one_to_the_object_itself() {
    let start = || {
        let mut world = World::new("core/v1.ConfigMap");
        world.write("editor", json!({"metadata": {"name": "x"}, "data": {"k": "v"}}));
        world
    };
    let entry = |change: &dyn Fn(&mut Value)| {
        let mut entry = json!({"manager": "other", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:k": {}}}});
        change(&mut entry);
        json!([entry])
    };
    let send = |world: &mut World, record: &Value, subresource: &str| {
        let mut object = world.object.clone().unwrap();
        object["metadata"]["managedFields"] = record.clone();
        let request = ApplyRequest { subresource, ..request("editor") };
        world.object = Some(track_update(builtin(), world.ty, world.object.as_ref(), object, &request));
    };
    let mut world = start();
    send(&mut world, &entry(&|_| {}), "");
    assert_eq!((world.owned("other"), world.owned("editor")), (vec![".data.k".to_owned()], vec![]));
    let kept: &[(&str, Value)] = &[
        ("not a list", Value::Null),
        ("an operation that is none", entry(&|entry| entry["operation"] = "Steal".into())),
        ("no version", entry(&|entry| entry["apiVersion"] = "".into())),
        ("another form of fields", entry(&|entry| entry["fieldsType"] = "FieldsV2".into())),
        ("fields that are none", entry(&|entry| entry["fieldsV1"] = json!({"data": {}}))),
        ("fields below nothing", entry(&|entry| entry["fieldsV1"] = json!({"f:data": 1}))),
    ];
    for (what, sent) in kept {
        let mut world = start();
        let before = record(&world);
        send(&mut world, sent, "");
        assert_eq!(record(&world), before, "{what}");
    }
    let mut world = start();
    let before = record(&world);
    send(&mut world, &entry(&|_| {}), "status");
    assert_eq!(record(&world), before, "a subresource has no record of its own");
    for reset in [json!([]), json!([{}])] {
        let mut world = start();
        send(&mut world, &reset, "");
        assert_eq!(record(&world), Value::Null);
    }
}

#[test]
fn who_applies_in_another_version_is_the_same_manager() {
    let mut world = World::new("core/v1.ConfigMap");
    let older = ApplyRequest { api_version: "v1beta1", ..request("a") };
    world.apply_with(&older, json!({"metadata": {"name": "x"}, "data": {"k": "1", "l": "1"}})).unwrap();
    world.apply("a", json!({"metadata": {"name": "x"}, "data": {"k": "2"}})).unwrap();
    assert_eq!(world.body()["data"], json!({"k": "2"}));
    assert_eq!(record(&world).as_array().unwrap().len(), 1);
}
