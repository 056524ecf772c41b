//! The agent of the kubelets: news into inputs, effects into calls.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
};

use lazaret_kubelet::{Input, Kubelet, Options, SeenCheckpoint, SeenNode, SeenPod};
use lazaret_machine::{Machine as _, Turn};
use lazaret_model::{ResourceClaim, Timestamp};
use lazaret_runtime::{
    Agent, CLAIMS, Effect as Emitted, EffectId, Model, NODES, News, Object, PODS, Reply, Wake,
};

use tracing::error;

use crate::{
    annotations::PREPARED,
    node::HollowNode,
    options::HollowOptions,
    pod,
    requests::calls,
    shell::{Sent, each},
};

/// The kubelets of a fleet.
pub(crate) struct KubeletAgent {
    options: Arc<HollowOptions>,
    kubelet: Kubelet,
    /// Each node writes through a client of its own, and leaves its taints to a controller.
    by_node: bool,
}

impl KubeletAgent {
    pub(crate) fn new(options: Arc<HollowOptions>, by_node: bool) -> Self {
        let of_kubelet = Options {
            lease_interval_ms: options.lease_interval_ms,
            job_run_ms: options.job_run_ms,
            in_flight_max: options.in_flight_max,
            leaves_taints: by_node,
            // A number that no other process has.
            process: RandomState::new().hash_one(std::process::id()),
        };
        let names = (0..options.nodes).map(|number| options.node_name(number).into());
        Self { kubelet: Kubelet::new(of_kubelet, names), options, by_node }
    }

    fn pod(&self, object: &Object) -> Option<Arc<SeenPod>> {
        let Ok(Model::Pod(model)) = object.model() else { return None };
        // Pods may be on other nodes, or on none yet: not worth a second reading.
        let node = self.kubelet.number(model.node.as_ref()?)?;
        pod::read(model, node, object.json()).map(Arc::new)
    }

    fn input(&self, news: News) -> Option<Input> {
        Some(match news {
            News::Listed(NODES, objects, _) => Input::NodesListed(each(&objects, node)),
            News::Set(NODES, object) => Input::Node(node(&object)?),
            News::Gone(NODES, object) => Input::NodeGone(object.key.name.clone()),
            News::Listed(PODS, objects, _) => Input::PodsListed(each(&objects, |object| self.pod(object))),
            News::Set(PODS, object) => Input::Pod(self.pod(&object)?),
            News::Gone(PODS, object) => Input::PodGone { key: object.key.clone(), uid: object.uid.clone() },
            News::Listed(CLAIMS, objects, _) => Input::ClaimsListed(each(&objects, claim)),
            News::Set(CLAIMS, object) => Input::Claim(claim(&object)?),
            News::Gone(CLAIMS, object) => Input::ClaimGone(object.key.clone()),
            News::Listed(..) | News::Set(..) | News::Gone(..) | News::Barred(..) => return None,
        })
    }
}

impl Agent for KubeletAgent {
    type Effect = Sent;

    fn hear(&mut self, now: Timestamp, news: News) {
        if let Some(input) = self.input(news) {
            self.kubelet.handle(now, input);
        }
    }

    fn think(&mut self, now: Timestamp) {
        self.kubelet.handle(now, Input::Tick);
    }

    fn lead(&mut self, now: Timestamp, leading: bool) {
        self.kubelet.handle(now, Turn::leads(leading).into());
    }

    fn acknowledge(&mut self, now: Timestamp, effect: EffectId, reply: Reply) {
        self.kubelet.handle(now, Input::Acknowledged { effect, outcome: reply.outcome });
    }

    fn poll(&mut self) -> Option<Emitted<Sent>> {
        let Emitted { id, kind } = self.kubelet.poll_effect()?;
        let node = self.by_node.then(|| self.options.node_name(kind.node()));
        Some(Emitted { id, kind: Sent { node, effect: calls(&self.options, &kind) } })
    }

    fn wake(&self) -> Option<Wake> {
        self.kubelet.next_wake().map(lazaret_machine::Wake::in_words)
    }
}

fn node(object: &Object) -> Option<SeenNode> {
    let seen = HollowNode::read(object.json())?.seen;
    if let SeenCheckpoint::Unreadable(why) = &seen.checkpoint {
        error!(node = %seen.name, %why, "annotation {PREPARED} cannot be read: nothing new is prepared on this node until it is removed");
    }
    Some(seen)
}

fn claim(object: &Object) -> Option<Arc<ResourceClaim>> {
    let Ok(Model::Claim(claim)) = object.model() else { return None };
    Some(Arc::clone(claim))
}
