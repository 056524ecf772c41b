//! The server: one entry for every request, wherever it comes from.

use std::{
    fmt,
    pin::Pin,
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use http::{Method, Request, Response, header};
use lazaret_json::Value;
use lazaret_kinds::{Access, Context, Features, Kind, Name, Scope, Served, User};
use lazaret_quota::Classes;
use lazaret_store::{Committed, Op, Store, TxnError};
use tokio::sync::watch;

use crate::{
    AlertSink, ApiError, Body, Pages, ServerAddress, TokenKeys,
    admission::{
        self, AdmissionPlugin, AdmissionRules, DefaultPriority, DisabledPlugins, QuotaTurns, WebhookLimits,
        find_default_priority,
    },
    alerts,
    audit::{self, Audit},
    auth::{attributes::authorize_unknown, authenticated, bootstrap, bootstrap_tokens, tokens},
    clock,
    definitions::{self, Customs, Definitions},
    derived::Derived,
    discovery, disk, health,
    held::Held,
    input,
    kind_ref::KindRef,
    limits::{self, Limits},
    long::{self, LongRequests},
    metrics::{self, How, Metrics, Subject},
    negotiate,
    negotiate::Form,
    object, openapi, panics, pretty,
    proxy::{self, NodeConnections},
    query::Query,
    recent::Recent,
    request::{Path, Target, Verb},
    respond::{Answer, failure},
    service_pool::Pool,
    service_ranges::ServiceRanges,
    trees::Trees,
    verbs,
};

/// Where classes of priority are stored.
const PRIORITY_CLASSES: &str = "/scheduling.k8s.io/priorityclasses/";

/// Who may do what.
pub trait Authorizer: Send + Sync {
    /// Whether `user` may do this to objects.
    ///
    /// # Errors
    /// Why not.
    fn access(&self, server: &Server, user: &User, access: Access<'_>) -> Result<(), String>;

    /// Whether `user` may do `verb` to a path that is no object.
    ///
    /// # Errors
    /// Why not.
    fn path(&self, server: &Server, user: &User, verb: &str, path: &str) -> Result<(), String>;

    /// All that `user` may do in a namespace, as rules of roles; `None` when that cannot be listed.
    fn rules(&self, _server: &Server, _user: &User, _namespace: &str) -> Option<Vec<Value>> {
        None
    }

    /// All that the role allows which a binding refers to, in a namespace or in the cluster; `None` when there is no such role.
    fn role_rules(&self, _server: &Server, _reference: &Value, _namespace: &str) -> Option<Vec<Value>> {
        None
    }
}

/// How a server is set up.
pub struct ServerOptions {
    /// Which features are on.
    pub features: Features,
    /// Group versions to serve or not, as [`parse_runtime_config`](crate::parse_runtime_config) reads them.
    pub runtime_config: Vec<(String, bool)>,
    /// Who may do what.
    pub authorizer: Box<dyn Authorizer>,
    /// Signs tokens of service accounts; without it none are given out.
    pub token_keys: Option<TokenKeys>,
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
    store: Store,
    definitions: Definitions,
    default_priority: Derived<DefaultPriority>,
    admission_rules: Derived<AdmissionRules>,
    approval_wanted: Derived<bool>,
    webhook_limits: WebhookLimits,
    device_classes: Derived<Classes>,
    quota_turns: QuotaTurns,
    audit: Audit,
    recent: Recent,
    trees: Trees,
    openapi: openapi::v2::Cache,
    limits: Limits,
    service_pool: Pool,
    service_ranges: OnceLock<ServiceRanges>,
    long_requests: LongRequests,
    /// Turns true when every watch is to end.
    ending: watch::Sender<bool>,
    options: ServerOptions,
    metrics: Metrics,
    /// Where it is found, once it listens.
    address: OnceLock<ServerAddress>,
    /// Numbers of whoever else runs in this process.
    further_metrics: OnceLock<Box<dyn Fn() -> String + Send + Sync>>,
    /// Whether whoever else runs in this process works.
    further_checks: OnceLock<Box<FurtherChecks>>,
    disabled_plugins: DisabledPlugins,
    node_connections: OnceLock<NodeConnections>,
    alerts: OnceLock<AlertSink>,
    pages: OnceLock<Box<dyn Pages>>,
}

/// Tasks by their names, and whether each works.
type FurtherChecks = dyn Fn() -> Vec<(String, bool)> + Send + Sync;

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("revision", &self.inner.store.revision()).finish_non_exhaustive()
    }
}

