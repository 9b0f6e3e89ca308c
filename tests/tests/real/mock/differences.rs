//! The expected differences.

/// A difference with its reason.
pub(super) struct Expected {
    /// The names of the requests; `*` stands for any text.
    pub(super) requests: &'static str,
    /// The place in the answer, likewise.
    pub(super) place: &'static str,
    /// What differs, for readers.
    pub(super) what: &'static str,
    /// Why.
    pub(super) reason: &'static str,
}

impl Expected {
    /// Returns whether it covers a difference.
    pub(super) fn covers(&self, request: &str, place: &str) -> bool {
        self.requests
            .split(' ')
            .any(|pattern| matches(pattern, request))
            && self.place.split(' ').any(|pattern| matches(pattern, place))
    }

    /// Returns whether it applies to every answer. Such a difference does not count against a single answer.
    pub(super) fn is_everywhere(&self) -> bool {
        self.requests == "*"
    }
}

/// Compares a text with a pattern.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|text| {
            (0..=text.len())
                .filter(|at| text.is_char_boundary(*at))
                .any(|at| matches(rest, &text[at..]))
        }),
    }
}

macro_rules! expected {
    ($($requests:literal $place:literal $what:literal $reason:literal,)*) => {
        &[$(Expected { requests: $requests, place: $place, what: $what, reason: $reason },)*]
    };
}

