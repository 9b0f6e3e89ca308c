//! The audit's part in the simulation: a separate list, and the cache as the audit sees it.

use core::fmt::Write as _;

use informer_core::{
    Decoder, End, Frame, Heap, Instant, Meta, Output, OwnedResource, RawObject, Reflector,
    ReflectorConfig, ResourceVersion, Uid,
    audit::{Audit, AuditEntry},
    reflector::ObjectFrame,
};
use informer_mock::{Chunk, HeadPoll};

use super::cluster::{Cluster, State};
use super::engine::Snapshot;
use super::plan::{KEY_NAMES, Scope};

type Text = Box<str>;

/// The cache in the types of an audit.
pub struct Entries(Vec<(&'static str, Uid<Text>, ResourceVersion<Text>, bool)>);

impl Entries {
    /// Selects the entries of one source.
    #[must_use]
    pub fn of(snapshot: &Snapshot, scope: Scope) -> Self {
        let is_of =
            |slot: u8, state: State| matches!(scope, Scope::Label(_)) || scope.takes(slot, state);
        let entries = (0..).zip(KEY_NAMES.iter().zip(snapshot));
        let entries = entries.filter_map(|(slot, (key, cached))| {
            let cached = (*cached).filter(|cached| is_of(slot, cached.state))?;
            let uid = Uid::new(&cached.state.uid.to_string());
            Some((*key, uid, version(cached.state.version), cached.stale))
        });
        Self(entries.collect())
    }

    /// Iterates over the entries.
    pub fn iter(&self) -> impl Iterator<Item = AuditEntry<'_, Text>> {
        self.0
            .iter()
            .map(|(key, uid, version, is_stale)| AuditEntry {
                key,
                uid,
                version,
                is_stale: *is_stale,
            })
    }
}

/// Converts a version to the engine's type.
#[must_use]
pub fn version(number: u64) -> ResourceVersion<Text> {
    ResourceVersion::new(&number.to_string())
}

/// Lists once for an audit while time stands still. Returns whether the list reached its end. It does not if an
/// answer takes time; another attempt is due then.
pub fn list(
    cluster: &mut Cluster,
    resource: &OwnedResource,
    now: Instant,
    audit: &mut Audit<Text>,
    entries: &Entries,
) -> bool {
    let mut reflector: Reflector<_, Heap> =
        Reflector::new(resource.clone(), ReflectorConfig::default(), 1)
            .list_once()
            .with_decoder(&Decoder::<Meta>::new());
    let mut complete = false;
    while !reflector.is_stopped() {
        let (id, target, accept) = match reflector.poll_output(now) {
            Output::Send(request) => {
                let mut target = String::new();
                // Writing into a `String` does not fail.
                let _ = request.write_target(&mut target);
                (request.id(), target, request.accept())
            }
            Output::Report(_) | Output::Cancel(_) => continue,
            Output::Wait(_) | _ => return false,
        };
        let open = cluster.ask(now, &target, accept);
        let HeadPoll::Ready(head) = cluster.head(now, open) else {
            cluster.close(open);
            return false;
        };
        reflector.handle_head(now, id, head.to_head());
        loop {
            match cluster.chunk(now, open) {
                Chunk::Data(bytes) => {
                    let mut input = bytes.as_slice();
                    while let Some(frame) = reflector.next_frame(now, id, &mut input) {
                        match frame {
                            Frame::Begin => audit.begin(),
                            Frame::Object(object) => listed(audit, &object, entries),
                            Frame::Complete { version } => {
                                audit.complete(now, version);
                                complete = true;
                            }
                            Frame::Report(_) | Frame::Bookmark { .. } | Frame::Internal | _ => {}
                        }
                    }
                }
                Chunk::End => {
                    reflector.handle_end(now, id, End::Clean);
                    break;
                }
                Chunk::Abort(_) | Chunk::Pending { .. } => {
                    cluster.close(open);
                    return false;
                }
            }
        }
        cluster.close(open);
    }
    complete
}

/// The engine shows uids as numbers, so this function does too.
fn listed(audit: &mut Audit<Text>, object: &ObjectFrame<'_>, entries: &Entries) {
    let (key, raw) = (object.key, &object.raw);
    let digits: String = raw
        .uid()
        .to_string()
        .chars()
        .filter(char::is_ascii_digit)
        .collect();
    let uid = digits
        .parse::<u64>()
        .ok()
        .and_then(|uid| u32::try_from(uid).ok());
    let mut json = String::new();
    let _ = write!(
        json,
        r#"{{"metadata":{{"uid":"{}","resourceVersion":"{}"}}}}"#,
        uid.unwrap_or(0),
        raw.resource_version()
    );
    let cached = entries.iter().find(|entry| entry.key == key);
    audit.listed(key, &RawObject::parse(json.as_bytes()), cached);
}
