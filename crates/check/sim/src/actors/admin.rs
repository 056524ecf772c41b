//! The administrator, the users, and the faults: what each transition does.

use lazaret_model::{
    CapacityMode, DevicePatch, DeviceTaintRule, EvictionSpec, ResourceSlicePatch, Taint, Text,
};
use std::sync::Arc;

use crate::{
    actors::{forgers, people},
    api::{Kind, wall},
    coverage::Mark,
    palette,
    scenario::{Op, Transition},
    world::{CLIENTS, Errors, Step, World},
};

/// Evictions a second at the pace of somebody in a hurry.
const HURRIED: i64 = 20;
/// One in this many pods that users delete is removed by force.
const FORCED: u32 = 4;

impl World {
    /// Something happens from outside.
    pub(crate) fn transition(&mut self, number: usize) {
        let Transition { op, a, b, c, .. } = self.transitions[number];
        let client = a as usize % CLIENTS;
        let controller = a as usize % self.controllers.len();
        let kind = Kind::ALL[b as usize % Kind::ALL.len()];
        let later = self.now + u64::from(c);
        match op {
            Op::TaintDevice => self.taint_device(a, b),
            Op::ClearDevice => self.clear_device(a),
            Op::TaintBySlice => self.taint_by_slice(a, b, c),
            Op::ClearSlice => self.clear_slice(a),
            Op::RollPool => self.roll_pool(a, c),
            Op::VanishSlice => self.vanish_slice(a),
            Op::RestoreSlice => self.restore_slice(a),
            Op::WriteRule => self.write_rule(a, b, c),
            Op::EditEffect => self.edit_rule(a, |rule| rule.taint.effect = palette::effect(b)),
            Op::EditPace => self.edit_rule(a, |rule| rule.taint.evictions_per_second = palette::pace(b)),
            Op::EditSelector => {
                let selector = self.selector(b);
                self.edit_rule(a, |rule| rule.selector = selector);
            }
            Op::DeleteRule => drop(self.api.rules.remove(&mut self.api.versions, &rule_name(a))),
            Op::WritePatch => self.write_patch(a, b, c),
            Op::DeletePatch => {
                self.api.patches.remove(&mut self.api.versions, &patch_name(a));
            }
            Op::EditClass => self.write_class(a as usize, b),
            Op::DeleteClass => {
                let name = Text::from(palette::CLASSES[a as usize % palette::CLASSES.len()]);
                self.api.classes.remove(&mut self.api.versions, &name);
            }
            Op::DeletePod => self.user_deletes(a, b.is_multiple_of(FORCED)),
            Op::FinishPod => self.user_pod_ends(a, b.is_multiple_of(2)),
            Op::Deallocate => self.deallocate(a),
            Op::Relist => self.relist(client, kind),
            Op::Stall => self.clients[client].stall(kind, later),
            Op::Repeat => self.repeat_event(client, kind),
            Op::HandOver => self.hand_over(u64::from(c)),
            Op::Crash if b.is_multiple_of(2) => self.close(controller, u64::from(c)),
            Op::Crash => self.crash(controller, u64::from(c)),
            Op::ClockJump => {
                self.jump(controller, if b.is_multiple_of(2) { i64::from(c) } else { -i64::from(c) })
            }
            Op::CutLease => self.controllers[controller].cut(later),
            Op::Freeze => self.controllers[controller].freeze(self.now, later),
            Op::Panic => panic_of_part(self, controller, b),
            Op::Scale => self.scale(a, b),
            Op::DeleteOwner => self.delete_owner(a, b),
            Op::Errors => {
                self.errors = Some(Errors { until: later, manner: a, permille: u64::from(100 + b % 900) });
            }
            Op::SlowKubelet => self.slow_kubelet(palette::node(a % self.config.nodes)),
            Op::PowerOff => self.power_off(a, u64::from(c)),
            Op::RemoveClaim => self.remove_claim(a),
            Op::PowerOn => self.power_on(a),
            Op::DeleteNode => self.delete_node(a, b, u64::from(c)),
            Op::RestartKubelets => self.restart_kubelets(u64::from(c)),
            Op::EditEviction => {
                let eviction = palette::eviction(b, wall(self.now));
                self.edit_rule(a, |rule| rule.taint.eviction = eviction);
            }
            Op::WriteGuard if c % 4 == 3 => self.approve(&rule_name(a), b),
            Op::WriteGuard => self.write_guard(a, b, c),
            Op::Approve => self.approve_as_seen(&rule_name(a), b),
            Op::Person => self.person(a, b),
            Op::Report => self.report(a, b, c),
            Op::WriteReplacement => self.write_replacement_policy(a, b, c),
            Op::DeleteReplacement => self.delete_replacement_policy(a),
            Op::TaintNode => self.taint_node(a, b),
            Op::SetMode => self.set_mode(b.is_multiple_of(2)),
            Op::Observe => self.set_observer(b.is_multiple_of(2)),
            Op::WritePolicy => self.write_policy(b),
            Op::TakeAway => self.take_away(a, b),
            Op::Cordon => self.set_cordon(a, true),
            Op::Uncordon => self.set_cordon(a, false),
            Op::ReportDevices => self.report_anew(a, b.is_multiple_of(2)),
            Op::Lie => people::lie(self, a, b, c),
            Op::ForgeSlice | Op::ForgeApproval => forgers::forge(self, op, (a, b), &rule_name(a)),
            Op::Hesitate => people::hesitate(self, a, b.is_multiple_of(2)),
            Op::SetBudget => change_budget(self, a, b),
        }
    }

