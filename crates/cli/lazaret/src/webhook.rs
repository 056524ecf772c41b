//! The admission webhook of `lazaret run`: asks guards before Kubernetes evicts for a DeviceTaintRule.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use lazaret_controllers::{PolicyReviews, RuleReview, RuleReviews};
use lazaret_model::validate_dns_label;
use lazaret_runtime::{Client, Metrics, Tasks};
use lazaret_webhook::{About, Decide, Decision, Identity, Question, Webhook};
use tokio::sync::watch;

use crate::{listen::Listen, output};

/// Where the webhook is served, and under which name.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct WebhookArgs {
    /// Serve an admission webhook over HTTPS at this address, 0.0.0.0:9443 for instance: it refuses DeviceTaintRules whose evictions a DisruptionGuard does not permit, and DeviceHealthPolicies that describe what their author may not create [default: not at all]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Listen::parse)]
    webhook_listen: Option<Listen>,
    /// The Service of the webhook; its Secret and its ValidatingWebhookConfiguration have the same name
    #[arg(
        long,
        value_name = "NAMESPACE/NAME",
        default_value = "lazaret-system/lazaret-webhook",
        requires = "webhook_listen"
    )]
    webhook_service: String,
    /// Names and addresses at which the API server reaches the webhook [default: NAME.NAMESPACE.svc]
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', requires = "webhook_listen")]
    webhook_hosts: Vec<String>,
}

/// A webhook that is served until it is stopped.
pub(crate) struct Serving {
    webhook: Arc<Webhook>,
    tasks: Tasks,
    stop: watch::Sender<bool>,
}

impl WebhookArgs {
    pub(crate) fn is_wanted(&self) -> bool {
        self.webhook_listen.is_some()
    }

    /// Begins to serve, if it is wanted.
    pub(crate) async fn start(
        &self,
        client: Client,
        metrics: &Metrics,
        reviews: Option<RuleReviews>,
        repair_namespaces: Vec<String>,
    ) -> Result<Option<Serving>> {
        let Some(listen) = &self.webhook_listen else { return Ok(None) };
        let identity = self.identity()?;
        let Some(reviews) = reviews else {
            output::note("no webhook: this cluster does not serve DeviceTaintRules");
            return Ok(None);
        };
        let listener = listen.bind("--webhook-listen").await?;
        let address = listener.local_addr().context("find out where it listens")?;
        output::note(&format!("webhook: https://{address}/device-taint-rules"));
        let policies = PolicyReviews::new(client.clone(), repair_namespaces);
        let decide = decide(reviews, policies);
        let (webhook, certificate_manager) = Webhook::new(client, identity, metrics, decide);
        let (stop, stopped) = watch::channel(false);
        let mut tasks = Tasks::default();
        tasks.spawn("webhook", metrics, Arc::clone(&webhook).serve(listener, certificate_manager, stopped));
        Ok(Some(Serving { webhook, tasks, stop }))
    }

    fn identity(&self) -> Result<Identity> {
        let service = &self.webhook_service;
        let (namespace, name) = service
            .split_once('/')
            .ok_or_else(|| anyhow!("--webhook-service {service}: write it as NAMESPACE/NAME"))?;
        for part in [namespace, name] {
            validate_dns_label(part).map_err(|why| anyhow!("--webhook-service {service}: {why}"))?;
        }
        let mut hosts = self.webhook_hosts.clone();
        if hosts.is_empty() {
            hosts.push(format!("{name}.{namespace}.svc"));
        }
        let known =
            |host: &String| !host.is_empty() && host.len() <= 253 && !host.contains(char::is_whitespace);
        ensure!(hosts.iter().all(known), "--webhook-hosts: write them as a.example.com,192.0.2.1");
        Ok(Identity { namespace: namespace.to_owned(), name: name.to_owned(), hosts })
    }
}

impl Serving {
    /// Whether it has a certificate.
    pub(crate) fn check(&self) -> (String, bool) {
        ("webhook/certificate".to_owned(), self.webhook.is_ready())
    }

    /// Lets what was asked be answered.
    pub(crate) async fn stop(self) {
        // The receiver is gone when the server has ended by itself.
        let _ = self.stop.send(true);
        self.tasks.join().await;
    }
}

fn decide(reviews: RuleReviews, policies: PolicyReviews) -> Decide {
    Arc::new(move |about, Question { object, old_object, user }| {
        let (reviews, policies) = (reviews.clone(), policies.clone());
        Box::pin(async move {
            let review = match about {
                About::Rule => reviews.review(&object, old_object.as_deref()).await,
                About::HealthPolicy => policies.review(&object, old_object.as_deref(), &user).await,
            };
            match review {
                RuleReview::Permitted => Decision::Allowed,
                RuleReview::Refused(why) => Decision::Denied(why),
                RuleReview::NotReady => Decision::NotReady,
            }
        })
    })
}
