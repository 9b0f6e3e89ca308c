//! Messages of `core/v1`.

use super::meta::{CONDITION, LABEL_SELECTOR, OBJECT_META};
use super::{BOOL, BYTES, INT, INT_OR_STRING, MICRO_TIME, QUANTITY, TEXT, TIME};

messages! {
    AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE = volumeID 1 TEXT, fsType 2 TEXT, partition 3 INT, readOnly 4 BOOL;
    AFFINITY = nodeAffinity 1 (NODE_AFFINITY), podAffinity 2 (POD_AFFINITY), podAntiAffinity 3 (POD_ANTI_AFFINITY);
    APP_ARMOR_PROFILE = type 1 TEXT, localhostProfile 2 (TEXT);
    ATTACHED_VOLUME = name 1 TEXT, devicePath 2 TEXT;
    AZURE_DISK_VOLUME_SOURCE = diskName 1 TEXT, diskURI 2 TEXT, cachingMode 3 (TEXT), fsType 4 (TEXT),
        readOnly 5 (BOOL), kind 6 (TEXT);
    AZURE_FILE_PERSISTENT_VOLUME_SOURCE = secretName 1 TEXT, shareName 2 TEXT, readOnly 3 BOOL,
        secretNamespace 4 (TEXT);
    AZURE_FILE_VOLUME_SOURCE = secretName 1 TEXT, shareName 2 TEXT, readOnly 3 BOOL;
    CSI_PERSISTENT_VOLUME_SOURCE = driver 1 TEXT, volumeHandle 2 TEXT, readOnly 3 BOOL, fsType 4 TEXT,
        volumeAttributes 5 {TEXT}, controllerPublishSecretRef 6 (SECRET_REFERENCE),
        nodeStageSecretRef 7 (SECRET_REFERENCE), nodePublishSecretRef 8 (SECRET_REFERENCE),
        controllerExpandSecretRef 9 (SECRET_REFERENCE), nodeExpandSecretRef 10 (SECRET_REFERENCE);
    CSI_VOLUME_SOURCE = driver 1 TEXT, readOnly 2 (BOOL), fsType 3 (TEXT), volumeAttributes 4 {TEXT},
        nodePublishSecretRef 5 (LOCAL_OBJECT_REFERENCE);
    CAPABILITIES = add 1 [TEXT], drop 2 [TEXT];
    CEPH_FS_PERSISTENT_VOLUME_SOURCE = monitors 1 [TEXT], path 2 TEXT, user 3 TEXT, secretFile 4 TEXT,
        secretRef 5 (SECRET_REFERENCE), readOnly 6 BOOL;
    CEPH_FS_VOLUME_SOURCE = monitors 1 [TEXT], path 2 TEXT, user 3 TEXT, secretFile 4 TEXT,
        secretRef 5 (LOCAL_OBJECT_REFERENCE), readOnly 6 BOOL;
    CINDER_PERSISTENT_VOLUME_SOURCE = volumeID 1 TEXT, fsType 2 TEXT, readOnly 3 BOOL, secretRef 4 (SECRET_REFERENCE);
    CINDER_VOLUME_SOURCE = volumeID 1 TEXT, fsType 2 TEXT, readOnly 3 BOOL, secretRef 4 (LOCAL_OBJECT_REFERENCE);
    CLIENT_IP_CONFIG = timeoutSeconds 1 (INT);
    CLUSTER_TRUST_BUNDLE_PROJECTION = name 1 (TEXT), signerName 2 (TEXT), labelSelector 3 (LABEL_SELECTOR), path 4 TEXT,
        optional 5 (BOOL);
    CONFIG_MAP = metadata 1 OBJECT_META, data 2 {TEXT}, binaryData 3 {BYTES}, immutable 4 (BOOL);
    CONFIG_MAP_ENV_SOURCE = inline 1 LOCAL_OBJECT_REFERENCE, optional 2 (BOOL);
    CONFIG_MAP_KEY_SELECTOR = inline 1 LOCAL_OBJECT_REFERENCE, key 2 TEXT, optional 3 (BOOL);
    CONFIG_MAP_NODE_CONFIG_SOURCE = namespace 1 TEXT, name 2 TEXT, uid 3 TEXT, resourceVersion 4 TEXT,
        kubeletConfigKey 5 TEXT;
    CONFIG_MAP_PROJECTION = inline 1 LOCAL_OBJECT_REFERENCE, items 2 [KEY_TO_PATH], optional 4 (BOOL);
    CONFIG_MAP_VOLUME_SOURCE = inline 1 LOCAL_OBJECT_REFERENCE, items 2 [KEY_TO_PATH], defaultMode 3 (INT),
        optional 4 (BOOL);
    CONTAINER = name 1 TEXT, image 2 TEXT, command 3 [TEXT], args 4 [TEXT], workingDir 5 TEXT, ports 6 [CONTAINER_PORT],
        env 7 [ENV_VAR], resources 8 RESOURCE_REQUIREMENTS, volumeMounts 9 [VOLUME_MOUNT], livenessProbe 10 (PROBE),
        readinessProbe 11 (PROBE), lifecycle 12 (LIFECYCLE), terminationMessagePath 13 TEXT, imagePullPolicy 14 TEXT,
        securityContext 15 (SECURITY_CONTEXT), stdin 16 BOOL, stdinOnce 17 BOOL, tty 18 BOOL,
        envFrom 19 [ENV_FROM_SOURCE], terminationMessagePolicy 20 TEXT, volumeDevices 21 [VOLUME_DEVICE],
        startupProbe 22 (PROBE), resizePolicy 23 [CONTAINER_RESIZE_POLICY], restartPolicy 24 (TEXT),
        restartPolicyRules 25 [CONTAINER_RESTART_RULE];
    CONTAINER_EXTENDED_RESOURCE_REQUEST = containerName 1 TEXT, resourceName 2 TEXT, requestName 3 TEXT;
    CONTAINER_IMAGE = names 1 [TEXT], sizeBytes 2 INT;
    CONTAINER_PORT = name 1 TEXT, hostPort 2 INT, containerPort 3 INT, protocol 4 TEXT, hostIP 5 TEXT;
    CONTAINER_RESIZE_POLICY = resourceName 1 TEXT, restartPolicy 2 TEXT;
    CONTAINER_RESTART_RULE = action 1 TEXT, exitCodes 2 (CONTAINER_RESTART_RULE_ON_EXIT_CODES);
    CONTAINER_RESTART_RULE_ON_EXIT_CODES = operator 1 TEXT, values 2 [INT];
    CONTAINER_STATE = waiting 1 (CONTAINER_STATE_WAITING), running 2 (CONTAINER_STATE_RUNNING),
        terminated 3 (CONTAINER_STATE_TERMINATED);
    CONTAINER_STATE_RUNNING = startedAt 1 TIME;
    CONTAINER_STATE_TERMINATED = exitCode 1 INT, signal 2 INT, reason 3 TEXT, message 4 TEXT, startedAt 5 TIME,
        finishedAt 6 TIME, containerID 7 TEXT;
    CONTAINER_STATE_WAITING = reason 1 TEXT, message 2 TEXT;
    CONTAINER_STATUS = name 1 TEXT, state 2 CONTAINER_STATE, lastState 3 CONTAINER_STATE, ready 4 BOOL,
        restartCount 5 INT, image 6 TEXT, imageID 7 TEXT, containerID 8 TEXT, started 9 (BOOL),
        allocatedResources 10 {QUANTITY}, resources 11 (RESOURCE_REQUIREMENTS), volumeMounts 12 [VOLUME_MOUNT_STATUS],
        user 13 (CONTAINER_USER), allocatedResourcesStatus 14 [RESOURCE_STATUS], stopSignal 15 (TEXT);
    CONTAINER_USER = linux 1 (LINUX_CONTAINER_USER);
    DAEMON_ENDPOINT = Port 1 INT;
    DOWNWARD_API_PROJECTION = items 1 [DOWNWARD_API_VOLUME_FILE];
    DOWNWARD_API_VOLUME_FILE = path 1 TEXT, fieldRef 2 (OBJECT_FIELD_SELECTOR),
        resourceFieldRef 3 (RESOURCE_FIELD_SELECTOR), mode 4 (INT);
    DOWNWARD_API_VOLUME_SOURCE = items 1 [DOWNWARD_API_VOLUME_FILE], defaultMode 2 (INT);
    EMPTY_DIR_VOLUME_SOURCE = medium 1 TEXT, sizeLimit 2 (QUANTITY);
    ENDPOINT_ADDRESS = ip 1 TEXT, targetRef 2 (OBJECT_REFERENCE), hostname 3 TEXT, nodeName 4 (TEXT);
    ENDPOINT_PORT = name 1 TEXT, port 2 INT, protocol 3 TEXT, appProtocol 4 (TEXT);
    ENDPOINT_SUBSET = addresses 1 [ENDPOINT_ADDRESS], notReadyAddresses 2 [ENDPOINT_ADDRESS], ports 3 [ENDPOINT_PORT];
    ENDPOINTS = metadata 1 OBJECT_META, subsets 2 [ENDPOINT_SUBSET];
    ENV_FROM_SOURCE = prefix 1 TEXT, configMapRef 2 (CONFIG_MAP_ENV_SOURCE), secretRef 3 (SECRET_ENV_SOURCE);
    ENV_VAR = name 1 TEXT, value 2 TEXT, valueFrom 3 (ENV_VAR_SOURCE);
    ENV_VAR_SOURCE = fieldRef 1 (OBJECT_FIELD_SELECTOR), resourceFieldRef 2 (RESOURCE_FIELD_SELECTOR),
        configMapKeyRef 3 (CONFIG_MAP_KEY_SELECTOR), secretKeyRef 4 (SECRET_KEY_SELECTOR),
        fileKeyRef 5 (FILE_KEY_SELECTOR);
    EPHEMERAL_CONTAINER = inline 1 EPHEMERAL_CONTAINER_COMMON, targetContainerName 2 TEXT;
    EPHEMERAL_CONTAINER_COMMON = name 1 TEXT, image 2 TEXT, command 3 [TEXT], args 4 [TEXT], workingDir 5 TEXT,
        ports 6 [CONTAINER_PORT], env 7 [ENV_VAR], resources 8 RESOURCE_REQUIREMENTS, volumeMounts 9 [VOLUME_MOUNT],
        livenessProbe 10 (PROBE), readinessProbe 11 (PROBE), lifecycle 12 (LIFECYCLE), terminationMessagePath 13 TEXT,
        imagePullPolicy 14 TEXT, securityContext 15 (SECURITY_CONTEXT), stdin 16 BOOL, stdinOnce 17 BOOL, tty 18 BOOL,
        envFrom 19 [ENV_FROM_SOURCE], terminationMessagePolicy 20 TEXT, volumeDevices 21 [VOLUME_DEVICE],
        startupProbe 22 (PROBE), resizePolicy 23 [CONTAINER_RESIZE_POLICY], restartPolicy 24 (TEXT),
        restartPolicyRules 25 [CONTAINER_RESTART_RULE];
    EPHEMERAL_VOLUME_SOURCE = volumeClaimTemplate 1 (PERSISTENT_VOLUME_CLAIM_TEMPLATE);
    EVENT = metadata 1 OBJECT_META, involvedObject 2 OBJECT_REFERENCE, reason 3 TEXT, message 4 TEXT,
        source 5 EVENT_SOURCE, firstTimestamp 6 TIME, lastTimestamp 7 TIME, count 8 INT, type 9 TEXT,
        eventTime 10 MICRO_TIME, series 11 (EVENT_SERIES), action 12 TEXT, related 13 (OBJECT_REFERENCE),
        reportingComponent 14 TEXT, reportingInstance 15 TEXT;
    EVENT_SERIES = count 1 INT, lastObservedTime 2 MICRO_TIME;
    EVENT_SOURCE = component 1 TEXT, host 2 TEXT;
    EXEC_ACTION = command 1 [TEXT];
    FC_VOLUME_SOURCE = targetWWNs 1 [TEXT], lun 2 (INT), fsType 3 TEXT, readOnly 4 BOOL, wwids 5 [TEXT];
    FILE_KEY_SELECTOR = volumeName 1 TEXT, path 2 TEXT, key 3 TEXT, optional 4 (BOOL);
    FLEX_PERSISTENT_VOLUME_SOURCE = driver 1 TEXT, fsType 2 TEXT, secretRef 3 (SECRET_REFERENCE), readOnly 4 BOOL,
        options 5 {TEXT};
    FLEX_VOLUME_SOURCE = driver 1 TEXT, fsType 2 TEXT, secretRef 3 (LOCAL_OBJECT_REFERENCE), readOnly 4 BOOL,
        options 5 {TEXT};
    FLOCKER_VOLUME_SOURCE = datasetName 1 TEXT, datasetUUID 2 TEXT;
    GCE_PERSISTENT_DISK_VOLUME_SOURCE = pdName 1 TEXT, fsType 2 TEXT, partition 3 INT, readOnly 4 BOOL;
    GRPC_ACTION = port 1 INT, service 2 (TEXT);
    GIT_REPO_VOLUME_SOURCE = repository 1 TEXT, revision 2 TEXT, directory 3 TEXT;
    GLUSTERFS_PERSISTENT_VOLUME_SOURCE = endpoints 1 TEXT, path 2 TEXT, readOnly 3 BOOL, endpointsNamespace 4 (TEXT);
    GLUSTERFS_VOLUME_SOURCE = endpoints 1 TEXT, path 2 TEXT, readOnly 3 BOOL;
    HTTP_GET_ACTION = path 1 TEXT, port 2 INT_OR_STRING, host 3 TEXT, scheme 4 TEXT, httpHeaders 5 [HTTP_HEADER];
    HTTP_HEADER = name 1 TEXT, value 2 TEXT;
    HOST_ALIAS = ip 1 TEXT, hostnames 2 [TEXT];
    HOST_IP = ip 1 TEXT;
    HOST_PATH_VOLUME_SOURCE = path 1 TEXT, type 2 (TEXT);
    ISCSI_PERSISTENT_VOLUME_SOURCE = targetPortal 1 TEXT, iqn 2 TEXT, lun 3 INT, iscsiInterface 4 TEXT, fsType 5 TEXT,
        readOnly 6 BOOL, portals 7 [TEXT], chapAuthDiscovery 8 BOOL, secretRef 10 (SECRET_REFERENCE),
        chapAuthSession 11 BOOL, initiatorName 12 (TEXT);
    ISCSI_VOLUME_SOURCE = targetPortal 1 TEXT, iqn 2 TEXT, lun 3 INT, iscsiInterface 4 TEXT, fsType 5 TEXT,
        readOnly 6 BOOL, portals 7 [TEXT], chapAuthDiscovery 8 BOOL, secretRef 10 (LOCAL_OBJECT_REFERENCE),
        chapAuthSession 11 BOOL, initiatorName 12 (TEXT);
    IMAGE_VOLUME_SOURCE = reference 1 TEXT, pullPolicy 2 TEXT;
    IMAGE_VOLUME_STATUS = imageRef 1 TEXT;
    KEY_TO_PATH = key 1 TEXT, path 2 TEXT, mode 3 (INT);
    LIFECYCLE = postStart 1 (LIFECYCLE_HANDLER), preStop 2 (LIFECYCLE_HANDLER), stopSignal 3 (TEXT);
    LIFECYCLE_HANDLER = exec 1 (EXEC_ACTION), httpGet 2 (HTTP_GET_ACTION), tcpSocket 3 (TCP_SOCKET_ACTION),
        sleep 4 (SLEEP_ACTION);
    LINUX_CONTAINER_USER = uid 1 INT, gid 2 INT, supplementalGroups 3 [INT];
    LOAD_BALANCER_INGRESS = ip 1 TEXT, hostname 2 TEXT, ipMode 3 (TEXT), ports 4 [PORT_STATUS];
    LOAD_BALANCER_STATUS = ingress 1 [LOAD_BALANCER_INGRESS];
    LOCAL_OBJECT_REFERENCE = name 1 TEXT;
    LOCAL_VOLUME_SOURCE = path 1 TEXT, fsType 2 (TEXT);
    MODIFY_VOLUME_STATUS = targetVolumeAttributesClassName 1 TEXT, status 2 TEXT;
    NFS_VOLUME_SOURCE = server 1 TEXT, path 2 TEXT, readOnly 3 BOOL;
    NAMESPACE = metadata 1 OBJECT_META, spec 2 NAMESPACE_SPEC, status 3 NAMESPACE_STATUS;
    NAMESPACE_CONDITION = type 1 TEXT, status 2 TEXT, lastTransitionTime 4 TIME, reason 5 TEXT, message 6 TEXT;
    NAMESPACE_SPEC = finalizers 1 [TEXT];
    NAMESPACE_STATUS = phase 1 TEXT, conditions 2 [NAMESPACE_CONDITION];
    NODE = metadata 1 OBJECT_META, spec 2 NODE_SPEC, status 3 NODE_STATUS;
    NODE_ADDRESS = type 1 TEXT, address 2 TEXT;
    NODE_AFFINITY = requiredDuringSchedulingIgnoredDuringExecution 1 (NODE_SELECTOR),
        preferredDuringSchedulingIgnoredDuringExecution 2 [PREFERRED_SCHEDULING_TERM];
    NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS = resourceClaimName 1 TEXT, containers 2 [TEXT], resources 3 {QUANTITY};
    NODE_CONDITION = type 1 TEXT, status 2 TEXT, lastHeartbeatTime 3 TIME, lastTransitionTime 4 TIME, reason 5 TEXT,
        message 6 TEXT;
    NODE_CONFIG_SOURCE = configMap 2 (CONFIG_MAP_NODE_CONFIG_SOURCE);
    NODE_CONFIG_STATUS = assigned 1 (NODE_CONFIG_SOURCE), active 2 (NODE_CONFIG_SOURCE),
        lastKnownGood 3 (NODE_CONFIG_SOURCE), error 4 TEXT;
    NODE_DAEMON_ENDPOINTS = kubeletEndpoint 1 DAEMON_ENDPOINT;
    NODE_FEATURES = supplementalGroupsPolicy 1 (BOOL);
    NODE_RUNTIME_HANDLER = name 1 TEXT, features 2 (NODE_RUNTIME_HANDLER_FEATURES);
    NODE_RUNTIME_HANDLER_FEATURES = recursiveReadOnlyMounts 1 (BOOL), userNamespaces 2 (BOOL);
    NODE_SELECTOR = nodeSelectorTerms 1 [NODE_SELECTOR_TERM];
    NODE_SELECTOR_REQUIREMENT = key 1 TEXT, operator 2 TEXT, values 3 [TEXT];
    NODE_SELECTOR_TERM = matchExpressions 1 [NODE_SELECTOR_REQUIREMENT], matchFields 2 [NODE_SELECTOR_REQUIREMENT];
    NODE_SPEC = podCIDR 1 TEXT, externalID 2 TEXT, providerID 3 TEXT, unschedulable 4 BOOL, taints 5 [TAINT],
        configSource 6 (NODE_CONFIG_SOURCE), podCIDRs 7 [TEXT];
    NODE_STATUS = capacity 1 {QUANTITY}, allocatable 2 {QUANTITY}, phase 3 TEXT, conditions 4 [NODE_CONDITION],
        addresses 5 [NODE_ADDRESS], daemonEndpoints 6 NODE_DAEMON_ENDPOINTS, nodeInfo 7 NODE_SYSTEM_INFO,
        images 8 [CONTAINER_IMAGE], volumesInUse 9 [TEXT], volumesAttached 10 [ATTACHED_VOLUME],
        config 11 (NODE_CONFIG_STATUS), runtimeHandlers 12 [NODE_RUNTIME_HANDLER], features 13 (NODE_FEATURES),
        declaredFeatures 14 [TEXT];
    NODE_SWAP_STATUS = capacity 1 (INT);
    NODE_SYSTEM_INFO = machineID 1 TEXT, systemUUID 2 TEXT, bootID 3 TEXT, kernelVersion 4 TEXT, osImage 5 TEXT,
        containerRuntimeVersion 6 TEXT, kubeletVersion 7 TEXT, kubeProxyVersion 8 TEXT, operatingSystem 9 TEXT,
        architecture 10 TEXT, swap 11 (NODE_SWAP_STATUS);
    OBJECT_FIELD_SELECTOR = apiVersion 1 TEXT, fieldPath 2 TEXT;
    OBJECT_REFERENCE = kind 1 TEXT, namespace 2 TEXT, name 3 TEXT, uid 4 TEXT, apiVersion 5 TEXT,
        resourceVersion 6 TEXT, fieldPath 7 TEXT;
    PERSISTENT_VOLUME = metadata 1 OBJECT_META, spec 2 PERSISTENT_VOLUME_SPEC, status 3 PERSISTENT_VOLUME_STATUS;
    PERSISTENT_VOLUME_CLAIM = metadata 1 OBJECT_META, spec 2 PERSISTENT_VOLUME_CLAIM_SPEC,
        status 3 PERSISTENT_VOLUME_CLAIM_STATUS;
    PERSISTENT_VOLUME_CLAIM_CONDITION = type 1 TEXT, status 2 TEXT, lastProbeTime 3 TIME, lastTransitionTime 4 TIME,
        reason 5 TEXT, message 6 TEXT;
    PERSISTENT_VOLUME_CLAIM_SPEC = accessModes 1 [TEXT], resources 2 VOLUME_RESOURCE_REQUIREMENTS, volumeName 3 TEXT,
        selector 4 (LABEL_SELECTOR), storageClassName 5 (TEXT), volumeMode 6 (TEXT),
        dataSource 7 (TYPED_LOCAL_OBJECT_REFERENCE), dataSourceRef 8 (TYPED_OBJECT_REFERENCE),
        volumeAttributesClassName 9 (TEXT);
    PERSISTENT_VOLUME_CLAIM_STATUS = phase 1 TEXT, accessModes 2 [TEXT], capacity 3 {QUANTITY},
        conditions 4 [PERSISTENT_VOLUME_CLAIM_CONDITION], allocatedResources 5 {QUANTITY},
        allocatedResourceStatuses 7 {TEXT}, currentVolumeAttributesClassName 8 (TEXT),
        modifyVolumeStatus 9 (MODIFY_VOLUME_STATUS);
    PERSISTENT_VOLUME_CLAIM_TEMPLATE = metadata 1 OBJECT_META, spec 2 PERSISTENT_VOLUME_CLAIM_SPEC;
    PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE = claimName 1 TEXT, readOnly 2 BOOL;
    PERSISTENT_VOLUME_SOURCE = gcePersistentDisk 1 (GCE_PERSISTENT_DISK_VOLUME_SOURCE),
        awsElasticBlockStore 2 (AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE), hostPath 3 (HOST_PATH_VOLUME_SOURCE),
        glusterfs 4 (GLUSTERFS_PERSISTENT_VOLUME_SOURCE), nfs 5 (NFS_VOLUME_SOURCE),
        rbd 6 (RBD_PERSISTENT_VOLUME_SOURCE), iscsi 7 (ISCSI_PERSISTENT_VOLUME_SOURCE),
        cinder 8 (CINDER_PERSISTENT_VOLUME_SOURCE), cephfs 9 (CEPH_FS_PERSISTENT_VOLUME_SOURCE),
        fc 10 (FC_VOLUME_SOURCE), flocker 11 (FLOCKER_VOLUME_SOURCE), flexVolume 12 (FLEX_PERSISTENT_VOLUME_SOURCE),
        azureFile 13 (AZURE_FILE_PERSISTENT_VOLUME_SOURCE), vsphereVolume 14 (VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE),
        quobyte 15 (QUOBYTE_VOLUME_SOURCE), azureDisk 16 (AZURE_DISK_VOLUME_SOURCE),
        photonPersistentDisk 17 (PHOTON_PERSISTENT_DISK_VOLUME_SOURCE), portworxVolume 18 (PORTWORX_VOLUME_SOURCE),
        scaleIO 19 (SCALE_IO_PERSISTENT_VOLUME_SOURCE), local 20 (LOCAL_VOLUME_SOURCE),
        storageos 21 (STORAGE_OS_PERSISTENT_VOLUME_SOURCE), csi 22 (CSI_PERSISTENT_VOLUME_SOURCE);
    PERSISTENT_VOLUME_SPEC = capacity 1 {QUANTITY}, inline 2 PERSISTENT_VOLUME_SOURCE, accessModes 3 [TEXT],
        claimRef 4 (OBJECT_REFERENCE), persistentVolumeReclaimPolicy 5 TEXT, storageClassName 6 TEXT,
        mountOptions 7 [TEXT], volumeMode 8 (TEXT), nodeAffinity 9 (VOLUME_NODE_AFFINITY),
        volumeAttributesClassName 10 (TEXT);
    PERSISTENT_VOLUME_STATUS = phase 1 TEXT, message 2 TEXT, reason 3 TEXT, lastPhaseTransitionTime 4 (TIME);
    PHOTON_PERSISTENT_DISK_VOLUME_SOURCE = pdID 1 TEXT, fsType 2 TEXT;
    POD = metadata 1 OBJECT_META, spec 2 POD_SPEC, status 3 POD_STATUS;
    POD_AFFINITY = requiredDuringSchedulingIgnoredDuringExecution 1 [POD_AFFINITY_TERM],
        preferredDuringSchedulingIgnoredDuringExecution 2 [WEIGHTED_POD_AFFINITY_TERM];
    POD_AFFINITY_TERM = labelSelector 1 (LABEL_SELECTOR), namespaces 2 [TEXT], topologyKey 3 TEXT,
        namespaceSelector 4 (LABEL_SELECTOR), matchLabelKeys 5 [TEXT], mismatchLabelKeys 6 [TEXT];
    POD_ANTI_AFFINITY = requiredDuringSchedulingIgnoredDuringExecution 1 [POD_AFFINITY_TERM],
        preferredDuringSchedulingIgnoredDuringExecution 2 [WEIGHTED_POD_AFFINITY_TERM];
    POD_CERTIFICATE_PROJECTION = signerName 1 TEXT, keyType 2 TEXT, maxExpirationSeconds 3 (INT),
        credentialBundlePath 4 TEXT, keyPath 5 TEXT, certificateChainPath 6 TEXT, userAnnotations 7 {TEXT};
    POD_CONDITION = type 1 TEXT, status 2 TEXT, lastProbeTime 3 TIME, lastTransitionTime 4 TIME, reason 5 TEXT,
        message 6 TEXT, observedGeneration 7 INT;
    POD_DNS_CONFIG = nameservers 1 [TEXT], searches 2 [TEXT], options 3 [POD_DNS_CONFIG_OPTION];
    POD_DNS_CONFIG_OPTION = name 1 TEXT, value 2 (TEXT);
    POD_EXTENDED_RESOURCE_CLAIM_STATUS = requestMappings 1 [CONTAINER_EXTENDED_RESOURCE_REQUEST],
        resourceClaimName 2 TEXT;
    POD_IP = ip 1 TEXT;
    POD_OS = name 1 TEXT;
    POD_READINESS_GATE = conditionType 1 TEXT;
    POD_RESOURCE_CLAIM = name 1 TEXT, resourceClaimName 3 (TEXT), resourceClaimTemplateName 4 (TEXT);
    POD_RESOURCE_CLAIM_STATUS = name 1 TEXT, resourceClaimName 2 (TEXT);
    POD_SCHEDULING_GATE = name 1 TEXT;
    POD_SCHEDULING_GROUP = podGroupName 1 (TEXT);
    POD_SECURITY_CONTEXT = seLinuxOptions 1 (SE_LINUX_OPTIONS), runAsUser 2 (INT), runAsNonRoot 3 (BOOL),
        supplementalGroups 4 [INT], fsGroup 5 (INT), runAsGroup 6 (INT), sysctls 7 [SYSCTL],
        windowsOptions 8 (WINDOWS_SECURITY_CONTEXT_OPTIONS), fsGroupChangePolicy 9 (TEXT),
        seccompProfile 10 (SECCOMP_PROFILE), appArmorProfile 11 (APP_ARMOR_PROFILE), supplementalGroupsPolicy 12 (TEXT),
        seLinuxChangePolicy 13 (TEXT);
    POD_SPEC = volumes 1 [VOLUME], containers 2 [CONTAINER], restartPolicy 3 TEXT,
        terminationGracePeriodSeconds 4 (INT), activeDeadlineSeconds 5 (INT), dnsPolicy 6 TEXT, nodeSelector 7 {TEXT},
        serviceAccountName 8 TEXT, serviceAccount 9 TEXT, nodeName 10 TEXT, hostNetwork 11 BOOL, hostPID 12 BOOL,
        hostIPC 13 BOOL, securityContext 14 (POD_SECURITY_CONTEXT), imagePullSecrets 15 [LOCAL_OBJECT_REFERENCE],
        hostname 16 TEXT, subdomain 17 TEXT, affinity 18 (AFFINITY), schedulerName 19 TEXT,
        initContainers 20 [CONTAINER], automountServiceAccountToken 21 (BOOL), tolerations 22 [TOLERATION],
        hostAliases 23 [HOST_ALIAS], priorityClassName 24 TEXT, priority 25 (INT), dnsConfig 26 (POD_DNS_CONFIG),
        shareProcessNamespace 27 (BOOL), readinessGates 28 [POD_READINESS_GATE], runtimeClassName 29 (TEXT),
        enableServiceLinks 30 (BOOL), preemptionPolicy 31 (TEXT), overhead 32 {QUANTITY},
        topologySpreadConstraints 33 [TOPOLOGY_SPREAD_CONSTRAINT], ephemeralContainers 34 [EPHEMERAL_CONTAINER],
        setHostnameAsFQDN 35 (BOOL), os 36 (POD_OS), hostUsers 37 (BOOL), schedulingGates 38 [POD_SCHEDULING_GATE],
        resourceClaims 39 [POD_RESOURCE_CLAIM], resources 40 (RESOURCE_REQUIREMENTS), hostnameOverride 41 (TEXT),
        schedulingGroup 43 (POD_SCHEDULING_GROUP);
    POD_STATUS = phase 1 TEXT, conditions 2 [POD_CONDITION], message 3 TEXT, reason 4 TEXT, hostIP 5 TEXT, podIP 6 TEXT,
        startTime 7 (TIME), containerStatuses 8 [CONTAINER_STATUS], qosClass 9 TEXT,
        initContainerStatuses 10 [CONTAINER_STATUS], nominatedNodeName 11 TEXT, podIPs 12 [POD_IP],
        ephemeralContainerStatuses 13 [CONTAINER_STATUS], resize 14 TEXT,
        resourceClaimStatuses 15 [POD_RESOURCE_CLAIM_STATUS], hostIPs 16 [HOST_IP], observedGeneration 17 INT,
        extendedResourceClaimStatus 18 (POD_EXTENDED_RESOURCE_CLAIM_STATUS), allocatedResources 19 {QUANTITY},
        resources 20 (RESOURCE_REQUIREMENTS),
        nodeAllocatableResourceClaimStatuses 21 [NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUS];
    POD_TEMPLATE_SPEC = metadata 1 OBJECT_META, spec 2 POD_SPEC;
    PORT_STATUS = port 1 INT, protocol 2 TEXT, error 3 (TEXT);
    PORTWORX_VOLUME_SOURCE = volumeID 1 TEXT, fsType 2 TEXT, readOnly 3 BOOL;
    PREFERRED_SCHEDULING_TERM = weight 1 INT, preference 2 NODE_SELECTOR_TERM;
    PROBE = inline 1 PROBE_HANDLER, initialDelaySeconds 2 INT, timeoutSeconds 3 INT, periodSeconds 4 INT,
        successThreshold 5 INT, failureThreshold 6 INT, terminationGracePeriodSeconds 7 (INT);
    PROBE_HANDLER = exec 1 (EXEC_ACTION), httpGet 2 (HTTP_GET_ACTION), tcpSocket 3 (TCP_SOCKET_ACTION),
        grpc 4 (GRPC_ACTION);
    PROJECTED_VOLUME_SOURCE = sources 1 [VOLUME_PROJECTION], defaultMode 2 (INT);
    QUOBYTE_VOLUME_SOURCE = registry 1 TEXT, volume 2 TEXT, readOnly 3 BOOL, user 4 TEXT, group 5 TEXT, tenant 6 TEXT;
    RBD_PERSISTENT_VOLUME_SOURCE = monitors 1 [TEXT], image 2 TEXT, fsType 3 TEXT, pool 4 TEXT, user 5 TEXT,
        keyring 6 TEXT, secretRef 7 (SECRET_REFERENCE), readOnly 8 BOOL;
    RBD_VOLUME_SOURCE = monitors 1 [TEXT], image 2 TEXT, fsType 3 TEXT, pool 4 TEXT, user 5 TEXT, keyring 6 TEXT,
        secretRef 7 (LOCAL_OBJECT_REFERENCE), readOnly 8 BOOL;
    RESOURCE_CLAIM = name 1 TEXT, request 2 TEXT;
    RESOURCE_FIELD_SELECTOR = containerName 1 TEXT, resource 2 TEXT, divisor 3 QUANTITY;
    RESOURCE_HEALTH = resourceID 1 TEXT, health 2 TEXT, message 6 (TEXT);
    RESOURCE_REQUIREMENTS = limits 1 {QUANTITY}, requests 2 {QUANTITY}, claims 3 [RESOURCE_CLAIM];
    RESOURCE_STATUS = name 1 TEXT, resources 2 [RESOURCE_HEALTH];
    SE_LINUX_OPTIONS = user 1 TEXT, role 2 TEXT, type 3 TEXT, level 4 TEXT;
    SCALE_IO_PERSISTENT_VOLUME_SOURCE = gateway 1 TEXT, system 2 TEXT, secretRef 3 (SECRET_REFERENCE),
        sslEnabled 4 BOOL, protectionDomain 5 TEXT, storagePool 6 TEXT, storageMode 7 TEXT, volumeName 8 TEXT,
        fsType 9 TEXT, readOnly 10 BOOL;
    SCALE_IO_VOLUME_SOURCE = gateway 1 TEXT, system 2 TEXT, secretRef 3 (LOCAL_OBJECT_REFERENCE), sslEnabled 4 BOOL,
        protectionDomain 5 TEXT, storagePool 6 TEXT, storageMode 7 TEXT, volumeName 8 TEXT, fsType 9 TEXT,
        readOnly 10 BOOL;
    SECCOMP_PROFILE = type 1 TEXT, localhostProfile 2 (TEXT);
    SECRET = metadata 1 OBJECT_META, data 2 {BYTES}, type 3 TEXT, stringData 4 {TEXT}, immutable 5 (BOOL);
    SECRET_ENV_SOURCE = inline 1 LOCAL_OBJECT_REFERENCE, optional 2 (BOOL);
    SECRET_KEY_SELECTOR = inline 1 LOCAL_OBJECT_REFERENCE, key 2 TEXT, optional 3 (BOOL);
    SECRET_PROJECTION = inline 1 LOCAL_OBJECT_REFERENCE, items 2 [KEY_TO_PATH], optional 4 (BOOL);
    SECRET_REFERENCE = name 1 TEXT, namespace 2 TEXT;
    SECRET_VOLUME_SOURCE = secretName 1 TEXT, items 2 [KEY_TO_PATH], defaultMode 3 (INT), optional 4 (BOOL);
    SECURITY_CONTEXT = capabilities 1 (CAPABILITIES), privileged 2 (BOOL), seLinuxOptions 3 (SE_LINUX_OPTIONS),
        runAsUser 4 (INT), runAsNonRoot 5 (BOOL), readOnlyRootFilesystem 6 (BOOL), allowPrivilegeEscalation 7 (BOOL),
        runAsGroup 8 (INT), procMount 9 (TEXT), windowsOptions 10 (WINDOWS_SECURITY_CONTEXT_OPTIONS),
        seccompProfile 11 (SECCOMP_PROFILE), appArmorProfile 12 (APP_ARMOR_PROFILE);
    SERVICE = metadata 1 OBJECT_META, spec 2 SERVICE_SPEC, status 3 SERVICE_STATUS;
    SERVICE_ACCOUNT = metadata 1 OBJECT_META, secrets 2 [OBJECT_REFERENCE], imagePullSecrets 3 [LOCAL_OBJECT_REFERENCE],
        automountServiceAccountToken 4 (BOOL);
    SERVICE_ACCOUNT_TOKEN_PROJECTION = audience 1 TEXT, expirationSeconds 2 (INT), path 3 TEXT;
    SERVICE_PORT = name 1 TEXT, protocol 2 TEXT, port 3 INT, targetPort 4 INT_OR_STRING, nodePort 5 INT,
        appProtocol 6 (TEXT);
    SERVICE_SPEC = ports 1 [SERVICE_PORT], selector 2 {TEXT}, clusterIP 3 TEXT, type 4 TEXT, externalIPs 5 [TEXT],
        sessionAffinity 7 TEXT, loadBalancerIP 8 TEXT, loadBalancerSourceRanges 9 [TEXT], externalName 10 TEXT,
        externalTrafficPolicy 11 TEXT, healthCheckNodePort 12 INT, publishNotReadyAddresses 13 BOOL,
        sessionAffinityConfig 14 (SESSION_AFFINITY_CONFIG), ipFamilyPolicy 17 (TEXT), clusterIPs 18 [TEXT],
        ipFamilies 19 [TEXT], allocateLoadBalancerNodePorts 20 (BOOL), loadBalancerClass 21 (TEXT),
        internalTrafficPolicy 22 (TEXT), trafficDistribution 23 (TEXT);
    SERVICE_STATUS = loadBalancer 1 LOAD_BALANCER_STATUS, conditions 2 [CONDITION];
    SESSION_AFFINITY_CONFIG = clientIP 1 (CLIENT_IP_CONFIG);
    SLEEP_ACTION = seconds 1 INT;
    STORAGE_OS_PERSISTENT_VOLUME_SOURCE = volumeName 1 TEXT, volumeNamespace 2 TEXT, fsType 3 TEXT, readOnly 4 BOOL,
        secretRef 5 (OBJECT_REFERENCE);
    STORAGE_OS_VOLUME_SOURCE = volumeName 1 TEXT, volumeNamespace 2 TEXT, fsType 3 TEXT, readOnly 4 BOOL,
        secretRef 5 (LOCAL_OBJECT_REFERENCE);
    SYSCTL = name 1 TEXT, value 2 TEXT;
    TCP_SOCKET_ACTION = port 1 INT_OR_STRING, host 2 TEXT;
    TAINT = key 1 TEXT, value 2 TEXT, effect 3 TEXT, timeAdded 4 (TIME);
    TOLERATION = key 1 TEXT, operator 2 TEXT, value 3 TEXT, effect 4 TEXT, tolerationSeconds 5 (INT);
    TOPOLOGY_SELECTOR_LABEL_REQUIREMENT = key 1 TEXT, values 2 [TEXT];
    TOPOLOGY_SELECTOR_TERM = matchLabelExpressions 1 [TOPOLOGY_SELECTOR_LABEL_REQUIREMENT];
    TOPOLOGY_SPREAD_CONSTRAINT = maxSkew 1 INT, topologyKey 2 TEXT, whenUnsatisfiable 3 TEXT,
        labelSelector 4 (LABEL_SELECTOR), minDomains 5 (INT), nodeAffinityPolicy 6 (TEXT), nodeTaintsPolicy 7 (TEXT),
        matchLabelKeys 8 [TEXT];
    TYPED_LOCAL_OBJECT_REFERENCE = apiGroup 1 (TEXT), kind 2 TEXT, name 3 TEXT;
    TYPED_OBJECT_REFERENCE = apiGroup 1 (TEXT), kind 2 TEXT, name 3 TEXT, namespace 4 (TEXT);
    VOLUME = name 1 TEXT, inline 2 VOLUME_SOURCE;
    VOLUME_DEVICE = name 1 TEXT, devicePath 2 TEXT;
    VOLUME_MOUNT = name 1 TEXT, readOnly 2 BOOL, mountPath 3 TEXT, subPath 4 TEXT, mountPropagation 5 (TEXT),
        subPathExpr 6 TEXT, recursiveReadOnly 7 (TEXT);
    VOLUME_MOUNT_STATUS = name 1 TEXT, mountPath 2 TEXT, readOnly 3 BOOL, recursiveReadOnly 4 (TEXT),
        volumeStatus 5 (VOLUME_STATUS);
    VOLUME_NODE_AFFINITY = required 1 (NODE_SELECTOR);
    VOLUME_PROJECTION = secret 1 (SECRET_PROJECTION), downwardAPI 2 (DOWNWARD_API_PROJECTION),
        configMap 3 (CONFIG_MAP_PROJECTION), serviceAccountToken 4 (SERVICE_ACCOUNT_TOKEN_PROJECTION),
        clusterTrustBundle 5 (CLUSTER_TRUST_BUNDLE_PROJECTION), podCertificate 6 (POD_CERTIFICATE_PROJECTION);
    VOLUME_RESOURCE_REQUIREMENTS = limits 1 {QUANTITY}, requests 2 {QUANTITY};
    VOLUME_SOURCE = hostPath 1 (HOST_PATH_VOLUME_SOURCE), emptyDir 2 (EMPTY_DIR_VOLUME_SOURCE),
        gcePersistentDisk 3 (GCE_PERSISTENT_DISK_VOLUME_SOURCE),
        awsElasticBlockStore 4 (AWS_ELASTIC_BLOCK_STORE_VOLUME_SOURCE), gitRepo 5 (GIT_REPO_VOLUME_SOURCE),
        secret 6 (SECRET_VOLUME_SOURCE), nfs 7 (NFS_VOLUME_SOURCE), iscsi 8 (ISCSI_VOLUME_SOURCE),
        glusterfs 9 (GLUSTERFS_VOLUME_SOURCE), persistentVolumeClaim 10 (PERSISTENT_VOLUME_CLAIM_VOLUME_SOURCE),
        rbd 11 (RBD_VOLUME_SOURCE), flexVolume 12 (FLEX_VOLUME_SOURCE), cinder 13 (CINDER_VOLUME_SOURCE),
        cephfs 14 (CEPH_FS_VOLUME_SOURCE), flocker 15 (FLOCKER_VOLUME_SOURCE),
        downwardAPI 16 (DOWNWARD_API_VOLUME_SOURCE), fc 17 (FC_VOLUME_SOURCE), azureFile 18 (AZURE_FILE_VOLUME_SOURCE),
        configMap 19 (CONFIG_MAP_VOLUME_SOURCE), vsphereVolume 20 (VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE),
        quobyte 21 (QUOBYTE_VOLUME_SOURCE), azureDisk 22 (AZURE_DISK_VOLUME_SOURCE),
        photonPersistentDisk 23 (PHOTON_PERSISTENT_DISK_VOLUME_SOURCE), portworxVolume 24 (PORTWORX_VOLUME_SOURCE),
        scaleIO 25 (SCALE_IO_VOLUME_SOURCE), projected 26 (PROJECTED_VOLUME_SOURCE),
        storageos 27 (STORAGE_OS_VOLUME_SOURCE), csi 28 (CSI_VOLUME_SOURCE), ephemeral 29 (EPHEMERAL_VOLUME_SOURCE),
        image 30 (IMAGE_VOLUME_SOURCE);
    VOLUME_STATUS = image 1 (IMAGE_VOLUME_STATUS);
    VSPHERE_VIRTUAL_DISK_VOLUME_SOURCE = volumePath 1 TEXT, fsType 2 TEXT, storagePolicyName 3 TEXT,
        storagePolicyID 4 TEXT;
    WEIGHTED_POD_AFFINITY_TERM = weight 1 INT, podAffinityTerm 2 POD_AFFINITY_TERM;
    WINDOWS_SECURITY_CONTEXT_OPTIONS = gmsaCredentialSpecName 1 (TEXT), gmsaCredentialSpec 2 (TEXT),
        runAsUserName 3 (TEXT), hostProcess 4 (BOOL);
}
