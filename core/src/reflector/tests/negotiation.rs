//! Formats: what is requested, what is read, and what follows from a refusal.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::convert::Infallible;

#[cfg(feature = "prost")]
use super::harness::status;
use super::harness::{ms, pods, secs};
#[cfg(feature = "prost")]
use crate::decode::Proto;
use crate::decode::{Decode, Decoder, FromProtobuf, Meta, Raw};
use crate::reflector::{Frame, ReflectorConfig};
use crate::transport::{End, Head};
use crate::wire::protobuf::Message;
use crate::wire::protobuf::tests::{bytes, enveloped, event_of, int, list_of, pod};
use crate::{
    Heap, Inline, Instant, Notification, Output, PolledInformer, RawObject, Reflector, RequestId,
    Resource,
};

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A reflector, and what it did.
struct World {
    reflector: Reflector<Resource<'static>, Heap>,
    now: Instant,
    reports: Vec<String>,
}

impl World {
    fn new<D: Decode>(decoder: &D) -> Self {
        Self::with_config(decoder, ReflectorConfig::list())
    }

    fn with_config<D: Decode>(decoder: &D, config: ReflectorConfig) -> Self {
        Self {
            reflector: Reflector::new(pods(), config, 7).with_decoder(decoder),
            now: Instant::from_micros(0),
            reports: Vec::new(),
        }
    }

    /// Returns the next request that is sent within `wait`, and its `Accept` header.
    fn request(&mut self, wait: core::time::Duration) -> Option<(RequestId, &'static str)> {
        let until = self.now + wait;
        loop {
            match self.reflector.poll_output(self.now) {
                Output::Send(request) => return Some((request.id(), request.accept())),
                Output::Report(report) => self.reports.push(report.to_string()),
                Output::Cancel(_) => {}
                Output::Wait(deadline) if self.now < until => {
                    self.now = deadline.map_or(until, |at| at.min(until)).max(self.now);
                }
                Output::Wait(_) => return None,
            }
        }
    }

    fn answer(&mut self, id: RequestId, head: Head, body: &[u8]) -> Vec<String> {
        self.reflector.handle_head(self.now, id, head);
        let mut found = Vec::new();
        let mut input = body;
        while let Some(frame) = self.reflector.next_frame(self.now, id, &mut input) {
            match frame {
                Frame::Object(object) => found.push(object.key.to_string()),
                Frame::Complete { version } => found.push(format!("complete {version}")),
                Frame::Report(report) => found.push(report.to_string()),
                Frame::Begin | Frame::Bookmark { .. } | Frame::Internal => {}
            }
        }
        if !head
            .format
            .is_some_and(|_| head.status == 200 && body.first() == Some(&0))
        {
            self.reflector.handle_end(self.now, id, End::Clean);
        }
        found
    }
}

fn head(status: u16, content_type: &str) -> Head {
    Head::new(status).with_content_type(content_type)
}

fn error_in_protobuf(code: u64, reason: &str) -> Vec<u8> {
    let message = [bytes(3, "because"), bytes(4, reason), int(6, code)].concat();
    enveloped("Status", &message)
}

#[test]
fn a_refused_format_is_not_requested_again() {
    let parameter = ";drop=metadata.managedFields";
    let pruned = format!("{PROTOBUF}{parameter},application/json{parameter}");
    let both = format!("{PROTOBUF},application/json");
    let raw = Decoder::<Raw>::new().protobuf();
    for (statuses, drops, expected) in [
        (
            vec![406, 406],
            false,
            vec![both.as_str(), "application/json"],
        ),
        (vec![415, 404], false, vec![&both, "application/json"]),
        // Without the parameter, and then without protobuf.
        (
            vec![406, 406, 406],
            true,
            vec![&pruned, &both, "application/json"],
        ),
        (vec![400, 400], true, vec![&pruned, &both]),
        (vec![400], false, vec![&both]),
        (vec![403], true, vec![&pruned]),
    ] {
        let mut w = World::with_config(
            &raw,
            ReflectorConfig {
                skip_managed_fields: drops,
                ..ReflectorConfig::list()
            },
        );
        for (at, status) in statuses.iter().enumerate() {
            let (id, accept) = w.request(ms(0)).unwrap();
            assert_eq!(accept, expected[at], "{statuses:?}");
            let body = error_in_protobuf(u64::from(*status), "Refused");
            w.answer(id, head(*status, PROTOBUF), &body);
        }
        assert_eq!(w.request(ms(0)), None, "{statuses:?}: it waits after these");
        assert!(
            w.reports.last().unwrap().contains("because"),
            "{:?}",
            w.reports
        );
        let (_, accept) = w.request(secs(60)).unwrap();
        assert_eq!(accept, *expected.last().unwrap(), "it is remembered");
    }
}

#[test]
fn the_content_type_decides_and_may_change_between_list_and_watch() {
    for stated in [true, false] {
        let mut w = World::new(&Decoder::<Raw>::new().protobuf());
        let head_of = |content_type| {
            if stated {
                head(200, content_type)
            } else {
                Head::new(200)
            }
        };
        let (id, _) = w.request(ms(0)).unwrap();
        let json = r#"{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a"}}]}"#;
        let found = w.answer(id, head_of("application/json"), json.as_bytes());
        assert_eq!(found, ["a", "complete 7"]);
        let (id, accept) = w.request(ms(0)).unwrap();
        assert!(accept.starts_with(PROTOBUF));
        let event = event_of("ADDED", &enveloped("Pod", &pod("b", "8")));
        let found = w.answer(
            id,
            head_of("application/vnd.kubernetes.protobuf;stream=watch"),
            &event,
        );
        assert_eq!(found, ["shop/b"]);
        assert_eq!(w.reflector.version().to_string(), "8");
        // Another kind is reported.
        let event = event_of("ADDED", &enveloped("Service", &pod("c", "9")));
        let mut input = &event[..];
        if stated {
            let frame = w.reflector.next_frame(w.now, id, &mut input);
            assert!(matches!(frame, Some(Frame::Report(_))), "{frame:?}");
        }
    }
}

