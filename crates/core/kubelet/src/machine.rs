//! All nodes of a process: they register, renew their leases, and run their pods.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    vec::Vec,
};

use lazaret_machine::{Effect, EffectId, Machine, Outcome, Wake};
use lazaret_model::{ObjectKey, ResourceClaim, Text, Timestamp, Uid};

use crate::{
    agenda::Agenda, effect::EffectKind, held::PreparedClaims, node::SeenNode, nodes::NodeSlot, pod::SeenPod,
    pods::PodSlot,
};

/// How long to wait until what was written is seen before looking again.
pub(crate) const RECHECK_MS: i64 = 30_000;

/// How the nodes behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How often each node renews its lease.
    pub lease_interval_ms: i64,
    /// How long a pod runs that is meant to end and does not say when.
    pub job_run_ms: i64,
    /// Effects in flight at a time.
    pub in_flight_max: usize,
    /// The nodes leave their taints to a controller, as nodes must that have no more than their own credentials.
    pub leaves_taints: bool,
    /// Tells this process from all others: it is in the checkpoints that it writes.
    pub process: u64,
}

/// The inputs. Objects are noted; the next [`Input::Tick`] decides what they lead to.
#[derive(Clone, Debug)]
pub enum Input {
    /// Time has passed, or objects were noted.
    Tick,
    /// Effects are wanted from now on. Every object was an input before.
    BecameLeader,
    /// No effects are wanted.
    LostLeadership,
    /// The answer to an effect. Unknown or repeated ids are ignored.
    Acknowledged {
        /// The effect.
        effect: EffectId,
        /// Its outcome.
        outcome: Outcome,
    },
    /// A Node as it is now.
    Node(SeenNode),
    /// There is no Node of this name.
    NodeGone(Text),
    /// All Nodes.
    NodesListed(Vec<SeenNode>),
    /// A pod as it is now.
    Pod(Arc<SeenPod>),
    /// This incarnation of a pod is gone.
    PodGone {
        /// Its key.
        key: ObjectKey,
        /// Its UID.
        uid: Uid,
    },
    /// All pods.
    PodsListed(Vec<Arc<SeenPod>>),
    /// A claim as it is now.
    Claim(Arc<ResourceClaim>),
    /// There is no such claim.
    ClaimGone(ObjectKey),
    /// All claims.
    ClaimsListed(Vec<Arc<ResourceClaim>>),
}

lazaret_machine::turns!(Input, |effect, reply| Input::Acknowledged { effect, outcome: reply.outcome });

/// Why the machine wants to be called again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Objects were noted that nothing was decided about.
    Noted,
    /// A Node is looked at again.
    Node,
    /// A lease is renewed.
    Lease,
    /// A pod starts, ends or goes.
    Pod,
    /// A claim is unprepared.
    Unprepare,
}

impl From<Why> for &'static str {
    fn from(why: Why) -> Self {
        match why {
            Why::Noted => "objects have changed",
            Why::Node => "a node is looked at again",
            Why::Lease => "a lease is renewed",
            Why::Pod => "a pod starts, ends or goes",
            Why::Unprepare => "a claim is unprepared",
        }
    }
}

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Item {
    /// A node, by number.
    Node(usize),
    /// The lease of a node.
    Lease(usize),
    /// A pod.
    Pod(ObjectKey),
    /// A claim on a node that no pod uses any more.
    Unprepare(usize, Uid),
}

impl Item {
    const fn why(&self) -> Why {
        match self {
            Self::Node(_) => Why::Node,
            Self::Lease(_) => Why::Lease,
            Self::Pod(_) => Why::Pod,
            Self::Unprepare(..) => Why::Unprepare,
        }
    }
}

/// The kubelets. Objects that are not on one of their nodes are not kept.
#[derive(Clone, Debug)]
pub struct Kubelet {
    pub(crate) options: Options,
    pub(crate) leads: bool,
    pub(crate) agenda: Agenda<Item>,
    effects: VecDeque<Effect<EffectKind>>,
    pub(crate) nodes: Vec<NodeSlot>,
    pub(crate) numbers: BTreeMap<Text, usize>,
    pub(crate) pods: BTreeMap<ObjectKey, PodSlot>,
    pub(crate) claims: BTreeMap<ObjectKey, Arc<ResourceClaim>>,
    /// From a claim to the pods that cannot start because of it.
    pub(crate) waiting: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// From a node to the pods that cannot start because of what it is asked about.
    pub(crate) waiting_for_node: BTreeMap<usize, BTreeSet<ObjectKey>>,
    pub(crate) prepared: PreparedClaims,
}

impl Machine for Kubelet {
    type View = ();
    type Input<'a> = Input;
    type Kind = EffectKind;
    type Why = Why;

    fn handle(&mut self, now: Timestamp, (): &(), input: Input) {
        self.handle(now, input);
    }

    fn poll_effect(&mut self) -> Option<Effect<EffectKind>> {
        self.effects.pop_front()
    }

    fn next_wake(&self) -> Option<Wake<Why>> {
        if !self.leads {
            return None;
        }
        let noted = self.agenda.is_ready().then_some(Wake::now(Why::Noted));
        noted.or_else(|| self.agenda.next_timer().map(|(at, item)| Wake::new(at, item.why())))
    }
}

