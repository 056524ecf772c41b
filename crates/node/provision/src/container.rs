//! The spec of a container.

use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use lazaret_containers::{ContainerSpec, Key, RootFs};
use lazaret_images::Image;

use crate::{
    ContainerInputs, SpecError, amount,
    environment::{self, BYTES_MAX, Variables},
    expand::expand,
    hostname, identity, limits, mounts,
    pod::PodView,
    sandbox, security,
};

/// Where programs are looked for when neither the image nor the pod says.
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Describes a container of a pod.
///
/// # Errors
/// When the pod asks for something that is not there or not allowed, in Kubernetes' words.
pub fn container_spec(
    pod: &Pod,
    name: &str,
    attempt: u32,
    image: &Image,
    inputs: &ContainerInputs<'_>,
) -> Result<ContainerSpec, SpecError> {
    let view = PodView::new(pod)?;
    amount::check(view.spec)?;
    let container = view.container(name)?;
    let variables = environment::of_container(&view, &container, inputs)?;
    let security = security::of_container(&view, &container, inputs.facts)?;
    let mounts = mounts::of_container(&container, &variables, &security, inputs)?;
    let (identity, home) = identity::of_container(&view, &container, image, inputs.disk)?;
    let command = command(&container, image, &variables)?;
    let hostname = if view.is_host_network() {
        inputs.facts.node_name.clone()
    } else {
        hostname::for_kernel(&view, &hostname::of_pod(&view, &inputs.facts.cluster_domain)?)?
    };
    let tty = container.tty.unwrap_or(false);
    let mut labels = sandbox::labels(&view);
    labels.insert("io.kubernetes.container.name".to_owned(), name.to_owned());
    let stop_signal = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.stop_signal.clone());
    Ok(ContainerSpec {
        key: Key { pod_uid: view.uid.to_owned(), name: name.to_owned(), attempt },
        root: RootFs::Layers(image.layers.clone()),
        command,
        env: lines(image, variables, &hostname, &home, tty),
        working_directory: working_directory(&container, image),
        mounts,
        cdi_devices: inputs.cdi_devices.to_vec(),
        identity,
        security,
        limits: limits::of_container(&view, &container, inputs.facts),
        tty,
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        stop_signal: stop_signal.or_else(|| image.config.stop_signal.clone()),
        image: container.image.clone().unwrap_or_default(),
        image_id: image.id.clone(),
        labels,
    })
}

/// The program and its arguments: a command of the pod replaces both of the image's, arguments of the pod those of the image.
fn command(container: &Container, image: &Image, variables: &Variables) -> Result<Vec<String>, SpecError> {
    let mut left = BYTES_MAX;
    let mut expanded = |words: &Option<Vec<String>>| -> Result<Vec<String>, SpecError> {
        let mut result = Vec::new();
        for word in words.iter().flatten() {
            let word = expand(word, left, |name| variables.get(name).cloned())
                .map_err(|_| SpecError::config(format!("the command is longer than {BYTES_MAX} bytes")))?;
            if word.contains('\0') {
                return Err(SpecError::config("the command contains a NUL byte"));
            }
            left -= word.len();
            result.push(word);
        }
        Ok(result)
    };
    let (mut command, mut arguments) = (expanded(&container.command)?, expanded(&container.args)?);
    if command.is_empty() {
        if arguments.is_empty() {
            arguments.clone_from(&image.config.command);
        }
        command.clone_from(&image.config.entrypoint);
        if command == [""] {
            command.clear();
        }
    }
    command.append(&mut arguments);
    if command.is_empty() {
        return Err(SpecError::create("no command specified"));
    }
    Ok(command)
}

/// The variables of every container, then the image's, then the pod's. Later ones win.
fn lines(image: &Image, variables: Variables, hostname: &str, home: &str, tty: bool) -> Vec<String> {
    let mut lines = vec![format!("HOSTNAME={hostname}")];
    if tty {
        lines.push("TERM=xterm".to_owned());
    }
    let is_named = |line: &str, name: &str| line.split('=').next() == Some(name);
    let has = |name: &str| {
        variables.get(name).is_some() || image.config.env.iter().any(|line| is_named(line, name))
    };
    if !has("PATH") {
        lines.push(format!("PATH={PATH_DEFAULT}"));
    }
    if !home.is_empty() && !has("HOME") {
        lines.push(format!("HOME={home}"));
    }
    lines.extend(image.config.env.iter().cloned());
    lines.retain(|line| line.split('=').next().is_some_and(|name| variables.get(name).is_none()));
    lines.extend(variables.into_lines());
    lines
}

fn working_directory(container: &Container, image: &Image) -> PathBuf {
    let own = container.working_dir.as_deref().filter(|path| !path.is_empty());
    Path::new("/").join(own.unwrap_or(&image.config.working_directory))
}
