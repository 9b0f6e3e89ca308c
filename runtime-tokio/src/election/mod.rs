//! Replicas of one program: a leader among them, or replicas that share the work.

#[cfg(feature = "requests")]
mod http_lease;
mod leader;
mod replica;

#[cfg(feature = "requests")]
pub use http_lease::HttpLease;
pub use {
    informer_core::{
        election::{ElectionConfig, ElectionError, LeaseRecord, Written, rendezvous},
        resource::{Shard, ShardBy},
    },
    leader::{Election, Leadership, LeaseClient},
    replica::{MembersClient, Replica, ReplicaWork},
};