impl Kubelet {
    /// Nodes of these names, numbered in this order. None of them has been seen yet.
    #[must_use]
    pub fn new(options: Options, names: impl IntoIterator<Item = Text>) -> Self {
        let numbers: BTreeMap<Text, usize> = names.into_iter().zip(0..).collect();
        Self {
            options,
            leads: false,
            agenda: Agenda::new(options.in_flight_max).with_routine(|item| matches!(item, Item::Lease(_))),
            effects: VecDeque::new(),
            nodes: numbers.iter().map(|_| NodeSlot::default()).collect(),
            numbers,
            pods: BTreeMap::new(),
            claims: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_for_node: BTreeMap::new(),
            prepared: PreparedClaims::default(),
        }
    }

    /// Takes note of `input`, and decides what is to be done at `now` unless it is an object.
    pub fn handle(&mut self, now: Timestamp, input: Input) {
        match input {
            Input::Tick => self.think(now),
            Input::BecameLeader => self.lead(now, true),
            Input::LostLeadership => self.lead(now, false),
            Input::Acknowledged { effect, outcome } => {
                self.acknowledge(now, effect, outcome);
                self.think(now);
            }
            Input::Node(seen) => self.hear_node(now, seen),
            Input::NodeGone(name) => self.miss_node(&name),
            Input::NodesListed(nodes) => self.list_nodes(now, nodes),
            Input::Pod(seen) => self.hear_pod(now, seen),
            Input::PodGone { key, uid } => self.miss_pod(&key, &uid),
            Input::PodsListed(pods) => self.list_pods(now, pods),
            Input::Claim(claim) => self.hear_claim(claim),
            Input::ClaimGone(key) => self.miss_claim(&key),
            Input::ClaimsListed(claims) => self.list_claims(claims),
        }
    }

    /// The number of a node, if it is one of these.
    #[must_use]
    pub fn number(&self, node: &Text) -> Option<usize> {
        self.numbers.get(node).copied()
    }

    /// How many pods are on the nodes.
    #[must_use]
    pub fn pods(&self) -> usize {
        self.pods.len()
    }

    /// When to call again for anything but the lease of a node. Nodes that have nothing to do renew their leases.
    #[must_use]
    pub fn next_wake_but_leases(&self) -> Option<Timestamp> {
        self.agenda.next_timer_but_routine().filter(|_| self.leads).map(|(at, _)| at)
    }

    fn lead(&mut self, now: Timestamp, leads: bool) {
        self.leads = leads;
        self.agenda.clear();
        self.effects.clear();
        self.pods.values_mut().for_each(PodSlot::forget_work);
        self.nodes.iter_mut().for_each(NodeSlot::forget_work);
        if !leads {
            return;
        }
        let count = i64::try_from(self.nodes.len()).unwrap_or(i64::MAX).max(1);
        for (index, number) in (0..self.nodes.len()).zip(0_i64..) {
            self.agenda.touch(Item::Node(index));
            // Spread over the interval, so that renewals come as a trickle.
            let offset = self.options.lease_interval_ms.saturating_mul(number) / count;
            self.agenda.later(now.plus_millis(offset), Item::Lease(index));
        }
        let pods: Vec<ObjectKey> = self.pods.keys().cloned().collect();
        for pod in pods {
            if self.pods.get(&pod).is_some_and(PodSlot::is_running) {
                self.prepare(&pod);
            }
            self.agenda.touch(Item::Pod(pod));
        }
        (0..self.nodes.len()).for_each(|node| self.release_unseen(node));
        self.touch_unused();
        self.think(now);
    }

    fn think(&mut self, now: Timestamp) {
        if !self.leads {
            return;
        }
        self.agenda.wake(now);
        while let Some(item) = self.agenda.next() {
            if self.agenda.is_paused(&item, now) {
                continue;
            }
            let kind = match &item {
                Item::Node(index) => self.look_at_node(now, *index),
                Item::Lease(index) => self.renew(now, *index),
                Item::Pod(key) => self.look_at_pod(now, key),
                Item::Unprepare(node, claim) => {
                    self.look_at_unused(now, *node, claim);
                    None
                }
            };
            if let Some(kind) = kind {
                let id = self.agenda.launch(item);
                self.effects.push_back(Effect { id, kind });
            }
        }
    }

    fn acknowledge(&mut self, now: Timestamp, id: EffectId, outcome: Outcome) {
        let done = match outcome {
            Outcome::Done => true,
            // The watch will say so.
            Outcome::Gone => false,
            Outcome::Conflict | Outcome::Refused | Outcome::Held | Outcome::RetryLater | Outcome::Unknown => {
                if let Some(Item::Node(index)) = self.agenda.land(now, id, true) {
                    self.not_saved(index);
                }
                return;
            }
        };
        match self.agenda.land(now, id, false) {
            Some(Item::Node(index)) => {
                if !done {
                    self.not_saved(index);
                }
                self.node_written(now, index);
            }
            Some(Item::Lease(index)) => self.lease_renewed(now, index),
            Some(Item::Pod(key)) => self.pod_written(now, &key, done),
            Some(Item::Unprepare(..)) | None => {}
        }
    }

    pub(crate) fn touch(&mut self, item: Item) {
        if self.leads {
            self.agenda.touch(item);
        }
    }
}