/// One request for objects, understood.
pub(crate) struct Call<'a> {
    pub(crate) server: &'a Server,
    pub(crate) user: &'a User,
    pub(crate) verb: Verb,
    pub(crate) kind: KindRef,
    pub(crate) served: Served,
    pub(crate) target: Target,
    pub(crate) query: Query,
    pub(crate) form: Form,
    /// `fieldManager`, or what the client calls itself.
    pub(crate) manager: String,
    pub(crate) content_type: Option<String>,
    /// What the request holds while it runs.
    pub(crate) held: Held,
}

/// A request for something that is no object.
struct OtherRequest<'a> {
    method: &'a Method,
    path: &'a str,
    query: &'a str,
}

impl Server {
    /// A server over a store.
    #[must_use]
    pub fn new(store: Store, options: ServerOptions) -> Self {
        Self::with_limits(store, options, Limits::default())
    }

    /// A server over a store that holds no more than it is told.
    #[must_use]
    pub fn with_limits(store: Store, options: ServerOptions, limits: Limits) -> Self {
        let metrics = Metrics::new(store.clone(), &options.features);
        let audit = Audit::new(&store, limits.audit_bytes_max);
        Self {
            inner: Arc::new(Inner {
                store,
                options,
                metrics,
                address: OnceLock::new(),
                further_metrics: OnceLock::new(),
                further_checks: OnceLock::new(),
                disabled_plugins: DisabledPlugins::default(),
                node_connections: OnceLock::new(),
                alerts: OnceLock::new(),
                pages: OnceLock::new(),
                definitions: Definitions::default(),
                recent: Recent::default(),
                trees: Trees::default(),
                openapi: openapi::v2::Cache::default(),
                limits,
                service_pool: Pool::default(),
                service_ranges: OnceLock::new(),
                long_requests: LongRequests::default(),
                default_priority: Derived::new(PRIORITY_CLASSES, find_default_priority),
                admission_rules: Derived::new(admission::ADMISSION_RULES, admission::compile_rules),
                approval_wanted: Derived::new(admission::GUARDS, admission::approval_is_wanted),
                webhook_limits: WebhookLimits::default(),
                device_classes: Derived::new(admission::DEVICE_CLASSES, admission::read_device_classes),
                quota_turns: QuotaTurns::default(),
                audit,
                ending: watch::Sender::new(false),
            }),
        }
    }

