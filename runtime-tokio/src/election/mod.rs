//! Replicas of one program: a leader among them, or replicas that share the work.

mod clock;
mod leader;
mod replica;

pub use {
    informer_core::{
        election::{ElectionConfig, ElectionError, LeaseRecord, Written, rendezvous},
        resource::{Shard, ShardBy},
    },
    leader::{Election, Leadership, LeaseClient},
    replica::{MembersClient, Replica, ReplicaWork},
};
