//! The variables of a container.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapKeySelector, Container, EnvFromSource, EnvVar, EnvVarSource, FileKeySelector, Secret,
    SecretKeySelector,
};

use crate::{
    ContainerInputs, Lookup, SpecError, downward, env_file,
    expand::{TooLong, expand},
    pod::PodView,
    services,
};

/// All variables of a container, and likewise all its arguments. Linux takes 2 MiB of both by default, and 6 MiB at most.
pub(crate) const BYTES_MAX: usize = 4 << 20;

/// Variables in the order in which they were first set.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    order: Vec<String>,
    values: BTreeMap<String, String>,
    bytes: usize,
}

impl Variables {
    pub(crate) fn get(&self, name: &str) -> Option<&String> {
        self.values.get(name)
    }

    /// Bytes left of the limit.
    fn bytes_left(&self) -> usize {
        BYTES_MAX.saturating_sub(self.bytes)
    }

    pub(crate) fn set(&mut self, name: &str, value: String) -> Result<(), SpecError> {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(SpecError::config(format!("{name:?} cannot name an environment variable")));
        }
        if value.contains('\0') {
            return Err(SpecError::config(format!("the value of {name} contains a NUL byte")));
        }
        self.bytes += name.len() + value.len() + 2;
        if self.bytes > BYTES_MAX {
            return Err(too_long(name));
        }
        if self.values.insert(name.to_owned(), value).is_none() {
            self.order.push(name.to_owned());
        }
        Ok(())
    }

    /// `NAME=VALUE` each.
    pub(crate) fn into_lines(self) -> Vec<String> {
        let Self { order, values, .. } = self;
        order.iter().map(|name| format!("{name}={}", values.get(name).map_or("", String::as_str))).collect()
    }
}

fn too_long(name: &str) -> SpecError {
    SpecError::config(format!("with {name}, the environment is longer than {BYTES_MAX} bytes"))
}

/// Works the variables of a container out: first whole objects, then single variables, which win, then Services, which do not.
pub(crate) fn of_container(
    view: &PodView<'_>,
    container: &Container,
    inputs: &ContainerInputs<'_>,
) -> Result<Variables, SpecError> {
    let links = view.spec.enable_service_links.unwrap_or(true);
    let services = services::variables(inputs.services, view.namespace, links);
    let mut variables = Variables::default();
    for source in container.env_from.iter().flatten() {
        add_object(&mut variables, source, inputs)?;
    }
    for variable in container.env.iter().flatten() {
        if let Some(value) = value(variable, &variables, &services, view, container, inputs)? {
            variables.set(&variable.name, value)?;
        }
    }
    for (name, value) in services {
        if variables.get(&name).is_none() {
            variables.set(&name, value)?;
        }
    }
    Ok(variables)
}

fn add_object(
    variables: &mut Variables,
    source: &EnvFromSource,
    inputs: &ContainerInputs<'_>,
) -> Result<(), SpecError> {
    let prefix = source.prefix.as_deref().unwrap_or_default();
    if let Some(from) = &source.config_map_ref {
        let Some(object) = find(inputs.config_maps, "configmap", &from.name, from.optional)? else {
            return Ok(());
        };
        for (key, value) in object.data.iter().flatten() {
            variables.set(&format!("{prefix}{key}"), value.clone())?;
        }
    } else if let Some(from) = &source.secret_ref {
        let Some(object) = find(inputs.secrets, "secret", &from.name, from.optional)? else { return Ok(()) };
        for (key, value) in object.data.iter().flatten() {
            variables.set(&format!("{prefix}{key}"), text(&value.0, key, &from.name)?)?;
        }
    }
    Ok(())
}

