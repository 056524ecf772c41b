//! News of objects become news of classic claims.

use std::sync::Arc;

use lazaret_api::{read_classic_claim, read_classic_class, read_classic_node_report, read_classic_pod};
use lazaret_classic::News;
use lazaret_runtime::{CLASSIC_CLAIMS, CLASSIC_CLASSES, NODES, PODS};
use memchr::memmem;

use crate::ledger::Change;

/// An entry of `spec.resourceClaims` is a classic one by one of these fields.
const CLASSIC_FIELDS: [&[u8]; 2] = [b"\"classicClaimName\"", b"\"template\""];

/// Whether the JSON of a pod may speak of classic claims: most pods have none, and need not be read again.
pub(crate) fn may_have_claims(json: &[u8]) -> bool {
    CLASSIC_FIELDS.iter().any(|field| memmem::find(json, field).is_some())
}

/// News of claims and classes.
pub(crate) fn claim_news(change: &Change) -> Option<News> {
    let news = match change {
        Change::Set(resource, object) if *resource == CLASSIC_CLAIMS => {
            read_classic_claim(object.json()).map(|claim| News::Claim(Arc::new(claim)))
        }
        Change::Set(resource, object) if *resource == CLASSIC_CLASSES => {
            read_classic_class(object.json()).map(|class| News::Class(Arc::new(class)))
        }
        Change::Gone(resource, key, uid) if *resource == CLASSIC_CLAIMS => {
            return Some(News::ClaimGone(key.clone(), uid.clone()));
        }
        Change::Gone(resource, key, _) if *resource == CLASSIC_CLASSES => {
            return Some(News::ClassGone(key.name.clone()));
        }
        Change::Set(..) | Change::Gone(..) => return None,
    };
    if news.is_none()
        && let Change::Set(_, object) = change
    {
        object.cannot_be_read(&"it has not the form of its kind", "its last good version if one was read");
    }
    news
}

/// A node's word about claims that are prepared on it.
pub(super) fn node_news(change: &Change) -> Option<News> {
    match change {
        Change::Set(resource, object) if *resource == NODES => {
            read_classic_node_report(object.json()).map(|report| News::Report(Arc::new(report)))
        }
        Change::Gone(resource, key, _) if *resource == NODES => Some(News::ReportGone(key.name.clone())),
        Change::Set(..) | Change::Gone(..) => None,
    }
}

/// News of pods. Those without classic claims are no news.
pub(super) fn pod_news(change: &Change) -> Option<News> {
    match change {
        Change::Set(resource, object) if *resource == PODS => {
            let pod = read_classic_pod(Some(object.json()).filter(|json| may_have_claims(json))?)?;
            (!pod.claims.is_empty()).then(|| News::Pod(Arc::new(pod)))
        }
        Change::Gone(resource, key, uid) if *resource == PODS => {
            Some(News::PodGone(key.clone(), uid.clone()))
        }
        Change::Set(..) | Change::Gone(..) => None,
    }
}