    /// The leader is asked to end.
    fn hand_over(&mut self, down_ms: u64) {
        let leader = self.controllers.iter().position(|controller| controller.holds(self.now));
        if let Some(leader) = leader {
            self.close(leader, down_ms);
        }
    }

    pub(crate) fn selector(&self, number: u32) -> Option<lazaret_model::DeviceSelector> {
        let devices = self.config.slices * self.config.devices;
        palette::selector(number, self.config.nodes, devices, self.config.wide != 0)
    }

    fn write_rule(&mut self, name: u32, selector: u32, taint: u32) {
        let name = rule_name(name);
        let selector = self.selector(selector);
        let taint = Taint {
            evictions_per_second: palette::pace(taint / 11),
            eviction: palette::eviction(taint / 17, wall(self.now)).filter(|_| self.config.protected != 0),
            ..palette::taint(taint, wall(self.now))
        };
        if self.api.rules.get(&name).is_some() {
            self.sign_and_edit(&name, |rule| (rule.selector, rule.taint) = (selector, taint));
            return;
        }
        let rule = DeviceTaintRule {
            name,
            uid: self.api.new_uid(),
            generation: 1,
            created: Some(wall(self.now).truncated_to_secs()),
            selector,
            taint,
            conditions: Vec::new(),
            evictions: None,
            evicting: Vec::new(),
            effective_since: None,
            review: self.review(),
            is_compiled: false,
        };
        self.api.rules.put(&mut self.api.versions, rule);
    }

    fn edit_rule(&mut self, name: u32, edit: impl FnOnce(&mut DeviceTaintRule)) {
        self.sign_and_edit(&rule_name(name), edit);
    }

    /// The writer of a new spec is named as its author.
    fn sign_and_edit(&mut self, name: &Text, edit: impl FnOnce(&mut DeviceTaintRule)) {
        let author = self.review();
        self.api.edit_rule(self.now, name, |rule| {
            let before = (rule.selector.clone(), rule.taint.clone());
            edit(rule);
            if (&rule.selector, &rule.taint) != (&before.0, &before.1) {
                let approval = rule.review.take().and_then(|review| review.approval);
                rule.review = author.or_else(|| approval.as_ref().map(|_| Box::default()));
                if let Some(review) = &mut rule.review {
                    review.approval = approval;
                }
            }
        });
    }

    /// Rules evict at any time from now on, whether there is room or not, and a group whatever its size is: what waits for these may wait for
    /// ever.
    pub(crate) fn lift_limits(&mut self) {
        let waits = |rule: &DeviceTaintRule| {
            rule.taint.eviction.as_ref().is_some_and(|spec| {
                !spec.windows.is_empty() || spec.capacity == CapacityMode::Wait || is_bounded(spec)
            })
        };
        let rules = self.api.rules.iter().filter(|rule| waits(rule.object));
        for name in rules.map(|rule| rule.object.name.clone()).collect::<Vec<Text>>() {
            self.api.edit_rule(self.now, &name, |rule| {
                if let Some(spec) = &mut rule.taint.eviction {
                    let spec = Arc::make_mut(spec);
                    spec.windows.clear();
                    (spec.capacity, spec.capacity_timeout_seconds) = (CapacityMode::Ignore, None);
                    if is_bounded(spec) {
                        spec.max_concurrent = None;
                    }
                }
            });
        }
    }

    /// The administrator is in a hurry: rules that would take long go on at a higher pace, and with any number of pods at a time.
    pub(crate) fn hurry(&mut self) {
        let limited = |rule: &DeviceTaintRule| {
            rule.taint.eviction.as_ref().is_some_and(|spec| spec.max_concurrent.is_some())
        };
        let rules = self.api.rules.iter().filter(|rule| limited(rule.object));
        for name in rules.map(|rule| rule.object.name.clone()).collect::<Vec<Text>>() {
            self.api.edit_rule(self.now, &name, |rule| rule.taint.eviction = None);
        }
        let default = Some(i64::from(self.config.default_pace)).filter(|pace| *pace > 0);
        let slow = |rule: &DeviceTaintRule| {
            rule.taint.evictions_per_second.or(default).is_some_and(|pace| pace < HURRIED)
        };
        let rules: Vec<Text> = self
            .api
            .rules
            .iter()
            .filter(|rule| slow(rule.object))
            .map(|rule| rule.object.name.clone())
            .collect();
        for name in rules {
            self.api.edit_rule(self.now, &name, |rule| rule.taint.evictions_per_second = Some(HURRIED));
        }
    }

