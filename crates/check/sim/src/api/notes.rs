//! The parts of a claim that only its controller needs: its finalizer and its annotations.

use std::sync::Arc;

use hashbrown::HashMap;
use lazaret_claims::{FINALIZER, SeenClaim};
use lazaret_model::{ResourceClaim, Text, Uid};
use rustc_hash::FxBuildHasher;

use super::{Api, Refused};

/// The metadata of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimNotes {
    /// It has the finalizer that keeps it while it is allocated.
    pub(crate) is_protected: bool,
    /// The entry of the pod that it was made for.
    pub(crate) entry: Option<Text>,
    /// The nodes that it waits for.
    pub(crate) awaiting: Option<Text>,
}

/// By incarnation of a claim: metadata, each with the place in the log from which on it is so.
#[derive(Clone, Debug, Default)]
pub(super) struct Notes(HashMap<Uid, Vec<(usize, ClaimNotes)>, FxBuildHasher>);

impl ClaimNotes {
    /// Those of a claim that was made at the start, or for an extended resource: its name says for which entry.
    fn of_old(claim: &ResourceClaim) -> Self {
        let of_pod = claim.owner.as_ref().filter(|owner| owner.kind == "Pod");
        let entry = of_pod.filter(|_| !claim.extended_resource).and_then(|owner| {
            let rest = claim.key.name.strip_prefix(owner.name.as_str())?;
            Some(Text::from(rest.strip_prefix('-')?))
        });
        let is_protected = of_pod.is_some() || claim.allocation.is_some();
        Self { is_protected, entry, awaiting: None }
    }
}

impl Api {
    /// The metadata of a claim as it is stored now.
    pub(crate) fn notes_of(&self, claim: &ResourceClaim) -> ClaimNotes {
        self.notes_at(claim, usize::MAX)
    }

    fn notes_at(&self, claim: &ResourceClaim, place: usize) -> ClaimNotes {
        let all = self.notes.0.get(&claim.uid).map_or(&[][..], Vec::as_slice);
        let found = all.iter().rev().find(|(since, _)| *since <= place);
        found.map_or_else(|| ClaimNotes::of_old(claim), |(_, notes)| notes.clone())
    }

    /// Writes a claim with its metadata, made or not, whatever its version. Gives the new one.
    pub(crate) fn put_claim(&mut self, claim: ResourceClaim, notes: ClaimNotes) -> u64 {
        let place = self.claims.log().len();
        self.notes.0.entry(claim.uid.clone()).or_default().push((place, notes));
        self.claims.put(&mut self.versions, claim)
    }

    /// Writes a claim that is given devices, if its stored version is still `expected`. It has the finalizer from then on.
    pub(crate) fn allocate(&mut self, expected: u64, claim: ResourceClaim) -> Result<u64, Refused> {
        let stored = self.claims.get(&claim.key).ok_or(Refused::NotFound)?;
        if stored.version != expected {
            return Err(Refused::Conflict);
        }
        let notes = ClaimNotes { is_protected: true, ..self.notes_of(&claim) };
        Ok(self.put_claim(claim, notes))
    }

    /// The claim that was written at this place of the log; `None`: it was removed.
    pub(crate) fn seen_claim(&self, place: usize) -> Option<SeenClaim> {
        let logged = &self.claims.log()[place];
        let claim = logged.object.as_ref()?;
        let ClaimNotes { is_protected, entry, awaiting } = self.notes_at(claim, place);
        Some(SeenClaim {
            claim: Arc::clone(claim),
            version: logged.version.to_string().into(),
            finalizers: is_protected.then(|| FINALIZER.into()).into_iter().collect(),
            entry,
            awaiting,
        })
    }
}
