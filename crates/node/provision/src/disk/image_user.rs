//! Users and groups of an image.

use lazaret_images::Image;

use super::sub_path;
use crate::ImageUser;

/// A file of users or groups is not larger.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Finds `USER`, `UID`, `USER:GROUP` or `UID:GID` in the files of an image. A number that is not there stands for itself.
pub(crate) fn find(image: &Image, user: &str) -> Result<ImageUser, String> {
    let passwd = file(image, "etc/passwd")?;
    let group = file(image, "etc/group")?;
    in_files(user, &passwd, &group)
}

/// The file as the topmost layer has it that has it; empty when none has.
fn file(image: &Image, path: &str) -> Result<String, String> {
    for layer in &image.layers {
        match sub_path::read(layer, path, FILE_BYTES_MAX) {
            Ok(text) => return Ok(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            // A layer that removes a file has a device in its place.
            Err(error) if error.kind() == std::io::ErrorKind::InvalidInput => return Ok(String::new()),
            Err(error) => return Err(format!("read /{path} of image {}: {error}", image.name)),
        }
    }
    Ok(String::new())
}

pub(crate) fn in_files(user: &str, passwd: &str, group: &str) -> Result<ImageUser, String> {
    let (user, wanted_group) = user.split_once(':').map_or((user, None), |(user, group)| (user, Some(group)));
    let user = if user.is_empty() { "0" } else { user };
    let number = user.parse::<u32>().ok();
    let entry = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>()).find(|fields| {
        fields.first() == Some(&user)
            || (number.is_some() && fields.get(2).and_then(|uid| uid.parse().ok()) == number)
    });
    let field = |at: usize| entry.as_ref().and_then(|fields| fields.get(at)).copied();
    let id = |at: usize| field(at).and_then(|id| id.parse::<u32>().ok());
    let Some(uid) = id(2).or(number) else {
        return Err(format!("unable to find user {user}: no matching entries in passwd file"));
    };
    let name = field(0).unwrap_or(user);
    let groups: Vec<Vec<&str>> = group.lines().map(|line| line.split(':').collect()).collect();
    let gid_of = |fields: &Vec<&str>| fields.get(2).and_then(|gid| gid.parse::<u32>().ok());
    let gid = match wanted_group.filter(|group| !group.is_empty()) {
        None => id(3).unwrap_or_default(),
        Some(wanted) => {
            let found = groups.iter().find(|fields| fields.first() == Some(&wanted)).and_then(gid_of);
            let Some(gid) = found.or_else(|| wanted.parse().ok()) else {
                return Err(format!("unable to find group {wanted}: no matching entries in group file"));
            };
            gid
        }
    };
    let lists = |fields: &&Vec<&str>| {
        fields.get(3).is_some_and(|members| members.split(',').any(|member| member == name))
    };
    let further = groups.iter().filter(lists).filter_map(gid_of).filter(|further| *further != gid);
    let home = field(5).unwrap_or_default().to_owned();
    Ok(ImageUser { uid, gid, groups: further.collect(), home })
}
