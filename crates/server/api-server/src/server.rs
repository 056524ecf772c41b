//! The server: its store, the state derived from it, and the parts brought by the program around it.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use lazaret_json::Value;
use lazaret_kinds::{Access, Features, Kind, Served, User};
use lazaret_quota::Classes;
use lazaret_storage::Storage;
use tokio::sync::watch;

use crate::{
    AlertSink, Authorizer, Pages, ServerAddress,
    admission::{
        device_classes::{DEVICE_CLASSES, read_device_classes},
        device_holdings::DeviceHoldings,
        guards::{GUARDS, approval_is_wanted},
        plugins::{AdmissionPlugin, DisabledPlugins},
        priority::{DefaultPriority, PRIORITY_CLASSES, find_default_priority},
        quota_locks::QuotaLocks,
        rules::{ADMISSION_RULES, AdmissionRules, compile_rules},
        slice_pools::SlicePools,
        webhooks::limits::WebhookLimits,
    },
    audit::Audit,
    auth::{Rbac, controllers, tokens::TokenKeys},
    definitions::{Customs, Definitions},
    derived::Derived,
    kind_ref::KindRef,
    limits::Limits,
    long_requests::LongRequests,
    metrics::Metrics,
    object,
    object_cache::ObjectCache,
    object_store::ObjectStore,
    openapi::cache::Cache,
    proxy::nodes::NodeConnections,
    recent_events::RecentEvents,
    request::Target,
    runtime_config,
    service_pool::Pool,
    service_ranges::ServiceRanges,
};

/// How a server is set up.
pub struct ServerOptions {
    /// Which features are on.
    pub features: Features,
    /// Group versions to serve or not, as [`parse_runtime_config`](crate::parse_runtime_config) reads them.
    pub runtime_config: Vec<(String, bool)>,
    /// Decides whether users may do something.
    pub authorizer: Box<dyn Authorizer>,
    /// Signs tokens of service accounts; without it none are given out.
    pub token_keys: Option<TokenKeys>,
}

impl Default for ServerOptions {
    /// As Kubernetes 1.37 is by itself, with roles, and without tokens.
    fn default() -> Self {
        Self {
            features: Features::kubernetes_1_37(),
            runtime_config: Vec::new(),
            authorizer: Box::new(Rbac::default()),
            token_keys: None,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions").field("features", &self.features).finish_non_exhaustive()
    }
}

/// The API. Cheap to clone.
#[derive(Clone)]
pub struct Server {
    inner: Arc<Inner>,
}

struct Inner {
    stored: ObjectStore,
    definitions: Definitions,
    default_priority: Derived<DefaultPriority>,
    admission_rules: Derived<AdmissionRules>,
    approval_wanted: Derived<bool>,
    webhook_limits: WebhookLimits,
    device_classes: Derived<Classes>,
    device_holdings: Arc<DeviceHoldings>,
    slice_pools: SlicePools,
    quota_locks: QuotaLocks,
    audit: Audit,
    recent_events: RecentEvents,
    openapi: Cache,
    limits: Limits,
    service_pool: Pool,
    service_ranges: OnceLock<ServiceRanges>,
    long_requests: LongRequests,
    /// Turns true when every watch is to end.
    ending: watch::Sender<bool>,
    runtime_config: Vec<(String, bool)>,
    authorizer: Box<dyn Authorizer>,
    token_keys: Option<TokenKeys>,
    metrics: Metrics,
    /// Where it is found, once it listens.
    address: OnceLock<ServerAddress>,
    /// Metrics of other parts of this process.
    further_metrics: OnceLock<Box<dyn Fn() -> String + Send + Sync>>,
    /// Checks of other tasks in this process.
    further_checks: OnceLock<Box<FurtherChecks>>,
    disabled_plugins: DisabledPlugins,
    repair_namespaces: OnceLock<Vec<String>>,
    node_connections: OnceLock<NodeConnections>,
    alerts: OnceLock<AlertSink>,
    pages: OnceLock<Box<dyn Pages>>,
}

/// Tasks by their names, and whether each works.
type FurtherChecks = dyn Fn() -> Vec<(String, bool)> + Send + Sync;

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("revision", &self.store().revision()).finish_non_exhaustive()
    }
}

impl Server {
    /// A server over a store.
    #[must_use]
    pub fn new(store: impl Into<Arc<dyn Storage>>, options: ServerOptions) -> Self {
        Self::with_limits(store, options, Limits::default())
    }

