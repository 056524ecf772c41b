//! Faults put on purpose between the world and the machines, to see that the world notices.

macro_rules! mutants {
    ($($(#[$doc:meta])* $mutant:ident = $name:literal,)*) => {
        /// A fault of the harness around the machines under test.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Mutant { $($(#[$doc])* $mutant,)* }
        impl Mutant {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$mutant,)*];
            /// As on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$mutant => $name,)* }
            }
        }
    };
}
mutants! {
    /// Controllers think it is a second later than their clock says.
    Early = "early",
    /// Controllers see claims without tolerations.
    IgnoreTolerations = "ignore-tolerations",
    /// Controllers never hear that a rule is gone.
    ForgetCancel = "forget-cancel",
    /// Controllers allow twice the burst.
    DoubleBurst = "double-burst",
    /// Controllers do not see the pace of a rule.
    IgnorePace = "ignore-pace",
    /// A controller writes without looking at its lease.
    NoLease = "no-lease",
    /// A controller judges the age of its lease by a clock that can be set.
    LeaseByWall = "lease-by-wall",
    /// A controller leads as soon as it has the lease, whatever its watches have not shown yet.
    NoFence = "no-fence",
    /// A controller whose lease ran out goes on as before if it finds it free again.
    UnnoticedLoss = "unnoticed-loss",
    /// A controller that is asked to end does not write what it knows.
    Speechless = "speechless",
    /// A controller that loses the lease is not told.
    DeafLeader = "deaf-leader",
    /// A pod that was gone before is reported as evicted.
    CountGone = "count-gone",
    /// A written status counts one pod too many.
    CountTwice = "count-twice",
    /// A rule without a selector selects everything.
    NilSelectsAll = "nil-selects-all",
    /// Controllers do not see that a pod is terminating.
    EvictTerminating = "evict-terminating",
    /// A pod is deleted by name, whoever has the name now.
    IgnoreUid = "ignore-uid",
    /// Controllers never hear that a pod was bound.
    LosePods = "lose-pods",
    /// Controllers see finished pods as running.
    EvictFinished = "evict-finished",
    /// Controllers do not get the relist after a broken watch.
    SkipRelist = "skip-relist",
    /// A status that says False is not written.
    StuckStatus = "stuck-status",
    /// The scheduler does not see that claims are allocated.
    DoubleAllocation = "double-allocation",
    /// The server does not look at the devices of allocations.
    UncheckedDevices = "unchecked-devices",
    /// A scheduler that begins to lead does not wait until the writes of the last one have ended.
    NoFlightWait = "no-flight-wait",
    /// A kubelet that is asked whether devices are unprepared says so before they are.
    Hasty = "hasty",
    /// The claim controller sees no nodes.
    NoNodes = "no-nodes",
    /// Kubelets do not see that they are asked whether devices are unprepared.
    DeafKubelet = "deaf-kubelet",
    /// A kubelet writes that a deleted pod has ended as soon as it hears of the deletion, its devices being prepared.
    EarlyEnd = "early-end",
    /// The claim controller gets the news of every pod that is gone that it had ended.
    AllEnded = "all-ended",
    /// The scheduler does not see rules.
    BlindScheduler = "blind-scheduler",
    /// The scheduler does not hear that a claim is gone.
    UnseenRelease = "unseen-release",
    /// The scheduler takes pods that are bound for gone.
    UnseenBinding = "unseen-binding",
    /// Claims are allocated and not reserved, though they are said to be.
    UnwrittenReservation = "unwritten-reservation",
    /// The scheduler does not hear that a claim is not allocated any more.
    UnseenDeallocation = "unseen-deallocation",
    /// The scheduler does not hear that a pod is gone.
    UnseenDeparture = "unseen-departure",
    /// The scheduler does not get the answer to a write that gives devices back.
    UnansweredRelease = "unanswered-release",
    /// The scheduler is not called when it asked to be.
    UncalledScheduler = "uncalled-scheduler",
    /// The scheduler does not see what drivers report of devices.
    UnseenConditions = "unseen-conditions",
    /// The scheduler does not see that devices have to be made ready.
    IgnoreConditions = "ignore-conditions",
    /// The scheduler does not see that a node is cordoned.
    UnseenCordon = "unseen-cordon",
    /// The scheduler does not hear that a node is uncordoned.
    UnseenUncordon = "unseen-uncordon",
    /// The claim controller sees an answer to every question about a claim that is gone.
    ImaginedAnswers = "imagined-answers",
    /// The claim controller does not see who used a claim when it went.
    ForgottenUsers = "forgotten-users",
    /// The scheduler does not see which claims nodes are asked about.
    UnseenQuestions = "unseen-questions",
    /// The claim controller does not hear that a Node is gone.
    UnseenNodeLoss = "unseen-node-loss",
    /// The workload controllers do not hear that a Node is gone.
    UnseenNodeDeletion = "unseen-node-deletion",
    /// The scheduler does not hear that a Node is gone.
    GhostNode = "ghost-node",
    /// The scheduler does not see what pods request.
    IgnoreRequests = "ignore-requests",
    /// The scheduler sees pods that wait as more important than they are.
    InflatedPriority = "inflated-priority",
    /// Controllers do not see slices of taints.
    NoTaintSlices = "no-taint-slices",
    /// The server stores statuses without the pods that they name.
    ForgetEvicting = "forget-evicting",
    /// The scheduler does not see that tolerations end, as that of Kubernetes, and controllers hold no pod that is back where others had to leave.
    NoBrake = "no-brake",
    /// A status does not say when devices are idle.
    NeverDrained = "never-drained",
    /// A controller gets the notice that its view is current as soon as it asks, whatever its watches have not shown yet.
    StaleView = "stale-view",
    /// The last published state of devices is not written, though it is said to be.
    ForgetVanished = "forget-vanished",
    /// The eviction API does not look at budgets.
    IgnoreBudget = "ignore-budget",
    /// Controllers do not see that a rule wants pods to be evicted rather than deleted.
    IgnoreMode = "ignore-mode",
    /// Pods whose deadline is over are deleted, whether the eviction API was asked or not.
    DeleteUnasked = "delete-unasked",
    /// Controllers see a deadline after which pods are deleted as if it was at once.
    IgnoreDeadline = "ignore-deadline",
    /// Controllers do not see how many pods may be terminating because of a rule.
    IgnoreConcurrent = "ignore-concurrent",
    /// Controllers do not see when a rule expires.
    IgnoreExpiry = "ignore-expiry",
    /// Controllers do not see the windows of a rule.
    IgnoreWindows = "ignore-windows",
    /// Controllers do not see what a pod says about its eviction.
    IgnoreSay = "ignore-say",
    /// Controllers do not see that a guard is paused.
    IgnorePause = "ignore-pause",
    /// Controllers, those of health too, do not see the windows of a guard.
    IgnoreGuardWindows = "ignore-guard-windows",
    /// Controllers do not see the breaker of a guard.
    IgnoreBreaker = "ignore-breaker",
    /// Controllers count what is out of service now alone, where a breaker has a window.
    IgnoreBreakerWindow = "ignore-breaker-window",
    /// A new leader does not see how often a breaker tripped.
    ForgetTrips = "forget-trips",
    /// Each status of a breaker that is still tripped counts another trip.
    CountTripsAgain = "count-trips-again",
    /// Controllers count devices where a breaker counts fault domains.
    DevicesForDomains = "devices-for-domains",
    /// Controllers take a guard whose expression is broken for one that selects nothing.
    OpenGuards = "open-guards",
    /// Replacement controllers see no guards.
    UnguardedReplacement = "unguarded-replacement",
    /// Replacement controllers do not see that a guard wants approval.
    UnapprovedReplacement = "unapproved-replacement",
    /// Controllers do not see that a guard wants approval of rules that reach far.
    IgnoreConfirm = "ignore-confirm",
    /// Controllers take each taint of a driver that a guard holds for one that was approved.
    ApproveTaints = "approve-taints",
    /// The server stores the name of who approved as it is sent.
    UnsignedApprovals = "unsigned-approvals",
    /// Controllers take a slice for one of the node that its pool is of.
    BelieveForgedSlices = "believe-forged-slices",
    /// Controllers do not see that a rule wants groups of pods to leave together.
    IgnoreGroups = "ignore-groups",
    /// Controllers see some pods of a group without the label that makes them one.
    SplitGroups = "split-groups",
    /// Controllers get the answer that there is room for replacements, whatever the answer is.
    IgnoreCapacity = "ignore-capacity",
    /// Room that was promised to one replacement is promised to the next.
    PromiseTwice = "promise-twice",
    /// Controllers take every approval for one of whatever a rule reaches: none lapses.
    EndlessApproval = "endless-approval",
    /// Of a group that leaves together half of the pods are evicted seconds later.
    StraggleGroups = "straggle-groups",
    /// A repair is written as if the device were only suspect.
    StepBack = "step-back",
    /// Deletions of an incident's rules are said to be done and are not.
    KeepTaints = "keep-taints",
    /// The rule of an incident keeps the key of its taint, whatever is written.
    KeepTaintKey = "keep-taint-key",
    /// Where a rule of an incident is to be deleted, somebody else's is.
    DeleteForeign = "delete-foreign",
    /// Health controllers are not told what guards permit.
    IgnoreLimits = "ignore-limits",
    /// While a guard stands it is not written that an incident is over, though it is said to be.
    HoldRecovery = "hold-recovery",
    /// Incidents do not say what they wait for.
    SilentIncidents = "silent-incidents",
    /// Reports of people are said to be deleted once they were taken in, and are not.
    KeepReports = "keep-reports",
    /// Health controllers are not told when the policy is to observe.
    IgnoreObserve = "ignore-observe",
    /// A new health controller does not get the incidents.
    ForgetIncidents = "forget-incidents",
    /// Statuses of incidents are said to be written and are not.
    LoseRecords = "lose-records",
    /// A new incident is said to be written and is not.
    LoseNewIncidents = "lose-new-incidents",
    /// Health controllers hear what guards permit now and then.
    LateLimits = "late-limits",
    /// An incident that is held does not say what it waits for.
    SilentHolds = "silent-holds",
    /// An incident that is held taints its device, and its controller does not see it.
    TaintHeld = "taint-held",
    /// Health controllers do not see that claims have the devices of incidents.
    UnseenUse = "unseen-use",
    /// Health controllers do not see that a guard holds the rule of an incident.
    UnseenHold = "unseen-hold",
    /// A Job that has ended is not there any more, and its result is not known.
    LoseJobs = "lose-jobs",
    /// The number of a repair is not stored.
    RunUnrecorded = "run-unrecorded",
    /// An incident that only a person may end is written as cleared.
    ClearAbandoned = "clear-abandoned",
    /// It is not written that of two incidents of one device one is closed, though it is said to be.
    KeepDoubles = "keep-doubles",
    /// Health controllers do not hear that a rule of an incident is gone that has to have it.
    UnseenRemoval = "unseen-removal",
    /// The rule of an incident keeps the key of its taint, and health controllers see the one that the incident names.
    ForgetTaintKeys = "forget-taint-keys",
    /// A pool is reported when it has been incomplete for half of the time.
    EarlyTornPools = "early-torn-pools",
    /// No device is reported that is not published any more.
    OverlookVanished = "overlook-vanished",
    /// A controller that begins to lead is not told of devices that went before.
    OverlookAbsent = "overlook-absent",
    /// No incomplete pool is reported.
    OverlookTornPools = "overlook-torn-pools",
    /// The end of an incomplete pool is not told of.
    KeepTornPools = "keep-torn-pools",
    /// Health controllers do not hear that their policy is gone.
    UnseenPolicyEnd = "unseen-policy-end",
    /// Health controllers do not hear that an incident is over.
    UnseenEnd = "unseen-end",
    /// Health controllers take devices with incidents for unpublished.
    PresumedGone = "presumed-gone",
    /// Incidents are stored without the flaps of their hardware.
    ForgetFlaps = "forget-flaps",
    /// The status of a breaker is stored, however often it has tripped since that was decided.
    UncheckedTrips = "unchecked-trips",
    /// Health controllers take a policy that observes, beside others, for one that enforces.
    EnforceObserver = "enforce-observer",
    /// Controllers do not see since when a rule is in force that was held or had expired.
    ForgetInForce = "forget-in-force",
    /// A controller whose renewal is late writes on, as long as its term may go on.
    StaleLease = "stale-lease",
    /// An effect that panics is not answered.
    PanicSwallowed = "panic-swallowed",
    /// The workload controllers do not hear of pods that were made since they began.
    UnseenPods = "unseen-pods",
    /// The workload controllers do not hear that pods leave, or are gone.
    UnseenLeaving = "unseen-leaving",
    /// The workload controllers do not hear of disruption budgets.
    UnseenBudgets = "unseen-budgets",
    /// Pods whose owner is gone are said to be deleted and are not.
    KeepDependents = "keep-dependents",
    /// The finalizers of pods are said to be off and are not.
    KeepFinalizers = "keep-finalizers",
    /// The status of a Job counts one completion too many.
    CountCompletionsTwice = "count-completions-twice",
    /// A wake-up asked for by a controller never comes.
    LostWake = "lost-wake",
    /// Replacement controllers think it is a second later than their clock says.
    ReplaceEarly = "replace-early",
    /// Replacement controllers do not see how many replacements a namespace's second policy permits at once.
    OneLimit = "one-limit",
    /// A new replacement controller does not see the replacements that policies and pods record.
    ForgetReplacements = "forget-replacements",
    /// Replacement controllers believe marks on pods that have no proof.
    UnprovenMarks = "unproven-marks",
    /// Replacement controllers do not see how many fault domains may be tainted.
    IgnoreDomains = "ignore-domains",
    /// Statuses are written without the replacements that they record.
    Unrecorded = "unrecorded",
    /// Replacement controllers take every pod for Ready.
    HastyReplacement = "hasty-replacement",
    /// Replacement controllers do not hear that a taint is gone.
    Relentless = "relentless",
    /// Pods whose place is taken are not deleted, though they are said to be.
    KeepReplaced = "keep-replaced",
    /// Replacement controllers do not see when taints of devices were set.
    NoTimes = "no-times",
    /// A wake-up asked for by a replacement controller never comes.
    LostTimer = "lost-timer",
}

impl Mutant {
    /// The mutant of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|mutant| mutant.name() == name)
    }
}
