//! The network of pods, by plugins of the Container Network Interface: a program for each, executed with a
//! configuration on its input.

use std::{
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use crate::{Options, RuntimeError};

/// The interface of a pod.
const INTERFACE: &str = "eth0";
/// Bytes of a configuration, and of a plugin's answer.
const BYTES_MAX: u64 = 1 << 20;
/// Plugins of one network.
const PLUGINS_MAX: usize = 16;
/// How long a plugin may take, in steps of 10 ms: 60 s.
const POLLS_MAX: u32 = 6_000;

/// Which pod is attached.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) uid: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// A configuration with its plugins.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    name: String,
    version: String,
    plugins: Vec<Value>,
}

/// A pod that is attached.
#[derive(Clone, Debug)]
pub(crate) struct Attachment(Value);

impl Network {
    /// The first configuration by name, as other runtimes choose it; none when there is none.
    pub(crate) fn find(options: &Options) -> Result<Option<Self>, RuntimeError> {
        let mut paths: Vec<PathBuf> = fs::read_dir(&options.cni_configurations)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .collect();
        paths.sort();
        let is_configuration = |path: &PathBuf| {
            path.extension()
                .is_some_and(|ending| ["conf", "conflist", "json"].iter().any(|known| ending == *known))
        };
        let Some(path) = paths.into_iter().find(is_configuration) else { return Ok(None) };
        let wrong = |what: &str| RuntimeError::Failed(format!("{}: {what}", path.display()));
        let value: Value = crate::layout::read(&path)?.ok_or_else(|| wrong("is gone"))?;
        let name = value["name"].as_str().ok_or_else(|| wrong("has no name"))?.to_owned();
        let version = value["cniVersion"].as_str().unwrap_or("0.4.0").to_owned();
        let plugins = match value["plugins"].as_array() {
            Some(plugins) => plugins.clone(),
            None => vec![value.clone()],
        };
        if plugins.is_empty() || plugins.len() > PLUGINS_MAX {
            return Err(wrong("has no plugins, or too many"));
        }
        Ok(Some(Self { name, version, plugins }))
    }

    /// Attaches a pod: each plugin in order, with the result of the one before. The plugins already run are undone when one fails.
    pub(crate) fn add(
        &self,
        options: &Options,
        pod: &Pod,
        namespace: &Path,
    ) -> Result<Attachment, RuntimeError> {
        let mut attached =
            AttachedPlugins { uid: &pod.uid, arguments: &pod.arguments(), plugins: Vec::new() };
        let mut previous = Value::Null;
        for plugin in &self.plugins {
            let mut configuration = self.configuration(plugin);
            attached.plugins.push(configuration.clone());
            if !previous.is_null() {
                configuration["prevResult"] = previous.clone();
            }
            let call = Call { command: "ADD", uid: attached.uid, namespace, arguments: attached.arguments };
            match call.execute(options, &configuration) {
                Ok(answer) if answer.is_object() => previous = answer,
                Ok(_) => {}
                Err(message) => {
                    attached.with(&previous).remove(options, namespace);
                    return Err(RuntimeError::Failed(format!("network of the pod: {message}")));
                }
            }
        }
        Ok(attached.with(&previous))
    }

    /// The attachment to undo when it is not known how far attaching a pod came.
    pub(crate) fn planned(&self, pod: &Pod) -> Attachment {
        let plugins = self.plugins.iter().map(|plugin| self.configuration(plugin)).collect();
        AttachedPlugins { uid: &pod.uid, arguments: &pod.arguments(), plugins }.with(&Value::Null)
    }

    fn configuration(&self, plugin: &Value) -> Value {
        let mut configuration = plugin.clone();
        configuration["name"] = json!(self.name);
        configuration["cniVersion"] = json!(self.version);
        configuration
    }
}

impl Pod {
    fn arguments(&self) -> String {
        let Self { uid, namespace, name } = self;
        format!(
            "IgnoreUnknown=1;K8S_POD_NAMESPACE={namespace};K8S_POD_NAME={name};K8S_POD_INFRA_CONTAINER_ID={uid};K8S_POD_UID={uid}"
        )
    }
}

/// Plugins that were asked to attach a pod.
struct AttachedPlugins<'a> {
    uid: &'a str,
    arguments: &'a str,
    plugins: Vec<Value>,
}

