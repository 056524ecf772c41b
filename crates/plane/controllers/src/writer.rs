//! How executors write: under the lease of their part, and with its postbox.

use bytes::Bytes;
use lazaret_model::{ObjectKey, Timestamp};
use lazaret_runtime::{Call, CallError, Client, Outcome, PatchKind, Reply, Resource};
use serde_json::Value;
use tracing::warn;

use crate::{
    conditions::keep_transitions,
    event::{Event, Events},
    wire,
};

/// Writes for one part. Only a [`PartContext`](crate::context::PartContext) has the events that one needs, and it puts the client under its lease.
#[derive(Clone, Debug)]
pub(crate) struct Writer {
    client: Client,
    events: Events,
}

impl Writer {
    pub(crate) fn new(client: Client, events: Events) -> Self {
        Self { client, events }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// The same, by the rights of this user and no others.
    pub(crate) fn acting_as(&self, user: &str) -> Self {
        Self { client: self.client.acting_as(user), events: self.events.clone() }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.client.clock().now()
    }

    pub(crate) async fn send(&self, call: Call) -> Result<Bytes, CallError> {
        self.client.send(call).await
    }

    /// Sends a write whose only precondition is a UID: a conflict over it means that this incarnation is gone.
    pub(crate) async fn send_to_one(&self, call: Call) -> Result<Bytes, CallError> {
        match self.send(call).await {
            Err(CallError::Conflict(why)) => Err(CallError::NotFound(why)),
            sent => sent,
        }
    }

    /// Applies the status of an object without a namespace, of the incarnation that its body names. Conditions whose status does not change keep
    /// their date.
    pub(crate) async fn apply_status(
        &self,
        resource: &Resource,
        name: &str,
        manager: &'static str,
        mut body: Value,
    ) -> Result<Bytes, CallError> {
        let found = self.send(Call::get(resource, "", name)).await?;
        keep_transitions(&found, &mut body);
        let kind = PatchKind::Apply { manager };
        self.send_to_one(Call::patch(resource, "", name, "status", kind, body.to_string())).await
    }

    /// The same where the object as it is now permits it. A write of another in between is a conflict.
    pub(crate) async fn apply_status_where(
        &self,
        resource: &Resource,
        name: &str,
        (manager, mut body): (&'static str, Value),
        permits: impl FnOnce(&[u8]) -> bool + Send,
    ) -> Result<Bytes, CallError> {
        let found = self.send(Call::get(resource, "", name)).await?;
        let metadata = wire::metadata(&found);
        let Some(metadata) = metadata.filter(|one| body["metadata"]["uid"] == *one.uid) else {
            return Err(CallError::NotFound(format!("{} {name} is another by now", resource.kind)));
        };
        if !permits(&found) {
            let why = format!("{} {name} was written since this was decided", resource.kind);
            return Err(CallError::Conflict(why));
        }
        keep_transitions(&found, &mut body);
        body["metadata"]["resourceVersion"] = metadata.resource_version.into();
        let kind = PatchKind::Apply { manager };
        self.send(Call::patch(resource, "", name, "status", kind, body.to_string())).await
    }

    /// Makes an object, unless an earlier attempt did whose answer was lost: then it exists, and `is_ours`. [`CallError::AlreadyExists`]: another
    /// owner's object has the name. `None`: the object that had it is gone.
    pub(crate) async fn make(
        &self,
        create: Call,
        get: Call,
        is_ours: impl FnOnce(&[u8]) -> bool + Send,
    ) -> Result<Option<Bytes>, CallError> {
        let taken = match self.send(create).await {
            Err(taken @ CallError::AlreadyExists(_)) => taken,
            made => return made.map(Some),
        };
        match self.send(get).await {
            Ok(found) if is_ours(&found) => Ok(Some(found)),
            Ok(_) => Err(taken),
            Err(CallError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether this incarnation is there, past every cache: [`Outcome::Done`] or [`Outcome::Gone`].
    pub(crate) async fn confirm(&self, resource: &Resource, key: &ObjectKey, uid: &str) -> Reply {
        match self.send(Call::get(resource, &key.namespace, &key.name)).await {
            Ok(found) => match wire::metadata(&found) {
                Some(metadata) if metadata.uid == uid => Outcome::Done.into(),
                Some(_) => Outcome::Gone.into(),
                None => Outcome::RetryLater.into(),
            },
            Err(error) => Reply::from(&error),
        }
    }

    /// Posts an event, for which nothing waits.
    pub(crate) fn post(&self, event: &Event<'_>) -> Reply {
        self.events.post(event).into()
    }
}

/// The outcome for an object that was to be [made](Writer::make).
pub(crate) fn made(made: Result<Option<Bytes>, CallError>) -> Reply {
    made.transpose().map_or_else(|| Outcome::RetryLater.into(), Reply::from)
}

/// Done, or nothing is left to do.
pub(crate) fn done_or_gone(sent: Result<Bytes, CallError>) -> Result<Outcome, CallError> {
    match sent {
        Ok(_) => Ok(Outcome::Done),
        Err(CallError::NotFound(_)) => Ok(Outcome::Gone),
        Err(error) => Err(error),
    }
}

/// The answer to a write. A failure that is tried again is worth a word in the log: what is gone or held for now is not one.
pub(crate) fn warned(sent: Result<Bytes, CallError>, what: &str) -> Reply {
    if let Err(error) = &sent
        && !matches!(error, CallError::NotFound(_) | CallError::Budget(_))
    {
        warn!(%error, "{what}");
    }
    sent.into()
}

#[cfg(test)]
mod tests {
    use lazaret_runtime::{Clock, Hub, Metrics, PODS};

    use super::*;

    const TAKEN: (u16, &str) = (409, r#"{"reason":"AlreadyExists","message":"taken"}"#);
    const CONFLICT: (u16, &str) = (409, r#"{"reason":"Conflict","message":"another UID"}"#);
    const FOUND: (u16, &str) = (200, r#"{"metadata":{"name":"p","uid":"u"}}"#);
    const ABSENT: (u16, &str) = (404, r#"{"reason":"NotFound","message":"none"}"#);

    /// Writes to a server that answers reads with `got`, and anything else with `written`.
    fn writer(written: (u16, &'static str), got: (u16, &'static str)) -> Writer {
        let client = Client::direct(move |request| {
            let (status, text) = if request.method() == http::Method::GET { got } else { written };
            let mut answer = http::Response::new(text.to_owned());
            *answer.status_mut() = http::StatusCode::from_u16(status).unwrap();
            std::future::ready(answer)
        });
        let (postbox, _) = Hub::new(client.clone(), Metrics::default()).postbox();
        Writer::new(client, Events::new(postbox, Clock::default()))
    }

    #[tokio::test]
    async fn what_an_earlier_attempt_made_is_as_good_as_made_now_and_what_somebody_else_made_is_not() {
        for (written, got, is_ours, expected) in [
            (FOUND, ABSENT, false, Outcome::Done),
            (TAKEN, FOUND, true, Outcome::Done),
            (TAKEN, FOUND, false, Outcome::Conflict),
            (TAKEN, ABSENT, true, Outcome::RetryLater),
            (TAKEN, (503, "{}"), true, Outcome::RetryLater),
            ((422, "{}"), FOUND, true, Outcome::Refused),
        ] {
            let (create, get) = (Call::create(&PODS, "n", "{}"), Call::get(&PODS, "n", "p"));
            let reply = made(writer(written, got).make(create, get, |_| is_ours).await);
            assert_eq!(reply.outcome, expected, "{written:?} {got:?} {is_ours}");
        }
    }

    #[tokio::test]
    async fn another_incarnation_is_not_the_one_that_was_asked_for() {
        let key = ObjectKey::new("n", "p");
        for (got, uid, expected) in [
            (FOUND, "u", Outcome::Done),
            (FOUND, "v", Outcome::Gone),
            (ABSENT, "u", Outcome::Gone),
            ((200, "no object"), "u", Outcome::RetryLater),
        ] {
            assert_eq!(writer(FOUND, got).confirm(&PODS, &key, uid).await.outcome, expected, "{got:?} {uid}");
        }
        let delete = || Call::delete(&PODS, "n", "p", "{}");
        let sent = writer(CONFLICT, FOUND).send_to_one(delete()).await;
        assert_eq!(done_or_gone(sent), Ok(Outcome::Gone));
        let sent = writer(CONFLICT, FOUND).send(delete()).await;
        assert!(matches!(sent, Err(CallError::Conflict(_))));
    }

    #[tokio::test]
    async fn a_status_is_applied_where_the_object_permits_it_and_to_no_other_incarnation() {
        let body =
            |uid: &str| ("m", serde_json::json!({"metadata": {"name": "p", "uid": uid}, "status": {}}));
        for (written, uid, permits, expected) in [
            (FOUND, "u", true, Outcome::Done),
            (FOUND, "u", false, Outcome::Conflict),
            (CONFLICT, "u", true, Outcome::Conflict),
            (FOUND, "v", true, Outcome::Gone),
        ] {
            let writer = writer(written, FOUND);
            let sent = writer.apply_status_where(&PODS, "p", body(uid), |_| permits).await;
            assert_eq!(Reply::from(sent).outcome, expected, "{written:?} {uid} {permits}");
        }
    }
}