#[test]
fn a_list_in_protobuf_has_pages_and_a_version() {
    let mut w = World::new(&Decoder::<Meta>::new());
    let (id, accept) = w.request(ms(0)).unwrap();
    assert_eq!(
        accept,
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,\
         application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1;drop=metadata.managedFields,application/json"
    );
    let page = list_of(&[pod("a", "5")]);
    assert_eq!(w.answer(id, head(200, PROTOBUF), &page), ["shop/a"]);
    let (id, _) = w.request(ms(0)).unwrap();
    let last = bytes(1, bytes(2, "77"));
    let last = enveloped("PodList", &[last, bytes(2, pod("b", "6"))].concat());
    let found = w.answer(id, head(200, PROTOBUF), &last);
    assert_eq!(found, ["shop/b", "complete 77"]);
}

#[test]
fn an_answer_that_cannot_be_read_fails_once_with_a_report() {
    let pods = list_of(&[pod("a", "5")]);
    let error = enveloped("Status", &bytes(2, "Failure"));
    let json = Decoder::<Raw>::new();
    let either = Decoder::<Raw>::new().protobuf();
    for (decoder, content_type, body, expected) in [
        (
            &json,
            PROTOBUF,
            &pods[..],
            "protobuf, which was not requested",
        ),
        (&json, "", &pods, "protobuf, which was not requested"),
        (&either, "text/html", b"<html>", "not JSON"),
        (&either, PROTOBUF, b"{}", "not Kubernetes protobuf"),
        (&either, PROTOBUF, &error, "not a list"),
        (&either, PROTOBUF, &pods[..40], "cut off"),
    ] {
        let mut w = World::new(decoder);
        let (id, _) = w.request(ms(0)).unwrap();
        let head = match content_type {
            "" => Head::new(200),
            _ => head(200, content_type),
        };
        let found = w.answer(id, head, body);
        assert!(
            !found.iter().any(|it| it.starts_with("complete")),
            "{found:?}"
        );
        assert_eq!(w.request(ms(0)), None, "{expected}: it waits");
        assert!(w.reports[0].contains(expected), "{:?}", w.reports);
        assert_eq!(w.reports.len(), 1, "{:?}", w.reports);
    }
}

#[cfg(feature = "prost")]
#[test]
fn a_decoder_of_protobuf_alone_is_not_offered_json() {
    #[derive(Clone, PartialEq, prost::Message)]
    struct Pod {}

    let mut w = World::new(&Decoder::<Proto<Pod>>::new());
    let (id, accept) = w.request(ms(0)).unwrap();
    assert_eq!(accept, PROTOBUF);
    let refusal = status(406, "NotAcceptable");
    w.answer(id, head(406, "application/json"), refusal.as_bytes());
    assert_eq!(w.request(ms(0)), None, "there is nothing simpler");
    let (id, accept) = w.request(secs(60)).unwrap();
    assert_eq!(accept, PROTOBUF);
    w.answer(id, head(200, "application/json"), b"{}");
    assert_eq!(w.request(ms(0)), None);
    let last = w.reports.last().unwrap();
    assert!(last.contains("the decoder reads no other"), "{last}");
}

/// Without an allocator, at every split: a list, then a watch.
#[test]
fn a_closure_reads_fields_into_fixed_storage() {
    let is_running = FromProtobuf(|_: &RawObject<'_>, pod: Message<'_>| {
        Ok::<_, Infallible>(pod.text(&[3, 1]) == Some("Running"))
    });
    let now = Instant::from_micros(0);
    let config = ReflectorConfig::list();
    let mut informer: PolledInformer<_, _, Inline<4, 64, 1024>> =
        PolledInformer::new(pods(), is_running, config, 1);
    let last = bytes(1, bytes(2, "77"));
    let list = enveloped("PodList", &[last, bytes(2, pod("a", "5"))].concat());
    let watch = event_of("DELETED", &enveloped("Pod", &pod("a", "78")));
    for body in [&list, &watch] {
        let Output::Send(request) = informer.poll_output(now) else {
            panic!("no request");
        };
        assert_eq!(request.accept(), PROTOBUF);
        let id = request.id();
        informer.handle_head(now, id, Head::new(200));
        for byte in body {
            let taken = informer.handle_data(now, id, &[*byte], &mut |report| panic!("{report}"));
            assert_eq!(taken, 1);
        }
        if *body == list {
            let Some(Notification::Added { entry, .. }) = informer.pop() else {
                panic!("not added");
            };
            assert!(*entry.1.value());
            assert!(matches!(informer.pop(), Some(Notification::Synced)));
            informer.handle_end(now, id, End::Clean);
        }
    }
    assert!(matches!(informer.pop(), Some(Notification::Deleted { .. })));
    assert_eq!(informer.cache().len(), 0);
}

#[test]
fn client_go_mode_requests_what_client_go_does() {
    let config = ReflectorConfig {
        client_go: true,
        ..ReflectorConfig::list()
    };
    let decoder = Decoder::<Raw>::new().protobuf();
    let (_, accept) = World::with_config(&decoder, config.clone())
        .request(ms(0))
        .unwrap();
    assert_eq!(accept, "application/json");
    let (_, accept) = World::with_config(&Decoder::<Meta>::new(), config)
        .request(ms(0))
        .unwrap();
    assert_eq!(
        accept,
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    );
}
