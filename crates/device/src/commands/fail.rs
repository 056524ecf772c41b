//! `kubectl device fail` and `recover`: for simulated drivers.

use super::Session;
use crate::{
    Error, Verdict,
    api::{DryRun, NODES},
    args::{Fail, Recover},
    view::fail_patch,
};

pub(super) async fn fail(session: &mut Session<'_>, args: Fail) -> Result<Verdict, Error> {
    let failure = Some((args.effect.as_str(), args.reason.as_deref()));
    write(session, &args.device, failure, "is reported as failing").await
}

pub(super) async fn recover(session: &mut Session<'_>, args: Recover) -> Result<Verdict, Error> {
    write(session, &args.device, None, "is reported as well").await
}

async fn write(
    session: &mut Session<'_>,
    written: &str,
    failure: Option<(&str, Option<&str>)>,
    done: &str,
) -> Result<Verdict, Error> {
    // A full name is as good: the pool of a simulated node is called like the node.
    let parts: Vec<&str> = written.split('/').collect();
    let (node, device) = match parts.as_slice() {
        [node, device] | [_, node, device] if !node.is_empty() && !device.is_empty() => (*node, *device),
        _ => return Err(Error::usage(format!("{written:?} is no NODE/DEVICE"))),
    };
    let object = session.api.get(&NODES, "", node).await?;
    match fail_patch(&object, device, failure).map_err(|text| Error::usage(format!("Node {node}: {text}")))? {
        Some(patch) => {
            session.api.patch(&NODES, node, &patch, DryRun::None).await?;
            session.console.line(&format!("{node}/{device} {done}"))?;
        }
        None => session.console.line(&format!("{node}/{device} {done} already"))?,
    }
    Ok(Verdict::Yes)
}