    /// The store behind it.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// Which features are on.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.inner.options.features
    }

    /// Answers requests on behalf of `user`, one call each: the shortest way to the API from within the process.
    pub fn answering(
        &self,
        user: User,
    ) -> impl Fn(Request<Bytes>) -> Pin<Box<dyn Future<Output = Response<Body>> + Send>> + Send + Sync + 'static
    {
        let (server, user) = (self.clone(), Arc::new(user));
        move |request| {
            let (server, user) = (server.clone(), Arc::clone(&user));
            Box::pin(async move { server.handle(&user, request).await })
        }
    }

    /// Answers one request on behalf of `user`.
    pub async fn handle(&self, user: &User, request: Request<Bytes>) -> Response<Body> {
        let mut measured = self.inner.metrics.begin(request.method());
        let for_people = pretty::is_wanted(&request);
        let response = match panics::caught(self.answer(user, request, &mut measured.subject)).await {
            Ok(Ok(answer)) => answer.into_response(),
            Ok(Err(error)) => failure(&error),
            Err(panic) => {
                self.inner.metrics.request_panicked();
                tracing::error!(panic, user = user.name, "a request panicked");
                failure(&ApiError::internal("the request failed for a reason that is in the server's log"))
            }
        };
        measured.end(response.status().as_u16());
        if for_people { pretty::indent(response) } else { response }
    }

    async fn answer(
        &self,
        user: &User,
        request: Request<Bytes>,
        subject: &mut Option<Subject>,
    ) -> Result<Answer, ApiError> {
        let (parts, body) = request.into_parts();
        if body.len() > input::BODY_BYTES_MAX {
            return Err(ApiError::too_large(format!(
                "the body must not be larger than {} bytes",
                input::BODY_BYTES_MAX
            )));
        }
        let text = |name: header::HeaderName| parts.headers.get(name).and_then(|value| value.to_str().ok());
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        let form = negotiate::accept(text(header::ACCEPT));
        let (target, watched) = match Path::parse(parts.uri.path()) {
            Path::Objects(target) => (target, false),
            Path::Watch(target) => (target, true),
            Path::Other(path) => {
                *subject = Some(Subject::path(&format!("/{path}")));
                if path == disk::COMPACT_PATH && parts.method == Method::POST {
                    self.authorize_path(user, "post", &path)?;
                    return self.compact_store().await;
                }
                if path == audit::PATH && parts.method == Method::GET {
                    return self.read_audit(user, &query);
                }
                if path == alerts::PATH && parts.method == Method::POST {
                    return self.receive_alerts(user, body).await;
                }
                let answer = if path == openapi::v2::PATH && parts.method == Method::GET {
                    self.authorize_path(user, "get", &path)?;
                    openapi::v2::answer(self, text(header::ACCEPT)).await?
                } else {
                    let query = parts.uri.query().unwrap_or_default();
                    self.other(user, &OtherRequest { method: &parts.method, path: &path, query }, form)?
                };
                return Ok(answer.unless_known(text(header::IF_NONE_MATCH)));
            }
        };
        let mut target = target;
        let rest = proxy::split(&mut target, parts.uri.path());
        let form = form?;
        let verb = match parts.method {
            Method::GET if watched => Verb::Watch,
            _ if watched => return Err(ApiError::method_not_allowed()),
            _ => Verb::of(&parts.method, &target, &query)?,
        };
        let found = self
            .find(&target)
            .filter(|(kind, _)| target.fits(kind.scope) && (!watched || target.subresource.is_empty()));
        let Some((kind, served)) = found else {
            authorize_unknown(self, user, &target, verb)?;
            if proxy::usage::takes(self, &target) && !watched {
                // It waits for nodes.
                if let Some(held) = parts.extensions.get::<Held>() {
                    held.release();
                }
                return proxy::usage::answer(self, &target, verb, &query).await;
            }
            return Err(ApiError::no_such_path());
        };
        let agent = text(header::USER_AGENT).and_then(|agent| agent.split('/').next()).unwrap_or("unknown");
        let manager = query.get("fieldManager").unwrap_or(agent).to_owned();
        let content_type = text(header::CONTENT_TYPE).map(str::to_owned);
        let held = parts.extensions.get::<Held>().cloned().unwrap_or_default();
        let call =
            Call { server: self, user, verb, kind, served, target, query, form, manager, content_type, held };
        *subject = Some(call.subject(verb));
        call.authorize(verb)?;
        if proxy::takes(&call) {
            return proxy::answer(&call, verb, proxy::Asked { parts, body, rest }).await;
        }
        let deprecation = call.kind.rules.deprecation().map(str::to_owned);
        let answer = if long::is_long(&call, verb, &body) {
            long::dispatch(call, verb, body).await?
        } else {
            verbs::dispatch(&call, verb, body).await?
        };
        Ok(answer.warn(deprecation))
    }

    fn other(
        &self,
        user: &User,
        asked: &OtherRequest<'_>,
        form: Result<Form, ApiError>,
    ) -> Result<Answer, ApiError> {
        let OtherRequest { method, path, query } = *asked;
        let verb = method.as_str().to_ascii_lowercase();
        self.authorize_path(user, &verb, path)?;
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        match path.split('/').next().unwrap_or_default() {
            "healthz" | "livez" | "readyz" => {
                let is_admin = self.authorize_path(user, "post", disk::COMPACT_PATH).is_ok();
                health::answer(self, path, query, is_admin)
            }
            "metrics" if path == "metrics" => {
                let mut text = self.inner.metrics.text().map_err(ApiError::internal)?;
                if let Some(further) = self.inner.further_metrics.get() {
                    text.truncate(text.trim_end_matches(metrics::END).len());
                    text.push_str(&further());
                }
                Ok(Answer { content_type: metrics::CONTENT_TYPE, ..Answer::text(200, text) })
            }
            "version" => Ok(Answer::value(200, &discovery::version(self.features().release()))),
            _ if path == "openapi/v3" || path.starts_with("openapi/v3/") => openapi::answer(self, path),
            "" => Ok(discovery::index(self)),
            _ => discovery::answer(self, path, form?).ok_or_else(ApiError::no_such_path),
        }
    }

    fn authorize_path(&self, user: &User, verb: &str, path: &str) -> Result<(), ApiError> {
        self.inner.options.authorizer.path(self, user, verb, &format!("/{path}")).map_err(|_| {
            ApiError::forbidden_path(&format!("/{path}"), &format!("User {:?} cannot {verb}", user.name))
        })
    }

    fn find(&self, target: &Target) -> Option<(KindRef, Served)> {
        if let Some(kind) = lazaret_kinds::find(&target.group, &target.plural) {
            let served = kind.served(&target.version).filter(|served| self.serves(kind, served))?.clone();
            return Some((KindRef::Builtin(kind), served));
        }
        let kind = self.inner.definitions.get(self).find(target)?;
        let served = kind.hub().clone();
        Some((kind, served))
    }

    /// How many objects a collection has; none if nobody knows it.
    pub(crate) fn count(&self, target: &Target) -> usize {
        self.find(target).map_or(0, |(kind, _)| self.store().count(object::key(&kind, &target.namespace, "")))
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

    /// All versions in which the resource of a call is served.
    pub(crate) fn versions(&self, call: &Call<'_>) -> Vec<Name> {
        let kind = match &call.kind {
            KindRef::Builtin(kind) => kind,
            KindRef::Custom(kind) => return self.inner.definitions.get(self).versions(kind),
        };
        let served = kind.versions.iter().filter(|served| self.serves(kind, served));
        served.map(|served| served.version.clone()).collect()
    }

    /// The kind of a call as another version has it.
    pub(crate) fn in_version(&self, call: &Call<'_>, version: &str) -> Option<(KindRef, Served)> {
        if call.served.version == version {
            return Some((call.kind.clone(), call.served.clone()));
        }
        self.find(&Target { version: version.to_owned(), ..call.target.clone() })
    }

    /// The device classes that serve extended resources.
    pub(crate) fn device_classes(&self) -> Arc<Classes> {
        self.inner.device_classes.get(self.store())
    }

    /// Lets those who write in a namespace with quotas go one after the other.
    pub(crate) fn quota_turns(&self) -> &QuotaTurns {
        &self.inner.quota_turns
    }

    /// Shows the numbers of whoever else runs in this process, as text that Prometheus reads, after the server's own. The first who asks
    /// for it stays.
    pub fn show_metrics(&self, text: impl Fn() -> String + Send + Sync + 'static) {
        let _ = self.inner.further_metrics.set(Box::new(text));
    }

    /// Lets `/readyz` and `/healthz` tell as well whether whoever else runs in this process works: tasks by their names. The first who asks
    /// for it stays.
    pub fn show_checks(&self, checks: impl Fn() -> Vec<(String, bool)> + Send + Sync + 'static) {
        let _ = self.inner.further_checks.set(Box::new(checks));
    }

    /// What they say.
    /// Does without an admission plugin from now on.
    pub fn disable_admission_plugin(&self, plugin: AdmissionPlugin) {
        self.inner.disabled_plugins.add(plugin);
    }

    pub(crate) fn runs_plugin(&self, plugin: AdmissionPlugin) -> bool {
        !self.inner.disabled_plugins.has(plugin)
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

    /// Connects to nodes from now on, for logs, exec and the like. The first who asks for it stays.
    pub fn connect_to_nodes(&self, connections: NodeConnections) {
        let _ = self.inner.node_connections.set(connections);
    }

    /// Hands alerts to this from now on. The first who asks for it stays.
    pub fn take_alerts(&self, sink: AlertSink) {
        let _ = self.inner.alerts.set(sink);
    }

    pub(crate) fn alerts(&self) -> Option<&AlertSink> {
        self.inner.alerts.get()
    }

    pub(crate) fn node_connections(&self) -> Option<&NodeConnections> {
        self.inner.node_connections.get()
    }

    /// Serves pages for people beside the API. The first who asks for it stays.
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

    /// What was made of the events of the last moment.
    pub(crate) fn recent(&self) -> &Recent {
        &self.inner.recent
    }

    /// Becomes true when watches are to end.
    pub(crate) fn ending(&self) -> watch::Receiver<bool> {
        self.inner.ending.subscribe()
    }

    /// Every kind, those that definitions bring last.
    pub(crate) fn kinds(&self) -> Vec<KindRef> {
        let customs = self.inner.definitions.get(self);
        lazaret_kinds::all().iter().map(KindRef::Builtin).chain(customs.all()).collect()
    }

    /// The kinds that definitions bring: another value when one of them changed.
    pub(crate) fn customs(&self) -> Arc<Customs> {
        self.inner.definitions.get(self)
    }

    pub(crate) fn openapi_cache(&self) -> &openapi::v2::Cache {
        &self.inner.openapi
    }

    /// Whether a version of a kind is served here.
    pub(crate) fn serves(&self, kind: &Kind, served: &Served) -> bool {
        let on = crate::runtime_config::is_on(&self.inner.options.runtime_config, kind, served);
        let features = self.features();
        on && served.since.is_none_or(|since| since <= features.release())
            && served.feature.is_none_or(|feature| features.is_on(feature))
    }

    /// A stored object.
    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.store().get(object::key(kind, namespace, name)).map(|item| self.trees().get(&item))
    }

    /// The objects written last.
    pub(crate) fn trees(&self) -> &Trees {
        &self.inner.trees
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

    /// Hands a write to the store and waits until it is durable.
    pub(crate) async fn commit(&self, ops: Vec<Op>) -> Result<Committed, TxnError> {
        self.commit_within(ops, object::OBJECT_BYTES_MAX).await
    }

    /// The same for what the server itself adds to an object that somebody else made.
    pub(crate) async fn commit_own(&self, ops: Vec<Op>) -> Result<Committed, TxnError> {
        self.commit_within(ops, object::OBJECT_BYTES_MAX + object::OWN_BYTES_MAX).await
    }

    async fn commit_within(&self, ops: Vec<Op>, bytes_max: usize) -> Result<Committed, TxnError> {
        limits::check_sizes(self.store(), &ops, bytes_max)?;
        let started = clock::instant();
        let committed = self.write(ops).await;
        self.metrics().committed(started.elapsed());
        committed
    }

    pub(crate) fn may(&self, user: &User, access: Access<'_>) -> Result<(), String> {
        self.inner.options.authorizer.access(self, user, access)
    }

    pub(crate) fn may_path(&self, user: &User, verb: &str, path: &str) -> Result<(), String> {
        self.inner.options.authorizer.path(self, user, verb, path)
    }

    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> Option<Vec<Value>> {
        self.inner.options.authorizer.rules(self, user, namespace)
    }

    pub(crate) fn role_rules(&self, reference: &Value, namespace: &str) -> Option<Vec<Value>> {
        self.inner.options.authorizer.role_rules(self, reference, namespace)
    }

    /// The status of a TokenReview.
    pub(crate) fn review_token(&self, spec: &Value) -> Value {
        let asked = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let asked: Vec<&str> = asked.collect();
        let audiences = if asked.is_empty() { &[tokens::ISSUER][..] } else { &asked };
        match self.authenticate_token(spec["token"].as_str().unwrap_or_default(), audiences) {
            Ok(accepted) => lazaret_json::json!({
                "authenticated": true, "user": verbs::user_info(&accepted.user), "audiences": accepted.audiences,
            }),
            Err(error) => lazaret_json::json!({"authenticated": false, "error": error}),
        }
    }

    pub(crate) fn issue_token(&self, account: &Value, spec: &Value) -> Result<Value, String> {
        let keys = self.inner.options.token_keys.as_ref().ok_or("this server gives out no tokens")?;
        tokens::issue(self, keys, account, spec)
    }

    /// Whose token this is, if it is meant for one of the audiences.
    fn authenticate_token(&self, token: &str, audiences: &[&str]) -> Result<tokens::Accepted, String> {
        if audiences.contains(&tokens::ISSUER)
            && let Some(user) = bootstrap_tokens::authenticate(self, token, clock::now())
        {
            let audiences = vec![tokens::ISSUER.to_owned()];
            return Ok(tokens::Accepted { user: authenticated(user), audiences });
        }
        let keys = self.inner.options.token_keys.as_ref().ok_or("this server gives out no tokens")?;
        tokens::authenticate(self, keys, token, audiences).map(|mut accepted| {
            accepted.user = authenticated(accepted.user);
            accepted
        })
    }

    /// Whose token this is, if it is meant for this server.
    pub(crate) fn token_user(&self, token: &str) -> Option<User> {
        self.authenticate_token(token, &[tokens::ISSUER]).ok().map(|accepted| accepted.user)
    }

    /// Tells everybody which certificate, as PEM, connections to this server are to be trusted by.
    ///
    /// # Errors
    /// What could not be written.
    pub async fn publish_authority(&self, certificate: &str) -> Result<(), String> {
        bootstrap::publish(self, certificate).await
    }

    /// Makes what every cluster begins with, where it is missing.
    ///
    /// # Errors
    /// What could not be made.
    pub async fn bootstrap(&self) -> Result<(), String> {
        bootstrap::ensure(self).await?;
        definitions::settle(self).await.map_err(|error| format!("settle the definitions of kinds: {error}"))
    }
}

impl<'a> Call<'a> {
    /// The same call on something else, without its body.
    pub(crate) fn on(&self, target: Target) -> Call<'a> {
        Call {
            server: self.server,
            user: self.user,
            verb: self.verb,
            kind: self.kind.clone(),
            served: self.served.clone(),
            target,
            query: self.query.clone(),
            form: self.form,
            manager: self.manager.clone(),
            content_type: None,
            held: self.held.clone(),
        }
    }
}