/// All of them. The first that covers a difference counts.
pub(super) const EXPECTED: &[Expected] = expected! {
    "*" "header.audit-id header.x-kubernetes-pf* header.cache-control header.x-content-type-options" "every answer: headers about the server" "Clients of the API do not read them",
    "*" "header.warning" "every answer: warnings" "The mock sends none",
    "*" "*.managedFields *.f:imagePullPolicy *.f:resources *.f:terminationMessage* *.f:dnsPolicy *.f:enableServiceLinks *.f:restartPolicy *.f:schedulerName *.f:securityContext *.f:terminationGracePeriodSeconds *.f:progressDeadlineSeconds *.f:revisionHistoryLimit *.f:strategy *.f:protocol *.f:lastTransitionTime *.f:lastUpdateTime *.f:backoffLimit *.f:completionMode *.f:completions *.f:manualSelector *.f:parallelism *.f:podReplacementPolicy *.f:suspend *.f:kubernetes.io/metadata.name" "every answer: `managedFields` of fields that were not given" "The mock has no defaults, so nobody owns them",
    "*" "members" "every answer: the order of the members after `metadata`" "The mock sorts them by name; those of a list, of an event and of a refusal have the server's order",
    "*" "*.imagePullPolicy *.resources *.terminationMessage* *.dnsPolicy *.enableServiceLinks *.preemptionPolicy *.priority *.schedulerName *.securityContext *.terminationGracePeriodSeconds *.tolerations *.qosClass *.restartPolicy *.taints *.spec *.status *.labels.kubernetes.io/metadata.name *.progressDeadlineSeconds *.revisionHistoryLimit *.strategy *.protocol *.lastTransitionTime *.lastUpdateTime *.backoffLimit *.completionMode *.completions *.manualSelector *.parallelism *.podReplacementPolicy *.suspend" "every answer: fields of built-in kinds that were not given" "The mock has no defaults and no built-in admission",
    "*" "*.metadata.continue" "every answer: an empty `continue` of a custom resource" "The mock omits it; both mean that there is no further page",
    "*" "*.object.metadata.creationTimestamp" "every answer: an empty `creationTimestamp` in a bookmark" "The mock writes it as older servers do",
    "get-later get-bad*" "answer" "GET of one object at a version" "The mock ignores the version of a GET",
    "get-table* list-table" "answer" "tables" "The mock serves objects and their metadata only",
    "get-yaml" "answer" "YAML" "The mock serves JSON and protobuf only",
    "list-metadata-beta" "answer" "metadata in the version v1beta1" "The mock serves v1 only",
    "get-some" "answer" "`Accept: application/*`" "The mock takes it for JSON, as most servers of HTTP do",
    "get-html get-cbor get-unknown-as get-metadata-list list-html list-metadata-one watch-html watch-table-or-none get-protobuf discovery-html* pb-get-custom pb-list-other-stream pb-list-custom pb-list-metadata-one pb-list-table pw-custom" "body.message body.details" "the message of a 406" "The mock has one message, which names the types that it serves",
    "no-version* no-group* no-path[/nothing] discovery-none* slash[//*" "answer" "a group or a path that is not there" "The server answers with a Status, or in plain text; the mock in plain text",
    "openapi" "answer" "the OpenAPI schema" "The mock has none",
    "discovery-all*" "header.etag header.vary" "headers of aggregated discovery" "The mock has no conditional requests",
    "no-path[/apis/] discovery-groups discovery-core discovery-some* discovery-all*" "body.groups* body.resources* body.items*" "discovery of what the mock does not have" "The mock has the common built-in resources; those that it has follow in the same order",
    "discovery-resources* discovery-custom* crd-discovered*" "body.resources*" "`storageVersionHash`, and the order of custom resources" "Only migrations of the storage use it; the mock sorts by name",
    "version" "body.*" "the details of `/version`" "The mock has the version only",
    "slash[/api*" "answer" "a path with a slash at its end" "No client of the API sends it",
    "post-status delete-status" "body.message body.details*" "the message of a 405 of a subresource" "The mock has one message for all",
    "list-match* list-initial-matched page-matched* watch-match* watch-initial-match*" "body.message body.details*" "list options with several faults" "The mock names the first fault",
    "page-bad*" "body.message" "the message for an invalid `continue`" "The mock has one message",
    "label-bad* watch-selector" "body.message" "the message for an invalid label selector" "The mock shows that of `informer-core`",
    "field-bad*" "body.message" "the message for an invalid field selector" "The mock quotes the selector",
    "field-pod[*" "body* answer" "field selectors of defaults" "The mock has no defaults",
    "watch-bad*" "answer" "a watch at a version that is no number" "The mock answers 400, as to a list",
    "create-accept create-metadata" "answer" "`Accept` of a write" "The mock answers with the whole object",
    "create-media strategic-custom patch-media patch-html json-patch-test json-patch-remove" "body.message body.details" "the message of a 415 or 422" "The mock names no media types",
    "create-* put-unread merge-unread merge-list json-patch-bad delete-bad" "body.message" "the message for a body that cannot be read" "The mock shows that of serde_json",
    "delete-pod*" "answer" "deletion of Pods" "The server answers with the Pod, and keeps one that is bound to a Node for its grace period. `Config::deletes` selects the answer of the mock, and `Config::graceful_pods` keeps the Pod",
    "smp-mistyped" "answer" "a strategic merge patch of the wrong type" "The mock refuses the object that results",
    "schema-status" "body*" "the message for a status that does not follow its schema" "The mock names the field as in the whole object, and the fields of the scale subresource only once",
    "prop-job*" "body*" "the labels of a Job" "The mock has no defaults",
    "crd crd-*" "*.managedFields*" "`managedFields` of a CustomResourceDefinition" "The mock does not know its structure, so its lists have no keys",
    "event-*" "*.deprecatedFirstTimestamp *.deprecatedLastTimestamp *.deprecatedSource *.eventTime *.firstTimestamp *.lastTimestamp *.source *.reportingComponent *.reportingInstance" "empty fields of an Event" "The mock stores what is given",
    "priority class driver fixed-* evict-none-left evict-running evict-unready-status evict-after* kinds-protobuf*" "*.managedFields*" "`managedFields` of defaults" "The mock has no defaults",
    "policy class driver fixed-* bind-after evict-running evict-unready-status kinds-protobuf*" "body.spec* body.reclaimPolicy body.volumeBindingMode body.metadata.annotations body.metadata.labels body.metadata.finalizers body.status.phase body.status.conditions*" "defaults of more kinds, and what admission adds" "The mock has no defaults",
    "fixed-pod-node fixed-claim-mode fixed-job-template" "body.message body.details*" "the value in the message for a field that cannot change" "The server shows the difference, or its internal form of the object",
    "container-log" "answer" "what needs containers" "The mock has none",
    "no-user no-right" "answer" "users and their rights" "The mock has none; `Fault::api_status` answers 401 and 403",
};
