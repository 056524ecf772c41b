//! State that all scenarios share.

use crate::{
    args::Args,
    fleet::Fleet,
    target::{Caller, Target},
};

/// One run: its arguments, its server and its simulated nodes.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    pub(crate) args: &'a Args,
    pub(crate) target: Target,
    pub(crate) caller: Caller,
    /// The value of the label.
    pub(crate) run: String,
    pub(crate) namespace: String,
    pub(crate) fleet: Fleet,
    pub(crate) kubeconfig: Option<std::path::PathBuf>,
}
