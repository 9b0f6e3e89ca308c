//! Messages about access, disruptions, scaling and quotas, and events in their own group.

use super::core::{
    EVENT_SERIES, EVENT_SOURCE, OBJECT_REFERENCE, PERSISTENT_VOLUME_SPEC, TOLERATION,
};
use super::groups::POLICY_RULE;
use super::meta::{CONDITION, LABEL_SELECTOR, OBJECT_META};
use super::{BOOL, FIELDS, INT, INT_OR_STRING, MICRO_TIME, QUANTITY, TEXT, TIME};

messages! {
    CONTROLLER_REVISION = metadata 1 OBJECT_META, data 2 FIELDS, revision 3 INT;
    CONTAINER_RESOURCE_METRIC_SOURCE = name 1 TEXT, target 2 METRIC_TARGET, container 3 TEXT;
    CONTAINER_RESOURCE_METRIC_STATUS = name 1 TEXT, current 2 METRIC_VALUE_STATUS, container 3 TEXT;
    CROSS_VERSION_OBJECT_REFERENCE = kind 1 TEXT, name 2 TEXT, apiVersion 3 TEXT;
    EXTERNAL_METRIC_SOURCE = metric 1 METRIC_IDENTIFIER, target 2 METRIC_TARGET;
    EXTERNAL_METRIC_STATUS = metric 1 METRIC_IDENTIFIER, current 2 METRIC_VALUE_STATUS;
    HPA_SCALING_POLICY = type 1 TEXT, value 2 INT, periodSeconds 3 INT;
    HPA_SCALING_RULES = selectPolicy 1 (TEXT), policies 2 [HPA_SCALING_POLICY], stabilizationWindowSeconds 3 (INT),
        tolerance 4 (QUANTITY);
    HORIZONTAL_POD_AUTOSCALER = metadata 1 OBJECT_META, spec 2 HORIZONTAL_POD_AUTOSCALER_SPEC,
        status 3 HORIZONTAL_POD_AUTOSCALER_STATUS;
    HORIZONTAL_POD_AUTOSCALER_BEHAVIOR = scaleUp 1 (HPA_SCALING_RULES), scaleDown 2 (HPA_SCALING_RULES);
    HORIZONTAL_POD_AUTOSCALER_CONDITION = type 1 TEXT, status 2 TEXT, lastTransitionTime 3 TIME, reason 4 TEXT,
        message 5 TEXT;
    HORIZONTAL_POD_AUTOSCALER_SPEC = scaleTargetRef 1 CROSS_VERSION_OBJECT_REFERENCE, minReplicas 2 (INT),
        maxReplicas 3 INT, metrics 4 [METRIC_SPEC], behavior 5 (HORIZONTAL_POD_AUTOSCALER_BEHAVIOR);
    HORIZONTAL_POD_AUTOSCALER_STATUS = observedGeneration 1 (INT), lastScaleTime 2 (TIME), currentReplicas 3 INT,
        desiredReplicas 4 INT, currentMetrics 5 [METRIC_STATUS], conditions 6 [HORIZONTAL_POD_AUTOSCALER_CONDITION];
    METRIC_IDENTIFIER = name 1 TEXT, selector 2 (LABEL_SELECTOR);
    METRIC_SPEC = type 1 TEXT, object 2 (OBJECT_METRIC_SOURCE), pods 3 (PODS_METRIC_SOURCE),
        resource 4 (RESOURCE_METRIC_SOURCE), external 5 (EXTERNAL_METRIC_SOURCE),
        containerResource 7 (CONTAINER_RESOURCE_METRIC_SOURCE);
    METRIC_STATUS = type 1 TEXT, object 2 (OBJECT_METRIC_STATUS), pods 3 (PODS_METRIC_STATUS),
        resource 4 (RESOURCE_METRIC_STATUS), external 5 (EXTERNAL_METRIC_STATUS),
        containerResource 7 (CONTAINER_RESOURCE_METRIC_STATUS);
    METRIC_TARGET = type 1 TEXT, value 2 (QUANTITY), averageValue 3 (QUANTITY), averageUtilization 4 (INT);
    METRIC_VALUE_STATUS = value 1 (QUANTITY), averageValue 2 (QUANTITY), averageUtilization 3 (INT);
    OBJECT_METRIC_SOURCE = describedObject 1 CROSS_VERSION_OBJECT_REFERENCE, target 2 METRIC_TARGET,
        metric 3 METRIC_IDENTIFIER;
    OBJECT_METRIC_STATUS = metric 1 METRIC_IDENTIFIER, current 2 METRIC_VALUE_STATUS,
        describedObject 3 CROSS_VERSION_OBJECT_REFERENCE;
    PODS_METRIC_SOURCE = metric 1 METRIC_IDENTIFIER, target 2 METRIC_TARGET;
    PODS_METRIC_STATUS = metric 1 METRIC_IDENTIFIER, current 2 METRIC_VALUE_STATUS;
    RESOURCE_METRIC_SOURCE = name 1 TEXT, target 2 METRIC_TARGET;
    RESOURCE_METRIC_STATUS = name 1 TEXT, current 2 METRIC_VALUE_STATUS;
    LIMIT_RANGE = metadata 1 OBJECT_META, spec 2 LIMIT_RANGE_SPEC;
    LIMIT_RANGE_ITEM = type 1 TEXT, max 2 {QUANTITY}, min 3 {QUANTITY}, default 4 {QUANTITY},
        defaultRequest 5 {QUANTITY}, maxLimitRequestRatio 6 {QUANTITY};
    LIMIT_RANGE_SPEC = limits 1 [LIMIT_RANGE_ITEM];
    RESOURCE_QUOTA = metadata 1 OBJECT_META, spec 2 RESOURCE_QUOTA_SPEC, status 3 RESOURCE_QUOTA_STATUS;
    RESOURCE_QUOTA_SPEC = hard 1 {QUANTITY}, scopes 2 [TEXT], scopeSelector 3 (SCOPE_SELECTOR);
    RESOURCE_QUOTA_STATUS = hard 1 {QUANTITY}, used 2 {QUANTITY};
    SCOPE_SELECTOR = matchExpressions 1 [SCOPED_RESOURCE_SELECTOR_REQUIREMENT];
    SCOPED_RESOURCE_SELECTOR_REQUIREMENT = scopeName 1 TEXT, operator 2 TEXT, values 3 [TEXT];
    EVENT = metadata 1 OBJECT_META, eventTime 2 MICRO_TIME, series 3 (EVENT_SERIES), reportingController 4 TEXT,
        reportingInstance 5 TEXT, action 6 TEXT, reason 7 TEXT, regarding 8 OBJECT_REFERENCE,
        related 9 (OBJECT_REFERENCE), note 10 TEXT, type 11 TEXT, deprecatedSource 12 EVENT_SOURCE,
        deprecatedFirstTimestamp 13 TIME, deprecatedLastTimestamp 14 TIME, deprecatedCount 15 INT;
    POD_DISRUPTION_BUDGET = metadata 1 OBJECT_META, spec 2 POD_DISRUPTION_BUDGET_SPEC,
        status 3 POD_DISRUPTION_BUDGET_STATUS;
    POD_DISRUPTION_BUDGET_SPEC = minAvailable 1 (INT_OR_STRING), selector 2 (LABEL_SELECTOR),
        maxUnavailable 3 (INT_OR_STRING), unhealthyPodEvictionPolicy 4 (TEXT);
    POD_DISRUPTION_BUDGET_STATUS = observedGeneration 1 INT, disruptedPods 2 {TIME}, disruptionsAllowed 3 INT,
        currentHealthy 4 INT, desiredHealthy 5 INT, expectedPods 6 INT, conditions 7 [CONDITION];
    AGGREGATION_RULE = clusterRoleSelectors 1 [LABEL_SELECTOR];
    CLUSTER_ROLE = metadata 1 OBJECT_META, rules 2 [POLICY_RULE], aggregationRule 3 (AGGREGATION_RULE);
    CLUSTER_ROLE_BINDING = metadata 1 OBJECT_META, subjects 2 [SUBJECT], roleRef 3 ROLE_REF;
    ROLE_BINDING = metadata 1 OBJECT_META, subjects 2 [SUBJECT], roleRef 3 ROLE_REF;
    ROLE_REF = apiGroup 1 TEXT, kind 2 TEXT, name 3 TEXT;
    SUBJECT = kind 1 TEXT, apiGroup 2 TEXT, name 3 TEXT, namespace 4 TEXT;
    PRIORITY_CLASS = metadata 1 OBJECT_META, value 2 INT, globalDefault 3 BOOL, description 4 TEXT,
        preemptionPolicy 5 (TEXT);
    CSI_DRIVER = metadata 1 OBJECT_META, spec 2 CSI_DRIVER_SPEC;
    CSI_DRIVER_SPEC = attachRequired 1 (BOOL), podInfoOnMount 2 (BOOL), volumeLifecycleModes 3 [TEXT],
        storageCapacity 4 (BOOL), fsGroupPolicy 5 (TEXT), tokenRequests 6 [TOKEN_REQUEST], requiresRepublish 7 (BOOL),
        seLinuxMount 8 (BOOL), nodeAllocatableUpdatePeriodSeconds 9 (INT), serviceAccountTokenInSecrets 10 (BOOL),
        preventPodSchedulingIfMissing 11 (BOOL);
    TOKEN_REQUEST = audience 1 TEXT, expirationSeconds 2 (INT);
    VOLUME_ATTACHMENT = metadata 1 OBJECT_META, spec 2 VOLUME_ATTACHMENT_SPEC, status 3 VOLUME_ATTACHMENT_STATUS;
    VOLUME_ATTACHMENT_SOURCE = persistentVolumeName 1 (TEXT), inlineVolumeSpec 2 (PERSISTENT_VOLUME_SPEC);
    VOLUME_ATTACHMENT_SPEC = attacher 1 TEXT, source 2 VOLUME_ATTACHMENT_SOURCE, nodeName 3 TEXT;
    VOLUME_ATTACHMENT_STATUS = attached 1 BOOL, attachmentMetadata 2 {TEXT}, attachError 3 (VOLUME_ERROR),
        detachError 4 (VOLUME_ERROR);
    VOLUME_ERROR = time 1 TIME, message 2 TEXT, errorCode 3 (INT);
    INGRESS_CLASS = metadata 1 OBJECT_META, spec 2 INGRESS_CLASS_SPEC;
    INGRESS_CLASS_PARAMETERS_REFERENCE = apiGroup 1 (TEXT), kind 2 TEXT, name 3 TEXT, scope 4 (TEXT),
        namespace 5 (TEXT);
    INGRESS_CLASS_SPEC = controller 1 TEXT, parameters 2 (INGRESS_CLASS_PARAMETERS_REFERENCE);
    OVERHEAD = podFixed 1 {QUANTITY};
    RUNTIME_CLASS = metadata 1 OBJECT_META, handler 2 TEXT, overhead 3 (OVERHEAD), scheduling 4 (SCHEDULING);
    SCHEDULING = nodeSelector 1 {TEXT}, tolerations 2 [TOLERATION];
}
