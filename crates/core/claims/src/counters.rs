//! Numbers for metrics.

/// Counts of actions since the machine began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Counters {
    /// Claims made, or found made by an earlier attempt.
    pub created: u64,
    /// Of these, with admin access.
    pub created_admin: u64,
    /// Attempts to make a claim that failed.
    pub create_failed: u64,
    /// Of these, with admin access.
    pub create_failed_admin: u64,
    /// Pods whose status was written.
    pub pods_written: u64,
    /// Claims whose reservations were changed.
    pub reservations_written: u64,
    /// Claims whose allocation was taken back.
    pub deallocated: u64,
    /// Claims deleted because their pod needs them no more.
    pub deleted: u64,
    /// Pods that were asked for because nothing was known of them.
    pub confirmed: u64,
}

/// How a claim came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// From a template.
    Template,
    /// By the scheduler, for an extended resource.
    ExtendedResource,
    /// By somebody.
    Other,
}

impl Source {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Template, Self::ExtendedResource, Self::Other];

    /// The value of the metric's label `source`.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Template => "resource_claim_template",
            Self::ExtendedResource => "extended_resource",
            Self::Other => "",
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Template => 0,
            Self::ExtendedResource => 1,
            Self::Other => 2,
        }
    }
}

/// How many claims there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Census([[[u64; 3]; 2]; 2]);

impl Census {
    /// How many claims are allocated or not, with admin access or not, and came to be in this way.
    #[must_use]
    pub fn count(&self, allocated: bool, admin_access: bool, source: Source) -> u64 {
        self.0[usize::from(allocated)][usize::from(admin_access)][source.index()]
    }

    pub(crate) fn add(&mut self, (allocated, admin, source): (bool, bool, Source)) {
        self.0[usize::from(allocated)][usize::from(admin)][source.index()] += 1;
    }

    pub(crate) fn remove(&mut self, (allocated, admin, source): (bool, bool, Source)) {
        let count = &mut self.0[usize::from(allocated)][usize::from(admin)][source.index()];
        *count = count.saturating_sub(1);
    }
}
