//! Replicas of one program: one leads, or all share the work.

mod leader;
mod replica;

pub use {
    informer_core::{
        ElectionConfig, ElectionError, LeaseRecord, Shard, ShardBy, Written, rendezvous,
    },
    leader::{Election, Leadership, LeaseClient},
    replica::{MembersClient, Replica, ReplicaWork},
};