/// The value of one variable; `None` when it is optional and not there.
fn value(
    variable: &EnvVar,
    before: &Variables,
    services: &BTreeMap<String, String>,
    view: &PodView<'_>,
    container: &Container,
    inputs: &ContainerInputs<'_>,
) -> Result<Option<String>, SpecError> {
    if let Some(literal) = variable.value.as_deref().filter(|literal| !literal.is_empty()) {
        let look_up = |name: &str| before.get(name).or_else(|| services.get(name)).cloned();
        let value = expand(literal, before.bytes_left(), look_up);
        return value.map(Some).map_err(|TooLong| too_long(&variable.name));
    }
    let Some(source) = &variable.value_from else { return Ok(Some(String::new())) };
    let EnvVarSource { config_map_key_ref, field_ref, file_key_ref, resource_field_ref, secret_key_ref } =
        source;
    if let Some(selector) = field_ref {
        let value = downward::field_for_variable(selector, view, inputs.facts, inputs.pod_ips);
        value.map(Some).map_err(SpecError::config)
    } else if let Some(selector) = resource_field_ref {
        let value = downward::resource(selector, view, Some(container), inputs.facts);
        value.map(Some).map_err(SpecError::config)
    } else if let Some(selector) = config_map_key_ref {
        config_map_key(selector, view, inputs)
    } else if let Some(selector) = secret_key_ref {
        secret_key(selector, view, inputs)
    } else if let Some(selector) = file_key_ref {
        file_key(selector, inputs)
    } else {
        Ok(Some(String::new()))
    }
}

fn config_map_key(
    selector: &ConfigMapKeySelector,
    view: &PodView<'_>,
    inputs: &ContainerInputs<'_>,
) -> Result<Option<String>, SpecError> {
    let ConfigMapKeySelector { key, name, optional } = selector;
    let Some(object) = find::<ConfigMap>(inputs.config_maps, "configmap", name, *optional)? else {
        return Ok(None);
    };
    match object.data.as_ref().and_then(|data| data.get(key)) {
        Some(value) => Ok(Some(value.clone())),
        None if optional.unwrap_or(false) => Ok(None),
        None => {
            Err(SpecError::config(format!("couldn't find key {key} in ConfigMap {}/{name}", view.namespace)))
        }
    }
}

fn secret_key(
    selector: &SecretKeySelector,
    view: &PodView<'_>,
    inputs: &ContainerInputs<'_>,
) -> Result<Option<String>, SpecError> {
    let SecretKeySelector { key, name, optional } = selector;
    let Some(object) = find::<Secret>(inputs.secrets, "secret", name, *optional)? else { return Ok(None) };
    match object.data.as_ref().and_then(|data| data.get(key)) {
        Some(value) => text(&value.0, key, name).map(Some),
        None if optional.unwrap_or(false) => Ok(None),
        None => {
            Err(SpecError::config(format!("couldn't find key {key} in Secret {}/{name}", view.namespace)))
        }
    }
}

fn file_key(selector: &FileKeySelector, inputs: &ContainerInputs<'_>) -> Result<Option<String>, SpecError> {
    let FileKeySelector { key, optional, path, volume_name } = selector;
    let Some(volume) = inputs.volumes.get(volume_name) else {
        return Err(SpecError::config(format!(
            "cannot find the volume {volume_name:?} referenced by FileKeyRef"
        )));
    };
    let found = inputs.disk.read(&volume.path, path).and_then(|text| env_file::find(&text, key));
    match found.map_err(|_| SpecError::config("couldn't parse env file"))? {
        Some(value) => Ok(Some(value)),
        None if optional.unwrap_or(false) => Ok(None),
        None => {
            Err(SpecError::config(format!("environment variable key {key:?} not found in file {path:?}")))
        }
    }
}

/// An object by name; `None` when it does not exist and need not.
fn find<T>(
    objects: &Lookup<T>,
    kind: &str,
    name: &str,
    optional: Option<bool>,
) -> Result<Option<Arc<T>>, SpecError> {
    match objects.get(name) {
        Some(Ok(object)) => Ok(Some(Arc::clone(object))),
        Some(Err(message)) => Err(SpecError::config(message.clone())),
        None if optional.unwrap_or(false) => Ok(None),
        None => Err(SpecError::config(format!("{kind} {name:?} not found"))),
    }
}

/// DEVIATION(environment-text): kubelet hands bytes on that are no text.
fn text(bytes: &[u8], key: &str, name: &str) -> Result<String, SpecError> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(SpecError::config(format!(
            "key {key} in secret {name:?} is not UTF-8 and cannot be an environment variable"
        ))),
    }
}
