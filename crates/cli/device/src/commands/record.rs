//! `kubectl device record`: what happens to devices, as one file that the dashboard plays.

use std::{path::Path, time::Duration};

use lazaret_model::Timestamp;

use super::{
    Session,
    follow::{Follow, News},
    load::Read,
};
use crate::{
    Error, Verdict,
    api::{INCIDENTS, Item, Scope},
    live_args::RecordArgs,
    view::Recording,
};

pub(super) async fn run(session: &mut Session<'_>, args: RecordArgs) -> Result<Verdict, Error> {
    let served = session.served().await?;
    // Classes say which devices rules and patches select.
    let resources = [
        Some(served.slices),
        Some(served.claims),
        served.rules,
        served.patches,
        Some(served.classes),
        Some(INCIDENTS),
    ];
    let mut recording = Recording::new(session.now());
    let mut reads = Vec::new();
    for resource in resources.into_iter().flatten() {
        let scope = Scope::default();
        match session.api.list(&resource, &scope, |item| recording.begin(item.json())).await {
            Ok(version) => reads.push(Read { resource, scope, version }),
            // Lazaret alone has incidents.
            Err(Error::NotFound { .. }) if resource == INCIDENTS => {}
            Err(error @ Error::Forbidden { .. }) if resource == INCIDENTS => {
                session.console.note(&error.to_string())
            }
            Err(error) => return Err(error),
        }
    }
    let end = args.span.map(|span| Duration::from_millis(span.0.max(0).cast_unsigned()));
    session.console.note(match end {
        Some(_) => "recording; Ctrl-C ends it earlier",
        None => "recording; Ctrl-C ends it",
    });
    let mut follow = Follow::start(&session.api, &reads);
    let over = async {
        match end {
            Some(span) => tokio::time::sleep(span).await,
            None => std::future::pending().await,
        }
    };
    tokio::pin!(over);
    loop {
        tokio::select! {
            news = follow.next() => take(&mut recording, session.now(), news?),
            () = &mut over => break,
            _ = tokio::signal::ctrl_c() => break,
        }
        if recording.is_full() {
            session.console.note("the recording is as large as it may be and ends here");
            break;
        }
    }
    write(session, &args.output, &recording)
}

fn write(session: &mut Session<'_>, path: &Path, recording: &Recording) -> Result<Verdict, Error> {
    let text = recording.file(session.now()).to_string();
    if path == Path::new("-") {
        session.console.line(&text)?;
    } else {
        std::fs::write(path, text)?;
        let (objects, changes) = recording.counts();
        session.console.note(&format!("{}: {objects} objects, {changes} changes", path.display()));
    }
    Ok(Verdict::Yes)
}

fn take(recording: &mut Recording, now: Timestamp, news: News) {
    match news {
        News::Set(item) => recording.set(now, item.json()),
        News::Gone(item) => recording.gone(now, item.json()),
        News::Listed(resource, items) => recording.listed(now, resource.kind, items.iter().map(Item::json)),
    }
}
