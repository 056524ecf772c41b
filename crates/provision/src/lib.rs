//! What the containers of a pod are given: environment, files, identity and limits.
//!
//! **Invariant.** A container gets what its pod asks for, or the pod says what is missing; nothing is left out in silence. No path
//! that a pod names leads out of its own directory. It must never know which runtime runs the container.
