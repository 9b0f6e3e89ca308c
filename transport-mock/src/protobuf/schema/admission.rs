//! Messages of `admissionregistration.k8s.io/v1`.

use super::meta::{CONDITION, LABEL_SELECTOR, OBJECT_META};
use super::{BYTES, INT, TEXT};

messages! {
    AUDIT_ANNOTATION = key 1 TEXT, valueExpression 2 TEXT;
    EXPRESSION_WARNING = fieldRef 2 TEXT, warning 3 TEXT;
    MATCH_CONDITION = name 1 TEXT, expression 2 TEXT;
    MATCH_RESOURCES = namespaceSelector 1 (LABEL_SELECTOR), objectSelector 2 (LABEL_SELECTOR),
        resourceRules 3 [NAMED_RULE_WITH_OPERATIONS], excludeResourceRules 4 [NAMED_RULE_WITH_OPERATIONS],
        matchPolicy 7 (TEXT);
    MUTATING_WEBHOOK = name 1 TEXT, clientConfig 2 WEBHOOK_CLIENT_CONFIG, rules 3 [RULE_WITH_OPERATIONS],
        failurePolicy 4 (TEXT), namespaceSelector 5 (LABEL_SELECTOR), sideEffects 6 (TEXT), timeoutSeconds 7 (INT),
        admissionReviewVersions 8 [TEXT], matchPolicy 9 (TEXT), reinvocationPolicy 10 (TEXT),
        objectSelector 11 (LABEL_SELECTOR), matchConditions 12 [MATCH_CONDITION];
    MUTATING_WEBHOOK_CONFIGURATION = metadata 1 OBJECT_META, webhooks 2 [MUTATING_WEBHOOK];
    NAMED_RULE_WITH_OPERATIONS = resourceNames 1 [TEXT], inline 2 RULE_WITH_OPERATIONS;
    PARAM_KIND = apiVersion 1 TEXT, kind 2 TEXT;
    PARAM_REF = name 1 TEXT, namespace 2 TEXT, selector 3 (LABEL_SELECTOR), parameterNotFoundAction 4 (TEXT);
    RULE = apiGroups 1 [TEXT], apiVersions 2 [TEXT], resources 3 [TEXT], scope 4 (TEXT);
    RULE_WITH_OPERATIONS = operations 1 [TEXT], inline 2 RULE;
    SERVICE_REFERENCE = namespace 1 TEXT, name 2 TEXT, path 3 (TEXT), port 4 (INT);
    TYPE_CHECKING = expressionWarnings 1 [EXPRESSION_WARNING];
    VALIDATING_ADMISSION_POLICY = metadata 1 OBJECT_META, spec 2 VALIDATING_ADMISSION_POLICY_SPEC,
        status 3 VALIDATING_ADMISSION_POLICY_STATUS;
    VALIDATING_ADMISSION_POLICY_BINDING = metadata 1 OBJECT_META, spec 2 VALIDATING_ADMISSION_POLICY_BINDING_SPEC;
    VALIDATING_ADMISSION_POLICY_BINDING_SPEC = policyName 1 TEXT, paramRef 2 (PARAM_REF),
        matchResources 3 (MATCH_RESOURCES), validationActions 4 [TEXT];
    VALIDATING_ADMISSION_POLICY_SPEC = paramKind 1 (PARAM_KIND), matchConstraints 2 (MATCH_RESOURCES),
        validations 3 [VALIDATION], failurePolicy 4 (TEXT), auditAnnotations 5 [AUDIT_ANNOTATION],
        matchConditions 6 [MATCH_CONDITION], variables 7 [VARIABLE];
    VALIDATING_ADMISSION_POLICY_STATUS = observedGeneration 1 INT, typeChecking 2 (TYPE_CHECKING),
        conditions 3 [CONDITION];
    VALIDATING_WEBHOOK = name 1 TEXT, clientConfig 2 WEBHOOK_CLIENT_CONFIG, rules 3 [RULE_WITH_OPERATIONS],
        failurePolicy 4 (TEXT), namespaceSelector 5 (LABEL_SELECTOR), sideEffects 6 (TEXT), timeoutSeconds 7 (INT),
        admissionReviewVersions 8 [TEXT], matchPolicy 9 (TEXT), objectSelector 10 (LABEL_SELECTOR),
        matchConditions 11 [MATCH_CONDITION];
    VALIDATING_WEBHOOK_CONFIGURATION = metadata 1 OBJECT_META, webhooks 2 [VALIDATING_WEBHOOK];
    VALIDATION = expression 1 TEXT, message 2 TEXT, reason 3 (TEXT), messageExpression 4 TEXT;
    VARIABLE = name 1 TEXT, expression 2 TEXT;
    WEBHOOK_CLIENT_CONFIG = service 1 (SERVICE_REFERENCE), caBundle 2 (BYTES), url 3 (TEXT);
}
