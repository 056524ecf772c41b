//! A question to an authorizer, on the way to a decision.

use lazaret_model::Text;

use crate::{
    authorization::{Decision, ResourceCheck, ServiceAccount},
    check::types::Step,
};

/// How far a check is described.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AuthorizerCheck {
    /// `authorizer`, or that of a service account.
    Authorizer(Option<ServiceAccount>),
    Path(Option<ServiceAccount>, Text),
    Group(Option<ServiceAccount>, Text),
    Resource(Option<ServiceAccount>, ResourceCheck),
    Decision(Decision),
}

impl AuthorizerCheck {
    pub(crate) const fn step(&self) -> Step {
        match self {
            Self::Authorizer(_) => Step::Authorizer,
            Self::Path(..) => Step::PathCheck,
            Self::Group(..) => Step::GroupCheck,
            Self::Resource(..) => Step::ResourceCheck,
            Self::Decision(_) => Step::Decision,
        }
    }
}