impl AttachedPlugins<'_> {
    fn with(&self, result: &Value) -> Attachment {
        let Self { uid, arguments, plugins } = self;
        Attachment(json!({"uid": uid, "arguments": arguments, "plugins": plugins, "result": result}))
    }
}

impl Attachment {
    pub(crate) fn from_value(value: Value) -> Self {
        Self(value)
    }

    pub(crate) fn into_value(self) -> Value {
        self.0
    }

    /// The addresses without the length of their network.
    pub(crate) fn ips(&self) -> Vec<String> {
        let addresses = self.0["result"]["ips"].as_array().into_iter().flatten();
        addresses.filter_map(|ip| Some(ip["address"].as_str()?.split('/').next()?.to_owned())).collect()
    }

    /// Detaches the pod, in the opposite order. A plugin that fails does not keep the pod from being removed; it is not called
    /// again, so the failure is logged.
    pub(crate) fn remove(&self, options: &Options, namespace: &Path) {
        let text = |name: &str| self.0[name].as_str().unwrap_or_default().to_owned();
        let (uid, arguments) = (text("uid"), text("arguments"));
        for plugin in self.0["plugins"].as_array().into_iter().flatten().rev() {
            let mut configuration = plugin.clone();
            if !self.0["result"].is_null() {
                configuration["prevResult"] = self.0["result"].clone();
            }
            let call = Call { command: "DEL", uid: &uid, namespace, arguments: &arguments };
            if let Err(error) = call.execute(options, &configuration) {
                tracing::warn!(%uid, %error, "detach a pod from its network");
            }
        }
    }
}

struct Call<'a> {
    command: &'a str,
    uid: &'a str,
    namespace: &'a Path,
    arguments: &'a str,
}

impl Call<'_> {
    fn execute(&self, options: &Options, configuration: &Value) -> Result<Value, String> {
        let kind = configuration["type"].as_str().ok_or("a plugin has no type")?;
        if kind.contains('/') {
            return Err(format!("{kind:?} is no name of a plugin"));
        }
        let found = options.cni_programs.iter().map(|folder| folder.join(kind)).find(|path| path.is_file());
        let program = found.ok_or_else(|| format!("plugin {kind} is not there"))?;
        let paths = std::env::join_paths(&options.cni_programs).map_err(|error| error.to_string())?;
        let mut command = Command::new(&program);
        command
            .env("CNI_COMMAND", self.command)
            .env("CNI_CONTAINERID", self.uid)
            .env("CNI_NETNS", self.namespace)
            .env("CNI_IFNAME", INTERFACE)
            .env("CNI_ARGS", self.arguments)
            .env("CNI_PATH", paths)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let output = run(command, configuration).map_err(|error| format!("plugin {kind}: {error}"))?;
        let (is_ok, bytes) = output;
        if is_ok && bytes.is_empty() {
            return Ok(Value::Null);
        }
        let answer: Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("plugin {kind}: {error}"))?;
        if is_ok {
            return Ok(answer);
        }
        let part = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
        Err(format!("plugin {kind}: {} {}", part("msg"), part("details")).trim().to_owned())
    }
}

/// Runs a plugin with a limit in time and bytes.
fn run(mut command: Command, configuration: &Value) -> std::io::Result<(bool, Vec<u8>)> {
    let mut child = command.spawn()?;
    drop(command);
    if let Some(mut stdin) = child.stdin.take() {
        // A plugin that does not read its configuration fails of itself.
        let _ = stdin.write_all(&serde_json::to_vec(configuration)?);
    }
    let stdout = child.stdout.take();
    let reader = std::thread::Builder::new().name("cni".to_owned()).spawn(move || {
        let mut bytes = Vec::new();
        let read = stdout.map(|stdout| stdout.take(BYTES_MAX).read_to_end(&mut bytes));
        read.transpose().map(|_| bytes)
    })?;
    let mut polls = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        polls += 1;
        if polls > POLLS_MAX {
            child.kill()?;
            child.wait()?;
            return Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "it took too long"));
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    let bytes = reader.join().unwrap_or_else(|_| Ok(Vec::new()))?;
    Ok((status.success(), bytes))
}
