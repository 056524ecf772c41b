//! The user and groups of a container.

use k8s_openapi::api::core::v1::Container;
use lazaret_containers::{Identity, UserLookup};
use lazaret_images::Image;

use crate::{Disk, ImageUser, SpecError, pod::PodView};

/// Users and groups go up to here, as Kubernetes has it.
const ID_MAX: i64 = 2_147_483_647;

/// The identity of a container, and the home directory of its user.
pub(crate) fn of_container(
    view: &PodView<'_>,
    container: &Container,
    image: &Image,
    disk: &dyn Disk,
) -> Result<(Identity, String), SpecError> {
    let (pod, own) = (view.security(), container.security_context.as_ref());
    let user = run_as_user(view, container);
    let group = own.and_then(|own| own.run_as_group).or_else(|| pod.and_then(|pod| pod.run_as_group));
    let non_root =
        own.and_then(|own| own.run_as_non_root).or_else(|| pod.and_then(|pod| pod.run_as_non_root));
    if non_root.unwrap_or(false) {
        check_non_root(view, container, user, &image.config.user)?;
    }
    let user = user.map(|user| id("runAsUser", user)).transpose()?;
    let group = group.map(|group| id("runAsGroup", group)).transpose()?;
    let with_groups = match pod.and_then(|pod| pod.supplemental_groups_policy.as_deref()) {
        None | Some("Merge") => true,
        Some("Strict") => false,
        Some(other) => {
            return Err(SpecError::config(format!("unsupported supplementalGroupsPolicy: {other}")));
        }
    };
    let (lookup, found) = if image.is_opaque {
        let found = ImageUser { uid: user.unwrap_or_default(), ..ImageUser::default() };
        (Some(lookup(user, group, &image.config.user, with_groups)), found)
    } else {
        let wanted = user.map_or_else(|| image.config.user.clone(), |user| user.to_string());
        (None, disk.image_user(image, &wanted).map_err(SpecError::create)?)
    };
    let ImageUser { uid, gid, groups, home } = found;
    let mut all = if with_groups { groups } else { Vec::new() };
    let further = pod.and_then(|pod| pod.fs_group).into_iter();
    for further in further.chain(pod.and_then(|pod| pod.supplemental_groups.clone()).into_iter().flatten()) {
        all.push(id("supplementalGroups", further)?);
    }
    let mut groups = Vec::with_capacity(all.len());
    for group in all {
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    Ok((Identity { uid, gid: group.unwrap_or(gid), groups, lookup }, home))
}

/// The lookup for a runtime that alone sees the files of the image. A group needs a user beside it, by the protocol.
fn lookup(user: Option<u32>, gid: Option<u32>, of_image: &str, with_groups: bool) -> UserLookup {
    let name = of_image.split(':').next().filter(|name| !name.is_empty()).unwrap_or("0");
    let user = user.map(|user| user.to_string()).or_else(|| gid.map(|_| name.to_owned()));
    UserLookup { user, gid, with_groups }
}

/// The user that the pod asks for; none when the image decides.
pub(crate) fn run_as_user(view: &PodView<'_>, container: &Container) -> Option<i64> {
    let own = container.security_context.as_ref().and_then(|own| own.run_as_user);
    own.or_else(|| view.security().and_then(|pod| pod.run_as_user))
}

/// The one user of all containers; none when they differ, or when an image decides.
pub(crate) fn common_user(view: &PodView<'_>) -> Option<u32> {
    let mut common = None;
    for container in view.containers() {
        let user = run_as_user(view, &container)?;
        if common.is_some_and(|common| common != user) {
            return None;
        }
        common = Some(user);
    }
    common.and_then(|user| id("runAsUser", user).ok())
}

fn id(what: &str, value: i64) -> Result<u32, SpecError> {
    u32::try_from(value)
        .ok()
        .filter(|_| value <= ID_MAX)
        .ok_or_else(|| SpecError::config(format!("{what} {value} must be between 0 and {ID_MAX}, inclusive")))
}

/// Refuses a container that must not be root and is, or may be.
fn check_non_root(
    view: &PodView<'_>,
    container: &Container,
    user: Option<i64>,
    image_user: &str,
) -> Result<(), SpecError> {
    let end = format!("(pod: {:?}, container: {})", view.long_name(), container.name);
    if let Some(user) = user {
        return match user {
            0 => Err(SpecError::config(format!("container's runAsUser breaks non-root policy {end}"))),
            _ => Ok(()),
        };
    }
    let name = image_user.split(':').next().unwrap_or_default();
    let root = "container has runAsNonRoot and image will run as root";
    match name.parse::<i64>() {
        Ok(0) => Err(SpecError::config(format!("{root} {end}"))),
        Ok(uid) if !(0..=ID_MAX).contains(&uid) => Err(SpecError::config(format!(
            "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({ID_MAX})): \
             must be between 0 and {ID_MAX}, inclusive {end}"
        ))),
        Ok(_) => Ok(()),
        Err(_) if name.is_empty() => Err(SpecError::config(format!("{root} {end}"))),
        Err(_) => Err(SpecError::config(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), \
             cannot verify user is non-root {end}"
        ))),
    }
}
