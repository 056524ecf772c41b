//! Tables of cases, by kind. The names of groups are those of Kubernetes' own tests where there are such.

mod claim;
mod claim_status;
mod conversion;
mod limits;
mod patch;
mod pool_status;
mod rule;
mod slice;
