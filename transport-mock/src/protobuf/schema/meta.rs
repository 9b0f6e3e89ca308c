//! Messages of `meta/v1`.

use super::{BOOL, FIELDS, INT, TEXT, TIME};

messages! {
    CONDITION = type 1 TEXT, status 2 TEXT, observedGeneration 3 INT, lastTransitionTime 4 TIME, reason 5 TEXT,
        message 6 TEXT;
    LABEL_SELECTOR = matchLabels 1 {TEXT}, matchExpressions 2 [LABEL_SELECTOR_REQUIREMENT];
    LABEL_SELECTOR_REQUIREMENT = key 1 TEXT, operator 2 TEXT, values 3 [TEXT];
    LIST_META = selfLink 1 TEXT, resourceVersion 2 TEXT, continue 3 TEXT, remainingItemCount 4 (INT),
        shardInfo 5 (SHARD_INFO);
    MANAGED_FIELDS_ENTRY = manager 1 TEXT, operation 2 TEXT, apiVersion 3 TEXT, time 4 (TIME), fieldsType 6 TEXT,
        fieldsV1 7 (FIELDS), subresource 8 TEXT;
    OBJECT_META = name 1 TEXT, generateName 2 TEXT, namespace 3 TEXT, selfLink 4 TEXT, uid 5 TEXT,
        resourceVersion 6 TEXT, generation 7 INT, creationTimestamp 8 TIME, deletionTimestamp 9 (TIME),
        deletionGracePeriodSeconds 10 (INT), labels 11 {TEXT}, annotations 12 {TEXT},
        ownerReferences 13 [OWNER_REFERENCE], finalizers 14 [TEXT], managedFields 17 [MANAGED_FIELDS_ENTRY];
    OWNER_REFERENCE = kind 1 TEXT, name 3 TEXT, uid 4 TEXT, apiVersion 5 TEXT, controller 6 (BOOL),
        blockOwnerDeletion 7 (BOOL);
    SHARD_INFO = selector 1 TEXT;
    STATUS = metadata 1 LIST_META, status 2 TEXT, message 3 TEXT, reason 4 TEXT, details 5 (STATUS_DETAILS), code 6 INT;
    STATUS_CAUSE = reason 1 TEXT, message 2 TEXT, field 3 TEXT;
    STATUS_DETAILS = name 1 TEXT, group 2 TEXT, kind 3 TEXT, causes 4 [STATUS_CAUSE], retryAfterSeconds 5 INT,
        uid 6 TEXT;
}