    fn write_patch(&mut self, name: u32, selector: u32, taint: u32) {
        let uid = self.api.new_uid();
        let number = taint;
        let taint = Taint {
            evictions_per_second: palette::pace(number / 11),
            ..palette::taint(number, wall(self.now))
        };
        let values =
            if self.config.wide != 0 { palette::values(number / 13) } else { DevicePatch::default() };
        let bare = self.config.wide != 0 && number.is_multiple_of(3);
        let patch = ResourceSlicePatch {
            name: patch_name(name),
            uid,
            selector: self.selector(selector),
            patch: DevicePatch {
                priority: i64::from(selector % 3),
                taints: if bare { Vec::new() } else { vec![taint] },
                ..values
            },
            ..ResourceSlicePatch::default()
        };
        self.api.patches.put(&mut self.api.versions, patch);
    }

    /// The pod that a number means now.
    fn pod_number(&self, number: u32) -> Option<Arc<lazaret_model::Pod>> {
        let count = self.api.pods.len();
        self.api.pods.iter().nth(number as usize % count.max(1)).map(|stored| Arc::clone(stored.object))
    }

    fn user_deletes(&mut self, number: u32, by_force: bool) {
        if let Some(pod) = self.pod_number(number) {
            if by_force && pod.node.is_some() && !pod.phase.is_finished() {
                return self.remove_by_force(&pod);
            }
            // It exists, so this cannot be refused.
            let _begun = self.api.delete_pod(self.now, &pod.key, None);
        }
    }

    fn user_pod_ends(&mut self, number: u32, well: bool) {
        if let Some(pod) = self.pod_number(number) {
            self.pod_exits(&pod, well);
        }
    }

    fn deallocate(&mut self, number: u32) {
        let count = self.api.claims.len();
        let Some(stored) = self.api.claims.iter().nth(number as usize % count.max(1)) else { return };
        let mut claim = lazaret_model::ResourceClaim::clone(stored.object);
        self.note_taken_by_hand(&claim);
        let uid = claim.uid.clone();
        claim.allocation = None;
        claim.reserved_for.clear();
        self.api.claims.put(&mut self.api.versions, claim);
        self.answer_for(uid.clone());
        self.note_taken(uid);
    }

    /// A person removes the finalizer of a claim and deletes it, whoever uses it.
    fn remove_claim(&mut self, number: u32) {
        let count = self.api.claims.len();
        let Some(stored) = self.api.claims.iter().nth(number as usize % count.max(1)) else { return };
        let claim = Arc::clone(stored.object);
        let (key, uid) = (claim.key.clone(), claim.uid.clone());
        self.note_taken_by_hand(&claim);
        self.coverage.hit(Mark::ClaimRemoved);
        self.api.claims.remove(&mut self.api.versions, &key);
        // If no controller watches, nothing is left that says what is prepared.
        self.answer_for(uid);
        self.note_removed(key);
    }

    fn jump(&mut self, controller: usize, by: i64) {
        self.coverage.hit(Mark::Jumped);
        let controller = &mut self.controllers[controller];
        controller.skew = controller.skew.saturating_add(by);
        let (number, life) = (controller.number, controller.life);
        // A sleeping process finds out when it wakes.
        self.push(self.now + 100, Step::Tick(number, life));
    }
}

/// Whether a group may be larger than what may be terminating.
fn is_bounded(spec: &EvictionSpec) -> bool {
    spec.is_together() && spec.max_concurrent.is_some()
}

fn rule_name(number: u32) -> Text {
    format!("rule-{}", number % palette::NAMES).into()
}

fn patch_name(number: u32) -> Text {
    format!("patch-{}", number % palette::NAMES).into()
}

fn change_budget(world: &mut World, namespace: u32, permitted: u32) {
    let namespace = palette::NAMESPACES[namespace as usize % palette::NAMESPACES.len()];
    world.set_budget(namespace, Some(permitted % 4).filter(|permitted| *permitted < 3).map(Into::into));
}

/// The agent of one part of a process panics.
fn panic_of_part(world: &mut World, controller: usize, which: u32) {
    match which.trailing_ones() {
        0 => world.panic(controller),
        1 => world.health.give_up(controller),
        2 => world.claims.give_up(controller),
        3 => world.schedulers.give_up(controller),
        4.. if world.config.replaced == 0 || (which / 16).is_multiple_of(2) => {
            world.workload_controllers.give_up(controller);
        }
        4.. => world.replacers.give_up(controller),
    }
}
