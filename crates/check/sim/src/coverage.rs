//! The marks that a run of seeds reached. A fault or an effect that no seed reached is a hole in the proof.

use core::fmt;

macro_rules! marks {
    ($($(#[$doc:meta])* $mark:ident = $name:literal,)*) => {
        /// Something worth reaching.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mark { $($(#[$doc])* $mark,)* }
        impl Mark {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$mark,)*];
            /// For people.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$mark => $name,)* }
            }
        }
    };
}
marks! {
    /// A controller decided that a pod goes.
    EvictionDecided = "evictions decided",
    /// A DELETE of a controller took effect.
    EvictionDone = "evictions done",
    /// A pod was gone or terminating when its eviction arrived.
    EvictionMoot = "evictions moot (pod gone or terminating)",
    /// A controller told that it changed its mind.
    Cancelled = "evictions cancelled",
    /// A pod had more than one reason to go.
    SeveralCauses = "evictions with several causes",
    /// A pod went after its toleration ended.
    AfterToleration = "evictions after a finite toleration",
    /// A pod went because of a rule.
    ByRule = "evictions by rule",
    /// A pod went because of a rule by class or expression.
    ByExpression = "evictions by class or expression",
    /// A pod went because of a device that is published no more, by what is remembered of it.
    FromMemory = "evictions of devices matched from memory",
    /// A pod went because of a taint in its device.
    ByDevice = "evictions by device taint",
    /// A pod went because of a slice of taints.
    ByTaintSlice = "evictions by taint slice",
    /// A pod went because of a patch.
    ByPatch = "evictions by patch",
    /// A pod went with a shared claim.
    SharedClaim = "evictions of pods sharing a claim",
    /// A pod went with a claim that its group has.
    GroupClaim = "evictions of pods with a claim of their group",
    /// A pod went that has its device by an extended resource.
    ExtendedResource = "evictions of extended-resource pods",
    /// An eviction had to wait for its pace.
    Paced = "evictions held back by pace",
    /// A disruption budget refused an eviction.
    BudgetRefused = "evictions refused by a disruption budget",
    /// A pod was deleted, for the deadline until which budgets are obeyed was over.
    DeletedOverdue = "pods deleted after the deadline for evictions",
    /// A pod went because of a rule that limits how many are terminating.
    Limited = "evictions by rules that limit how many are terminating",
    /// A status said that a breaker is tripped.
    Tripped = "breakers tripped",
    /// A status said that no window of a guard is open.
    WindowClosed = "guards without an open window",
    /// A status said what keeps pods.
    BlockedStatus = "rule statuses saying what keeps pods",
    /// A status said whether a rule has expired.
    ExpiredStatus = "rule statuses saying whether the rule has expired",
    /// A status said that a rule has no effect before it is approved.
    Held = "rule statuses saying that the rule is held",
    /// A status of a guard lists a taint that waits for approval.
    TaintHeld = "guard statuses listing a taint that evicts no pod",
    /// A person approved a rule.
    Approved = "rules approved",
    /// Pods of a group were evicted together.
    GroupLeft = "groups of pods evicted together",
    /// A pod was evicted after room for its replacement was found.
    RoomFound = "evictions after room was found",
    /// There was no room for the replacement of a pod.
    NoRoom = "questions for room answered with none",
    /// People were told what keeps the pods of a rule.
    RuleEventSent = "events about rules whose pods are kept",
    /// A core beside the eviction began to lead.
    PartLeads = "other cores begun to lead",
    /// A write of another core was not sent for want of the lease.
    PartWithheld = "writes of other cores withheld for want of the lease",
    /// A write of another core arrived after its sender had given it up.
    PartLate = "writes of other cores that came late",
    /// A server refused a device that another claim has.
    RefusedTwice = "allocations refused because another claim has a device",
    /// A server took an allocation of a scheduler that led no more, of a device that another claim has.
    GivenTwice = "devices given twice by schedulers that led no more",
    /// The claim controller asked a kubelet whether devices are unprepared.
    NodeAsked = "kubelets asked whether devices are unprepared",
    /// The workload controllers made a pod.
    PodMade = "pods made for their owners",
    /// They deleted one.
    PodDeletedByOwner = "pods deleted by the workload controllers",
    /// They took the finalizer off the pod of a Job.
    PodReleased = "pods of Jobs counted and released",
    /// They deleted an object that is no pod.
    Collected = "owners of pods deleted by the workload controllers",
    /// They wrote the status of a Job.
    JobStatusWritten = "statuses of Jobs written",
    /// A write of theirs met a newer object, or a name that is taken.
    OwnerConflict = "writes of the workload controllers that met a conflict",
    /// A person asked for another number of pods.
    Scaled = "owners of pods scaled",
    /// A person deleted an owner of pods.
    OwnerDeleted = "owners of pods deleted by people",
    /// A pod was removed by force, and its kubelet had to find out.
    Forced = "pods removed by force",
    /// The process of the kubelets ended and started again.
    KubeletsRestarted = "restarts of the kubelets",
    /// A status of a rule was written.
    StatusWritten = "rule statuses written",
    /// A status said that pods are pending.
    StatusPending = "rule statuses saying pods are pending",
    /// An event about a pod.
    EventSent = "events sent",
    /// A write of the scheduler or of the claim controller met a newer object.
    Conflict = "conflicts by stale version",
    /// A controller's write failed for sure.
    FailedWrite = "controller writes failed",
    /// A controller's write happened though it heard of a timeout.
    UnknownDone = "controller writes of unknown outcome, done",
    /// A controller's write did not happen and it heard of a timeout.
    UnknownNotDone = "controller writes of unknown outcome, not done",
    /// A pod was marked but not deleted.
    HalfDone = "evictions interrupted between mark and delete",
    /// An acknowledgement came twice.
    RepeatedAck = "acknowledgements repeated",
    /// A controller died with effects in flight.
    CrashInFlight = "crashes with effects in flight",
    /// Leadership changed hands.
    LeaderChange = "leader changes",
    /// A new leader had to wait until it saw what its predecessor wrote.
    Fenced = "new leaders waiting to see what was written",
    /// A rule's status had to wait until its controller saw what had been written.
    ViewAwaited = "rule statuses waiting for watches",
    /// A status that says that all is over was held against what the server has.
    EndChecked = "rule statuses that say that all is over",
    /// A claim was made to say what its devices were like.
    MemoryWritten = "claims that say what devices were like",
    /// A claim was made to say it no longer.
    MemoryRemoved = "claims that need not say it any more",
    /// A device was compared that its client knew from the claim alone.
    FromClaim = "comparisons of devices known from their claim",
    /// A controller ended and gave its lease back.
    GaveBack = "leases given back",
    /// A controller lost its lease while it worked.
    LostLease = "leases lost",
    /// A write was not sent for want of the lease.
    Withheld = "writes withheld for want of the lease",
    /// A renewal was late, and nothing was sent meanwhile.
    Paused = "sends put off for a renewal that was late",
    /// A write of the lease arrived after its sender had given it up.
    LateLease = "calls for the lease that came late",
    /// The clock of a process was set, or it was stopped for long.
    EraOver = "agents given up because of their clock",
    /// An agent panicked.
    AgentPanicked = "agents that panicked",
    /// Another agent began in the same process.
    BegunAnew = "agents begun anew",
    /// The task of an effect panicked.
    EffectPanicked = "effects that panicked",
    /// An eviction was decided and withdrawn before it was sent.
    Withdrawn = "evictions withdrawn before they were sent",
    /// A watch listed again.
    Relisted = "watches listed again",
    /// A client that starts was answered from a cache.
    CachedList = "first lists answered from a cache",
    /// A watch was stalled when it had something to say.
    Stalled = "watch deliveries stalled",
    /// An event came twice.
    Repeated = "watch events repeated",
    /// A stopped process had something to do.
    Frozen = "steps put off by a stopped process",
    /// A clock jumped.
    Jumped = "clock jumps",
    /// A pool was moved to a new generation.
    Rolled = "pools rolled to a new generation",
    /// A slice of a new generation came under a new name.
    Renamed = "slices renamed with their generation",
    /// A share of a device was given out.
    Shared = "shares of devices given out",
    /// A rule by expression went by what a patch says of a device.
    ByPatchedValue = "evictions by class or expression over patched devices",
    /// A slice vanished with devices in use.
    Vanished = "slices vanished",
    /// A slice went with its Node.
    SliceCollected = "slices collected with their Nodes",
    /// The scheduler gave devices back with which a pod could go nowhere.
    GivenBack = "devices given back by the scheduler",
    /// The scheduler made a claim for an extended resource.
    ExtendedMade = "claims made for extended resources",
    /// A pod was placed.
    Scheduled = "pods scheduled",
    /// A pod found no device.
    Unschedulable = "pods without a device to have",
    /// A driver reported that devices are ready for a pod.
    DevicesReady = "reports of devices that are ready",
    /// A driver reported that devices will not be ready.
    DevicesBroken = "reports of devices that are broken",
    /// The scheduler gave devices back that were not ready in time.
    DevicesLate = "devices given back that were not ready in time",
    /// A tenant wrote what is not so into a pod.
    Lied = "lies in annotations and labels of pods",
    /// One of these was the mark of a replacement.
    ForgedMark = "marks of replacements that tenants forged",
    /// A node published in the pool of another, or tried to.
    ForgedSlice = "slices of nodes in pools of others",
    /// A server stored one.
    ForgedSliceStored = "slices of nodes in pools of others that were stored",
    /// Somebody wrote that another person had approved.
    ForgedApproval = "approvals in the name of another",
    /// A node was cordoned.
    Cordoned = "nodes cordoned",
    /// A person removed a claim.
    ClaimRemoved = "claims removed by hand",
    /// The machine of a node went off.
    PoweredOff = "machines switched off",
    /// The Node of a machine that runs was deleted.
    NodeDeleted = "Nodes of running machines deleted",
    /// The Node of a machine that went off was deleted.
    NodeLost = "Nodes of lost machines deleted",
    /// A kubelet made the Node of its machine.
    NodeRegistered = "Nodes registered by kubelets",
    /// A pod was bound to a Node that was gone.
    BoundToNothing = "pods bound to Nodes that were gone",
    /// A pod was made to leave for one of higher priority.
    Preempted = "pods preempted",
    /// The machines were compared with the reference.
    Compared = "comparisons with the reference",
    /// A rule had to be skipped.
    RuleProblem = "rules that cannot be evaluated",
    /// An incident was opened.
    IncidentOpened = "incidents opened",
    /// A guard kept a policy from taking a device out of service.
    IncidentHeld = "incidents held by a guard",
    /// The pods of a device had left, and it was repaired.
    IncidentDrained = "incidents that came to repairs",
    /// A device was brought back.
    IncidentCleared = "incidents cleared",
    /// A device was given up.
    IncidentAbandoned = "incidents abandoned",
    /// A person said something of an incident, or deleted it.
    PersonActed = "acts of people on incidents",
    /// A person reported trouble of a device.
    Reported = "reports of people",
    /// A policy was set to observe, or to enforce.
    ModeChanged = "changes of a policy's mode",
    /// A breaker's status arrived after its sender had given it up.
    LateCount = "statuses of guards that arrive late",
    /// A policy that observes came or went beside others.
    ObserverChanged = "policies that observe added or removed",
    /// The repair of a policy followed that of another.
    RepairFollowed = "repairs of a second policy",
    /// A policy was given another form.
    PolicyWritten = "policies written anew",
    /// A policy was deleted.
    PolicyDeleted = "policies deleted",
    /// Somebody else took an object of an incident away.
    TakenAway = "objects of incidents taken away",
    /// A device had to prove that it is well.
    IncidentProbation = "incidents that came to a probation",
    /// An incident had been over for long.
    IncidentRemoved = "incidents removed after their time",
    /// An incident was opened or went further for a pool that stays incomplete.
    PoolTorn = "incidents about pools that stay incomplete",
    /// A write for an incident arrived after its sender had given it up.
    LateWrite = "writes for incidents that came late",
    /// A rule reaches more than a tenth more than was approved.
    ApprovalLapsed = "approvals lapsed",
    /// All of a group were gone in time.
    GroupGone = "groups that were gone in time",
    /// A node got a taint.
    NodeTainted = "nodes tainted",
    /// The status of a replacement policy was written.
    ReplacementStatus = "replacement statuses written",
    /// The status of a replacement policy said that too many fault domains are tainted.
    ReplacementTripped = "replacement statuses saying that too many fault domains are tainted",
    /// The start of a replacement was judged.
    ReplacementBegun = "replacements begun",
    /// A pod was released by its replica set.
    Released = "pods released by their replica set",
    /// A copy of a pod was made.
    Copied = "pods copied",
    /// A copy of a pod was made that may start when the pod is gone.
    Rebuilt = "pods copied that use a claim by name",
    /// A pod was evicted to be replaced.
    ReplacementEvicted = "pods evicted to be replaced",
    /// A disruption budget refused that.
    ReplacementHeld = "replacements refused by a disruption budget",
    /// A pod whose place is taken was deleted.
    Replaced = "pods deleted whose place is taken",
    /// A replacement waited for a pod that did not become Ready.
    ReplacementWaits = "replacements that wait at rest",
    /// A world came to rest.
    Rest = "worlds at rest",
}

/// Counters by mark.
#[derive(Clone, Debug)]
pub struct Coverage {
    counts: Vec<u64>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { counts: vec![0; Mark::ALL.len()] }
    }
}

impl Coverage {
    /// Reached once more.
    pub fn hit(&mut self, mark: Mark) {
        self.counts[mark as usize] += 1;
    }

    /// How often it was reached.
    #[must_use]
    pub fn count(&self, mark: Mark) -> u64 {
        self.counts[mark as usize]
    }

    /// The counts of another run on top.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
    }

    /// The marks that were never reached.
    pub fn missing(&self) -> impl Iterator<Item = Mark> {
        Mark::ALL.iter().copied().filter(|mark| self.count(*mark) == 0)
    }
}

/// A table.
impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for mark in Mark::ALL {
            writeln!(f, "  {:>12}  {}", self.count(*mark), mark.name())?;
        }
        Ok(())
    }
}
