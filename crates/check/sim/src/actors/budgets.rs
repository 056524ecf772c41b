//! Disruption budgets: objects that people write, statuses that the workload controllers compute, and the eviction API that goes by them.

use lazaret_model::{ObjectKey, Pod, PodPhase};
use lazaret_workloads::{Key, Propagation, resource};
use serde_json::{Value, json};

use crate::{actors::owners::BUDGETED, api::wall, palette, scenario::Op, world::World};

/// The name of the budget of a namespace.
const NAME: &str = "budget";

fn key(namespace: &str) -> Key {
    Key::new(namespace, NAME)
}

impl World {
    /// A person writes the budget of a namespace, or deletes it.
    pub(crate) fn set_budget(&mut self, namespace: &'static str, unavailable: Option<Value>) {
        let key = key(namespace);
        let Some(unavailable) = unavailable else {
            self.api.delete_object(self.now, &resource::BUDGETS, &key, Propagation::Background);
            return;
        };
        if self.has_budget(namespace) {
            let edit = |budget: &mut Value| budget["spec"]["maxUnavailable"] = unavailable;
            self.api.edit_object(&resource::BUDGETS, &key, edit);
            return;
        }
        let uid = self.api.new_uid();
        let selector = json!({"matchLabels": {BUDGETED.0: BUDGETED.1}});
        let budget = json!({
            "metadata": {"name": NAME, "namespace": namespace},
            "spec": {"selector": selector, "maxUnavailable": unavailable},
        });
        // There is none of the name.
        let _made = self.api.create_object(self.now, &resource::BUDGETS, &uid, budget);
    }

    /// From here on all budgets permit everything: a pod that has to leave leaves. One that counts the pods that owners want permits nothing where
    /// no pod has an owner any more.
    pub(crate) fn relax_budgets(&mut self) {
        let may_be_orphaned = self.config.replaced != 0
            || self.transitions.iter().any(|transition| transition.op == Op::DeleteOwner);
        for namespace in palette::NAMESPACES {
            self.api.edit_object(&resource::BUDGETS, &key(namespace), |budget| {
                let spec = &mut budget["spec"];
                if may_be_orphaned {
                    spec["minAvailable"] = json!(0);
                    spec.as_object_mut().map(|spec| spec.remove("maxUnavailable"));
                } else {
                    spec["maxUnavailable"] = json!("100%");
                }
            });
        }
    }

    /// Whether budgets cover a pod.
    pub(crate) fn is_budgeted(&self, pod: &Pod) -> bool {
        self.api.label(&pod.uid, BUDGETED.0).is_some()
    }

    pub(crate) fn has_budget(&self, namespace: &str) -> bool {
        self.api.objects.get(&resource::BUDGETS, &key(namespace)).is_some()
    }

    /// The budget that covers a pod. Pods that do not run are evicted without asking one.
    pub(crate) fn budget_of(&self, pod: &Pod) -> Option<&Value> {
        let budget = self.api.objects.get(&resource::BUDGETS, &key(&pod.key.namespace))?;
        (pod.phase == PodPhase::Running && self.is_budgeted(pod)).then_some(budget)
    }

    /// The eviction API let a pod go: the budget says so until its controller has seen it.
    pub(super) fn note_disruption(&mut self, pod: &ObjectKey) {
        let stored = self.api.pods.get(pod).map(|stored| stored.object);
        let Some(budget) = stored.and_then(|stored| self.budget_of(stored)) else { return };
        let left = budget["status"]["disruptionsAllowed"].as_u64().unwrap_or(0).saturating_sub(1);
        let (name, at) = (pod.name.to_string(), lazaret_api::format_time(wall(self.now)));
        self.api.edit_object(&resource::BUDGETS, &key(&pod.namespace), |budget| {
            budget["status"]["disruptionsAllowed"] = json!(left);
            budget["status"]["disruptedPods"][name] = json!(at);
        });
    }
}

/// Whether a budget permits one more eviction: its status is about its spec.
pub(crate) fn permits(budget: &Value) -> bool {
    let status = &budget["status"];
    status["observedGeneration"] == budget["metadata"]["generation"]
        && status["disruptionsAllowed"].as_u64().unwrap_or(0) > 0
}