impl Call<'_> {
    pub(crate) fn store(&self) -> &Store {
        self.server.store()
    }

    pub(crate) fn key(&self, name: &str) -> String {
        object::key(&self.kind, &self.target.namespace, name)
    }

    /// Whether the collection is one of a namespace, or the cluster's: not one across namespaces.
    pub(crate) fn whole_collection(&self) -> bool {
        self.kind.scope == Scope::Cluster || !self.target.namespace.is_empty()
    }

    /// What numbers know of this call.
    pub(crate) fn subject(&self, verb: Verb) -> Subject {
        let apply =
            self.content_type.as_deref().is_some_and(|text| text.starts_with("application/apply-patch"));
        let how = How { dry_run: self.query.get("dryRun") == Some("All"), apply };
        Subject::objects(&self.kind, &self.served.version, &self.target, verb, how)
    }

    /// Now as the API writes it.
    pub(crate) fn timestamp() -> String {
        let now = clock::now();
        jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
    }

    /// Runs `inner` with what rules may look at.
    pub(crate) fn with_context<T>(&self, inner: impl FnOnce(&Context<'_>) -> T) -> T {
        let namespace = || {
            lazaret_kinds::find("", "namespaces")
                .filter(|_| self.kind.scope == Scope::Namespaced)
                .and_then(|namespaces| self.server.get(namespaces, "", &self.target.namespace))
        };
        let lookup = |resource: &str, namespace: &str, name: &str| {
            let kind = lazaret_kinds::all().iter().find(|kind| kind.plural == resource)?;
            self.server.get(kind, namespace, name)
        };
        let may = |access: Access<'_>| self.server.may(self.user, access).is_ok();
        inner(&Context {
            now: clock::now(),
            features: self.server.features(),
            user: self.user,
            verb: self.verb.name(),
            version: &self.served.version,
            namespace: &namespace,
            lookup: &lookup,
            may: &may,
        })
    }
}
