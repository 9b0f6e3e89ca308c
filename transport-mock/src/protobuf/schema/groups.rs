//! Messages of the other groups.

use super::core::{
    OBJECT_REFERENCE, PERSISTENT_VOLUME_CLAIM, POD_TEMPLATE_SPEC, TOPOLOGY_SELECTOR_TERM,
    TYPED_LOCAL_OBJECT_REFERENCE,
};
use super::meta::{LABEL_SELECTOR, OBJECT_META};
use super::{BOOL, INT, INT_OR_STRING, MICRO_TIME, TEXT, TIME};

messages! {
    DAEMON_SET = metadata 1 OBJECT_META, spec 2 DAEMON_SET_SPEC, status 3 DAEMON_SET_STATUS;
    DAEMON_SET_CONDITION = type 1 TEXT, status 2 TEXT, lastTransitionTime 3 TIME, reason 4 TEXT, message 5 TEXT;
    DAEMON_SET_SPEC = selector 1 (LABEL_SELECTOR), template 2 POD_TEMPLATE_SPEC,
        updateStrategy 3 DAEMON_SET_UPDATE_STRATEGY, minReadySeconds 4 INT, revisionHistoryLimit 6 (INT);
    DAEMON_SET_STATUS = currentNumberScheduled 1 INT, numberMisscheduled 2 INT, desiredNumberScheduled 3 INT,
        numberReady 4 INT, observedGeneration 5 INT, updatedNumberScheduled 6 INT, numberAvailable 7 INT,
        numberUnavailable 8 INT, collisionCount 9 (INT), conditions 10 [DAEMON_SET_CONDITION];
    DAEMON_SET_UPDATE_STRATEGY = type 1 TEXT, rollingUpdate 2 (ROLLING_UPDATE_DAEMON_SET);
    DEPLOYMENT = metadata 1 OBJECT_META, spec 2 DEPLOYMENT_SPEC, status 3 DEPLOYMENT_STATUS;
    DEPLOYMENT_CONDITION = type 1 TEXT, status 2 TEXT, reason 4 TEXT, message 5 TEXT, lastUpdateTime 6 TIME,
        lastTransitionTime 7 TIME;
    DEPLOYMENT_SPEC = replicas 1 (INT), selector 2 (LABEL_SELECTOR), template 3 POD_TEMPLATE_SPEC,
        strategy 4 DEPLOYMENT_STRATEGY, minReadySeconds 5 INT, revisionHistoryLimit 6 (INT), paused 7 BOOL,
        progressDeadlineSeconds 9 (INT);
    DEPLOYMENT_STATUS = observedGeneration 1 INT, replicas 2 INT, updatedReplicas 3 INT, availableReplicas 4 INT,
        unavailableReplicas 5 INT, conditions 6 [DEPLOYMENT_CONDITION], readyReplicas 7 INT, collisionCount 8 (INT),
        terminatingReplicas 9 (INT);
    DEPLOYMENT_STRATEGY = type 1 TEXT, rollingUpdate 2 (ROLLING_UPDATE_DEPLOYMENT);
    REPLICA_SET = metadata 1 OBJECT_META, spec 2 REPLICA_SET_SPEC, status 3 REPLICA_SET_STATUS;
    REPLICA_SET_CONDITION = type 1 TEXT, status 2 TEXT, lastTransitionTime 3 TIME, reason 4 TEXT, message 5 TEXT;
    REPLICA_SET_SPEC = replicas 1 (INT), selector 2 (LABEL_SELECTOR), template 3 POD_TEMPLATE_SPEC,
        minReadySeconds 4 INT;
    REPLICA_SET_STATUS = replicas 1 INT, fullyLabeledReplicas 2 INT, observedGeneration 3 INT, readyReplicas 4 INT,
        availableReplicas 5 INT, conditions 6 [REPLICA_SET_CONDITION], terminatingReplicas 7 (INT);
    ROLLING_UPDATE_DAEMON_SET = maxUnavailable 1 (INT_OR_STRING), maxSurge 2 (INT_OR_STRING);
    ROLLING_UPDATE_DEPLOYMENT = maxUnavailable 1 (INT_OR_STRING), maxSurge 2 (INT_OR_STRING);
    ROLLING_UPDATE_STATEFUL_SET_STRATEGY = partition 1 (INT), maxUnavailable 2 (INT_OR_STRING);
    STATEFUL_SET = metadata 1 OBJECT_META, spec 2 STATEFUL_SET_SPEC, status 3 STATEFUL_SET_STATUS;
    STATEFUL_SET_CONDITION = type 1 TEXT, status 2 TEXT, lastTransitionTime 3 TIME, reason 4 TEXT, message 5 TEXT;
    STATEFUL_SET_ORDINALS = start 1 INT;
    STATEFUL_SET_PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY = whenDeleted 1 TEXT, whenScaled 2 TEXT;
    STATEFUL_SET_SPEC = replicas 1 (INT), selector 2 (LABEL_SELECTOR), template 3 POD_TEMPLATE_SPEC,
        volumeClaimTemplates 4 [PERSISTENT_VOLUME_CLAIM], serviceName 5 TEXT, podManagementPolicy 6 TEXT,
        updateStrategy 7 STATEFUL_SET_UPDATE_STRATEGY, revisionHistoryLimit 8 (INT), minReadySeconds 9 INT,
        persistentVolumeClaimRetentionPolicy 10 (STATEFUL_SET_PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY),
        ordinals 11 (STATEFUL_SET_ORDINALS);
    STATEFUL_SET_STATUS = observedGeneration 1 INT, replicas 2 INT, readyReplicas 3 INT, currentReplicas 4 INT,
        updatedReplicas 5 INT, currentRevision 6 TEXT, updateRevision 7 TEXT, collisionCount 9 (INT),
        conditions 10 [STATEFUL_SET_CONDITION], availableReplicas 11 INT;
    STATEFUL_SET_UPDATE_STRATEGY = type 1 TEXT, rollingUpdate 2 (ROLLING_UPDATE_STATEFUL_SET_STRATEGY);
    CRON_JOB = metadata 1 OBJECT_META, spec 2 CRON_JOB_SPEC, status 3 CRON_JOB_STATUS;
    CRON_JOB_SPEC = schedule 1 TEXT, startingDeadlineSeconds 2 (INT), concurrencyPolicy 3 TEXT, suspend 4 (BOOL),
        jobTemplate 5 JOB_TEMPLATE_SPEC, successfulJobsHistoryLimit 6 (INT), failedJobsHistoryLimit 7 (INT),
        timeZone 8 (TEXT);
    CRON_JOB_STATUS = active 1 [OBJECT_REFERENCE], lastScheduleTime 4 (TIME), lastSuccessfulTime 5 (TIME);
    JOB = metadata 1 OBJECT_META, spec 2 JOB_SPEC, status 3 JOB_STATUS;
    JOB_CONDITION = type 1 TEXT, status 2 TEXT, lastProbeTime 3 TIME, lastTransitionTime 4 TIME, reason 5 TEXT,
        message 6 TEXT;
    JOB_SPEC = parallelism 1 (INT), completions 2 (INT), activeDeadlineSeconds 3 (INT), selector 4 (LABEL_SELECTOR),
        manualSelector 5 (BOOL), template 6 POD_TEMPLATE_SPEC, backoffLimit 7 (INT), ttlSecondsAfterFinished 8 (INT),
        completionMode 9 (TEXT), suspend 10 (BOOL), podFailurePolicy 11 (POD_FAILURE_POLICY),
        backoffLimitPerIndex 12 (INT), maxFailedIndexes 13 (INT), podReplacementPolicy 14 (TEXT), managedBy 15 (TEXT),
        successPolicy 16 (SUCCESS_POLICY);
    JOB_STATUS = conditions 1 [JOB_CONDITION], startTime 2 (TIME), completionTime 3 (TIME), active 4 INT,
        succeeded 5 INT, failed 6 INT, completedIndexes 7 TEXT, uncountedTerminatedPods 8 (UNCOUNTED_TERMINATED_PODS),
        ready 9 (INT), failedIndexes 10 (TEXT), terminating 11 (INT);
    JOB_TEMPLATE_SPEC = metadata 1 OBJECT_META, spec 2 JOB_SPEC;
    POD_FAILURE_POLICY = rules 1 [POD_FAILURE_POLICY_RULE];
    POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT = containerName 1 (TEXT), operator 2 TEXT, values 3 [INT];
    POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN = type 1 TEXT, status 2 TEXT;
    POD_FAILURE_POLICY_RULE = action 1 TEXT, onExitCodes 2 (POD_FAILURE_POLICY_ON_EXIT_CODES_REQUIREMENT),
        onPodConditions 3 [POD_FAILURE_POLICY_ON_POD_CONDITIONS_PATTERN];
    SUCCESS_POLICY = rules 1 [SUCCESS_POLICY_RULE];
    SUCCESS_POLICY_RULE = succeededIndexes 1 (TEXT), succeededCount 2 (INT);
    UNCOUNTED_TERMINATED_PODS = succeeded 1 [TEXT], failed 2 [TEXT];
    LEASE = metadata 1 OBJECT_META, spec 2 LEASE_SPEC;
    LEASE_SPEC = holderIdentity 1 (TEXT), leaseDurationSeconds 2 (INT), acquireTime 3 (MICRO_TIME),
        renewTime 4 (MICRO_TIME), leaseTransitions 5 (INT), strategy 6 (TEXT), preferredHolder 7 (TEXT);
    ENDPOINT = addresses 1 [TEXT], conditions 2 ENDPOINT_CONDITIONS, hostname 3 (TEXT), targetRef 4 (OBJECT_REFERENCE),
        deprecatedTopology 5 {TEXT}, nodeName 6 (TEXT), zone 7 (TEXT), hints 8 (ENDPOINT_HINTS);
    ENDPOINT_CONDITIONS = ready 1 (BOOL), serving 2 (BOOL), terminating 3 (BOOL);
    ENDPOINT_HINTS = forZones 1 [FOR_ZONE], forNodes 2 [FOR_NODE];
    ENDPOINT_PORT = name 1 (TEXT), protocol 2 (TEXT), port 3 (INT), appProtocol 4 (TEXT);
    ENDPOINT_SLICE = metadata 1 OBJECT_META, endpoints 2 [ENDPOINT], ports 3 [ENDPOINT_PORT], addressType 4 TEXT;
    FOR_NODE = name 1 TEXT;
    FOR_ZONE = name 1 TEXT;
    HTTP_INGRESS_PATH = path 1 TEXT, backend 2 INGRESS_BACKEND, pathType 3 (TEXT);
    HTTP_INGRESS_RULE_VALUE = paths 1 [HTTP_INGRESS_PATH];
    IP_BLOCK = cidr 1 TEXT, except 2 [TEXT];
    INGRESS = metadata 1 OBJECT_META, spec 2 INGRESS_SPEC, status 3 INGRESS_STATUS;
    INGRESS_BACKEND = resource 3 (TYPED_LOCAL_OBJECT_REFERENCE), service 4 (INGRESS_SERVICE_BACKEND);
    INGRESS_LOAD_BALANCER_INGRESS = ip 1 TEXT, hostname 2 TEXT, ports 4 [INGRESS_PORT_STATUS];
    INGRESS_LOAD_BALANCER_STATUS = ingress 1 [INGRESS_LOAD_BALANCER_INGRESS];
    INGRESS_PORT_STATUS = port 1 INT, protocol 2 TEXT, error 3 (TEXT);
    INGRESS_RULE = host 1 TEXT, inline 2 INGRESS_RULE_VALUE;
    INGRESS_RULE_VALUE = http 1 (HTTP_INGRESS_RULE_VALUE);
    INGRESS_SERVICE_BACKEND = name 1 TEXT, port 2 SERVICE_BACKEND_PORT;
    INGRESS_SPEC = defaultBackend 1 (INGRESS_BACKEND), tls 2 [INGRESS_TLS], rules 3 [INGRESS_RULE],
        ingressClassName 4 (TEXT);
    INGRESS_STATUS = loadBalancer 1 INGRESS_LOAD_BALANCER_STATUS;
    INGRESS_TLS = hosts 1 [TEXT], secretName 2 TEXT;
    NETWORK_POLICY = metadata 1 OBJECT_META, spec 2 NETWORK_POLICY_SPEC;
    NETWORK_POLICY_EGRESS_RULE = ports 1 [NETWORK_POLICY_PORT], to 2 [NETWORK_POLICY_PEER];
    NETWORK_POLICY_INGRESS_RULE = ports 1 [NETWORK_POLICY_PORT], from 2 [NETWORK_POLICY_PEER];
    NETWORK_POLICY_PEER = podSelector 1 (LABEL_SELECTOR), namespaceSelector 2 (LABEL_SELECTOR), ipBlock 3 (IP_BLOCK);
    NETWORK_POLICY_PORT = protocol 1 (TEXT), port 2 (INT_OR_STRING), endPort 3 (INT);
    NETWORK_POLICY_SPEC = podSelector 1 LABEL_SELECTOR, ingress 2 [NETWORK_POLICY_INGRESS_RULE],
        egress 3 [NETWORK_POLICY_EGRESS_RULE], policyTypes 4 [TEXT];
    SERVICE_BACKEND_PORT = name 1 TEXT, number 2 INT;
    STORAGE_CLASS = metadata 1 OBJECT_META, provisioner 2 TEXT, parameters 3 {TEXT}, reclaimPolicy 4 (TEXT),
        mountOptions 5 [TEXT], allowVolumeExpansion 6 (BOOL), volumeBindingMode 7 (TEXT),
        allowedTopologies 8 [TOPOLOGY_SELECTOR_TERM];
    POLICY_RULE = verbs 1 [TEXT], apiGroups 2 [TEXT], resources 3 [TEXT], resourceNames 4 [TEXT],
        nonResourceURLs 5 [TEXT];
    ROLE = metadata 1 OBJECT_META, rules 2 [POLICY_RULE];
}
