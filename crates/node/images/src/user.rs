//! Users of an image.

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::{Image, merged::read_file};

/// `/etc/passwd` and `/etc/group` of an image: the largest in use have some thousand lines.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Groups of one user, as Linux permits.
const GROUPS_MAX: usize = 65_536;

/// A user, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Further groups that the image's `/etc/group` gives it.
    pub groups: Vec<u32>,
}

/// Why a user was not found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UserError {
    /// The image has no such user.
    #[error("unable to find user {0}: no matching entries in passwd file")]
    NoUser(String),
    /// The image has no such group.
    #[error("unable to find group {0}: no matching entries in group file")]
    NoGroup(String),
    /// The files could not be read.
    #[error("{0}")]
    Unreadable(String),
}

/// Looks up `USER`, `UID`, `USER:GROUP` or `UID:GID` in an image. Empty is root.
///
/// A number needs no entry; it has the group 0 then.
pub fn user(image: &Image, user: &str) -> Result<User, UserError> {
    let layers: Vec<&Path> = image.layers.iter().map(PathBuf::as_path).collect();
    let read = |path: &str| {
        let content = read_file(&layers, path, FILE_BYTES_MAX)
            .map_err(|error| UserError::Unreadable(format!("read {path} of the image: {error}")))?;
        Ok(content.map(|content| String::from_utf8_lossy(&content).into_owned()).unwrap_or_default())
    };
    find(user, &read("etc/passwd")?, &read("etc/group")?)
}

fn find(user: &str, passwd: &str, group: &str) -> Result<User, UserError> {
    let (name, group_name) = match user.split_once(':') {
        Some((name, group)) => (name, Some(group).filter(|group| !group.is_empty())),
        None => (user, None),
    };
    let name = if name.is_empty() { "0" } else { name };
    let entry = passwd.lines().filter_map(UserLine::parse).find(|line| {
        // A name that is a number is one.
        name.parse() == Ok(line.uid) || line.name == name
    });
    let (uid, gid) = match (&entry, name.parse::<u32>()) {
        (Some(entry), _) => (entry.uid, entry.gid),
        (None, Ok(uid)) => (uid, 0),
        (None, Err(_)) => return Err(UserError::NoUser(name.to_owned())),
    };
    let lines = || group.lines().filter_map(GroupLine::parse);
    if let Some(group_name) = group_name {
        let found = lines().find(|line| group_name.parse() == Ok(line.gid) || line.name == group_name);
        let gid = found
            .map(|line| line.gid)
            .or_else(|| group_name.parse().ok())
            .ok_or_else(|| UserError::NoGroup(group_name.to_owned()))?;
        // With a group of its own choice a user has no others, as with runc and containerd.
        return Ok(User { uid, gid, groups: Vec::new() });
    }
    let is_member = |line: &GroupLine<'_>| {
        entry.as_ref().is_some_and(|entry| line.members.split(',').any(|member| member.trim() == entry.name))
    };
    let mut groups: Vec<u32> = lines()
        .filter(is_member)
        .map(|line| line.gid)
        .filter(|other| *other != gid)
        .take(GROUPS_MAX)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    Ok(User { uid, gid, groups })
}

struct UserLine<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
}

impl<'a> UserLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.trim().split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        let uid = fields.nth(1)?.trim().parse().ok()?;
        let gid = fields.next()?.trim().parse().ok()?;
        Some(Self { name, uid, gid })
    }
}

struct GroupLine<'a> {
    name: &'a str,
    gid: u32,
    members: &'a str,
}

impl<'a> GroupLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.trim().split(':');
        let name = fields.next().filter(|name| !name.is_empty() && !name.starts_with('#'))?;
        let gid = fields.nth(1)?.trim().parse().ok()?;
        Some(Self { name, gid, members: fields.next().unwrap_or_default() })
    }
}