    /// A server over a store, with these limits.
    #[must_use]
    pub fn with_limits(store: impl Into<Arc<dyn Storage>>, options: ServerOptions, limits: Limits) -> Self {
        let ServerOptions { features, runtime_config, authorizer, token_keys } = options;
        let stored = ObjectStore::new(store.into(), features);
        let metrics =
            Metrics::new(stored.shared_store(), Arc::clone(stored.object_cache()), stored.features());
        let audit = Audit::new(stored.store(), limits.audit_bytes_max);
        Self {
            inner: Arc::new(Inner {
                stored,
                runtime_config,
                authorizer,
                token_keys,
                metrics,
                address: OnceLock::new(),
                further_metrics: OnceLock::new(),
                further_checks: OnceLock::new(),
                disabled_plugins: DisabledPlugins::default(),
                repair_namespaces: OnceLock::new(),
                node_connections: OnceLock::new(),
                alerts: OnceLock::new(),
                pages: OnceLock::new(),
                definitions: Definitions::default(),
                recent_events: RecentEvents::default(),
                openapi: Cache::default(),
                limits,
                service_pool: Pool::default(),
                service_ranges: OnceLock::new(),
                long_requests: LongRequests::default(),
                default_priority: Derived::new(PRIORITY_CLASSES, find_default_priority),
                admission_rules: Derived::new(ADMISSION_RULES, compile_rules),
                approval_wanted: Derived::new(GUARDS, approval_is_wanted),
                webhook_limits: WebhookLimits::default(),
                device_classes: Derived::new(DEVICE_CLASSES, read_device_classes),
                device_holdings: Arc::default(),
                slice_pools: SlicePools::default(),
                quota_locks: QuotaLocks::default(),
                audit,
                ending: watch::Sender::new(false),
            }),
        }
    }

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &dyn Storage {
        self.inner.stored.store()
    }

    /// The store behind it, for another server.
    #[must_use]
    pub fn shared_store(&self) -> Arc<dyn Storage> {
        self.inner.stored.shared_store()
    }

    /// Which features are on.
    #[must_use]
    pub fn features(&self) -> &Features {
        self.inner.stored.features()
    }

    /// The stored objects.
    pub(crate) fn stored(&self) -> &ObjectStore {
        &self.inner.stored
    }

    /// The number of objects of a collection; 0 for an unknown one.
    pub(crate) fn count(&self, target: &Target) -> usize {
        self.find(target)
            .map_or(0, |(kind, _)| self.store().count(object::key(&kind, &target.namespace, "").as_bytes()))
    }

    /// The class of pods that name none.
    pub(crate) fn default_priority(&self) -> DefaultPriority {
        self.inner.default_priority.get(self.store()).as_ref().clone()
    }

    /// The policies and webhooks that are asked about requests.
    pub(crate) fn admission_rules(&self) -> Arc<AdmissionRules> {
        self.inner.admission_rules.get(self.store())
    }

    /// Whether a DisruptionGuard wants approval of rules that reach far.
    pub(crate) fn approval_is_wanted(&self) -> bool {
        *self.inner.approval_wanted.get(self.store())
    }

    pub(crate) fn webhook_limits(&self) -> &WebhookLimits {
        &self.inner.webhook_limits
    }

    /// The device classes that serve extended resources.
    pub(crate) fn device_classes(&self) -> Arc<Classes> {
        self.inner.device_classes.get(self.store())
    }

    /// The devices that claims hold.
    pub(crate) fn slice_pools(&self) -> &SlicePools {
        &self.inner.slice_pools
    }

    pub(crate) fn device_holdings(&self) -> &Arc<DeviceHoldings> {
        &self.inner.device_holdings
    }

    /// Lets those who write in a namespace with quotas go one after the other.
    pub(crate) fn quota_locks(&self) -> &QuotaLocks {
        &self.inner.quota_locks
    }

    /// Shows the metrics of other parts of this process, as text that Prometheus reads, after the server's own. The first call
    /// counts.
    pub fn show_metrics(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.inner.further_metrics.set(Box::new(text));
    }

    /// Adds the state of other tasks in this process, by their names, to `/readyz` and `/healthz`. The first call
    /// counts.
    pub fn show_checks(&self, checks: impl Fn() -> Vec<(String, bool)> + Send + Sync + 'static) {
        let _ = self.inner.further_checks.set(Box::new(checks));
    }

    /// Does without an admission plugin from now on.
    pub fn disable_admission_plugin(&self, plugin: AdmissionPlugin) {
        self.inner.disabled_plugins.add(plugin);
    }

    pub(crate) fn runs_plugin(&self, plugin: AdmissionPlugin) -> bool {
        !self.inner.disabled_plugins.has(plugin)
    }

    /// Namespaces of the service accounts as which health policies have objects created; [`REPAIR_NAMESPACE`](lazaret_kinds::REPAIR_NAMESPACE) where
    /// this is not said.
    pub fn allow_repair_namespaces(&self, namespaces: Vec<String>) {
        let _ = self.inner.repair_namespaces.set(namespaces);
    }

    pub(crate) fn repair_namespaces(&self) -> Vec<String> {
        let default = || vec![lazaret_kinds::REPAIR_NAMESPACE.to_owned()];
        self.inner.repair_namespaces.get().cloned().unwrap_or_else(default)
    }

    pub(crate) fn further_checks(&self) -> Vec<(String, bool)> {
        self.inner.further_checks.get().map(|checks| checks()).unwrap_or_default()
    }

    /// Gives Services addresses and ports of these ranges. To be called before the first Service is written; the first who asks for it stays.
    pub fn use_service_ranges(&self, ranges: ServiceRanges) {
        let _ = self.inner.service_ranges.set(ranges);
    }

