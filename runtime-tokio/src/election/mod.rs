//! Replicas of one program: one leads, or all share the work.

mod leader;
mod replica;

pub use informer_core::{
    ElectionConfig, ElectionError, LeaseRecord, Shard, ShardBy, Written, rendezvous,
};

pub use leader::{Election, Leadership, LeaseClient};
pub use replica::{MembersClient, Replica, ReplicaWork};