    pub(crate) fn service_ranges(&self) -> ServiceRanges {
        *self.inner.service_ranges.get_or_init(ServiceRanges::default)
    }

    pub(crate) fn service_pool(&self) -> &Pool {
        &self.inner.service_pool
    }

    /// Connects to nodes from now on, for logs, exec and the like. The first call counts.
    pub fn connect_to_nodes(&self, connections: NodeConnections) {
        let _ = self.inner.node_connections.set(connections);
    }

    /// Hands alerts to this from now on. The first call counts.
    pub fn take_alerts(&self, sink: AlertSink) {
        let _ = self.inner.alerts.set(sink);
    }

    pub(crate) fn alerts(&self) -> Option<&AlertSink> {
        self.inner.alerts.get()
    }

    pub(crate) fn node_connections(&self) -> Option<&NodeConnections> {
        self.inner.node_connections.get()
    }

    /// Serves pages for people beside the API. The first call counts.
    pub fn serve_pages(&self, pages: impl Pages + 'static) {
        let _ = self.inner.pages.set(Box::new(pages));
    }

    pub(crate) fn pages(&self) -> Option<&dyn Pages> {
        self.inner.pages.get().map(Box::as_ref)
    }

    /// Tells the server where it is found. The first who says so counts.
    pub fn set_address(&self, address: ServerAddress) {
        let _ = self.inner.address.set(address);
    }

    /// Where the server is found, if it listens.
    #[must_use]
    pub fn address(&self) -> Option<&ServerAddress> {
        self.inner.address.get()
    }

    /// Ends every watch the way it ends when its time is over, so that clients begin again elsewhere. There is no way back.
    pub fn end_watches(&self) {
        self.inner.ending.send_replace(true);
    }

    /// The cache of recent events.
    pub(crate) fn recent_events(&self) -> &RecentEvents {
        &self.inner.recent_events
    }

    /// Becomes true when watches are to end.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.inner.ending.subscribe()
    }

    /// Every kind, those that definitions bring last.
    pub(crate) fn kinds(&self) -> Vec<KindRef> {
        let customs = self.inner.definitions.get(self.store());
        lazaret_kinds::all().iter().map(KindRef::Builtin).chain(customs.all()).collect()
    }

    /// The kinds that definitions bring: another value when one of them changed.
    pub(crate) fn customs(&self) -> Arc<Customs> {
        self.inner.definitions.get(self.store())
    }

    pub(crate) fn openapi_cache(&self) -> &Cache {
        &self.inner.openapi
    }

    /// The kind that a target names, in its version.
    pub(crate) fn find(&self, target: &Target) -> Option<(KindRef, Served)> {
        if let Some(kind) = lazaret_kinds::find(&target.group, &target.plural) {
            let served = kind.served(&target.version).filter(|served| self.serves(kind, served))?.clone();
            return Some((KindRef::Builtin(kind), served));
        }
        let kind = self.customs().find(target)?;
        let served = kind.hub().clone();
        Some((kind, served))
    }

    /// Whether a version of a kind is served here.
    pub(crate) fn serves(&self, kind: &Kind, served: &Served) -> bool {
        let on = runtime_config::is_on(&self.inner.runtime_config, kind, served);
        let features = self.features();
        on && served.since.is_none_or(|since| since <= features.release())
            && served.feature.is_none_or(|feature| features.is_on(feature))
    }

    /// A stored object.
    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.inner.stored.get(kind, namespace, name)
    }

    /// The objects written last.
    pub(crate) fn object_cache(&self) -> &ObjectCache {
        self.inner.stored.object_cache()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    pub(crate) fn audit(&self) -> &Audit {
        &self.inner.audit
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    pub(crate) fn long_requests(&self) -> &LongRequests {
        &self.inner.long_requests
    }

    /// Signs tokens of service accounts.
    pub(crate) fn token_keys(&self) -> Option<&TokenKeys> {
        self.inner.token_keys.as_ref()
    }

    /// Metrics of other parts of this process.
    pub(crate) fn further_metrics(&self) -> Option<String> {
        self.inner.further_metrics.get().map(|text| text())
    }

    pub(crate) fn may(&self, user: &User, access: Access<'_>) -> Result<(), String> {
        let by_roles = self.inner.authorizer.access(self.stored(), user, access);
        by_roles.or_else(|why| {
            let more = controllers::may(self.store(), &self.repair_namespaces(), user, access);
            if more { Ok(()) } else { Err(why) }
        })
    }

    pub(crate) fn may_path(&self, user: &User, verb: &str, path: &str) -> Result<(), String> {
        self.inner.authorizer.path(self.stored(), user, verb, path)
    }

    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> Option<Vec<Value>> {
        self.inner.authorizer.rules(self.stored(), user, namespace)
    }

    pub(crate) fn role_rules(&self, reference: &Value, namespace: &str) -> Option<Vec<Value>> {
        self.inner.authorizer.role_rules(self.stored(), reference, namespace)
    }
}
