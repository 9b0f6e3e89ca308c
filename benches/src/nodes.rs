//! Nodes of the size that those of a large cluster have: 13.4 kB of JSON, most of it the list of images.

use core::fmt::Write;

use crate::pods::FIRST_VERSION;

const IMAGES: u64 = 54;

/// Appends the JSON of a Node, without kind and apiVersion.
pub fn write(out: &mut String, number: u64) {
    let version = FIRST_VERSION + number;
    let (zone, pool) = (number % 3, number % 12);
    // Writing into a `String` does not fail.
    let _ = write!(
        out,
        r#"{{"metadata":{{"name":"node-{number:06}","uid":"7c1e{number:04x}-0000-4000-8000-{number:012x}","resourceVersion":"{version}","creationTimestamp":"2026-10-02T08:11:12Z","labels":{{"beta.kubernetes.io/arch":"amd64","beta.kubernetes.io/os":"linux","kubernetes.io/arch":"amd64","kubernetes.io/hostname":"node-{number:06}","kubernetes.io/os":"linux","node.kubernetes.io/instance-type":"m{pool}.4xlarge","topology.kubernetes.io/region":"region-1","topology.kubernetes.io/zone":"zone-{zone}","example.com/pool":"pool-{pool}"}},"annotations":{{"csi.volume.kubernetes.io/nodeid":"{{\"driver.example.com\":\"i-{:016x}\"}}","node.alpha.kubernetes.io/ttl":"0","volumes.kubernetes.io/controller-managed-attach-detach":"true"}},"finalizers":["node.example.com/protection"],"managedFields":[{{"manager":"kubelet","operation":"Update","apiVersion":"v1","time":"2026-11-20T09:10:11Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:annotations":{{".":{{}},"f:volumes.kubernetes.io/controller-managed-attach-detach":{{}}}},"f:labels":{{".":{{}},"f:beta.kubernetes.io/arch":{{}},"f:kubernetes.io/hostname":{{}},"f:node.kubernetes.io/instance-type":{{}}}}}},"f:status":{{"f:conditions":{{}},"f:images":{{}},"f:nodeInfo":{{}}}}}},"subresource":"status"}}]}},"spec":{{"podCIDR":"10.{}.{}.0/24","providerID":"cloud:///zone-{zone}/i-{:016x}"}},"status":{{"capacity":{{"cpu":"16","ephemeral-storage":"209702892Ki","hugepages-1Gi":"0","memory":"64871324Ki","pods":"110"}},"allocatable":{{"cpu":"15890m","ephemeral-storage":"192188443124","hugepages-1Gi":"0","memory":"61795228Ki","pods":"110"}},"conditions":["#,
        number * 0x9e37_79b9,
        number / 256 % 256,
        number % 256,
        number * 0x9e37_79b9,
    );
    for (at, condition) in ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .iter()
        .enumerate()
    {
        let comma = if at > 0 { "," } else { "" };
        let _ = write!(
            out,
            r#"{comma}{{"type":"{condition}","status":"{}","lastHeartbeatTime":"2026-11-20T09:10:11Z","lastTransitionTime":"2026-10-02T08:12:13Z","reason":"Kubelet","message":"kubelet reports {condition}"}}"#,
            if *condition == "Ready" {
                "True"
            } else {
                "False"
            },
        );
    }
    let _ = write!(
        out,
        r#"],"addresses":[{{"type":"InternalIP","address":"10.0.{}.{}"}},{{"type":"Hostname","address":"node-{number:06}"}}],"daemonEndpoints":{{"kubeletEndpoint":{{"Port":10250}}}},"nodeInfo":{{"machineID":"{number:032x}","systemUUID":"{number:032x}","bootID":"{number:032x}","kernelVersion":"6.12.41","osImage":"Linux 12","containerRuntimeVersion":"containerd://2.1.4","kubeletVersion":"v1.36.2","kubeProxyVersion":"","operatingSystem":"linux","architecture":"amd64"}},"images":["#,
        number / 256 % 256,
        number % 256,
    );
    for image in 0..IMAGES {
        let comma = if image > 0 { "," } else { "" };
        // Nodes of a pool have similar images.
        let id = (image * 131 + pool * 17).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let _ = write!(
            out,
            r#"{comma}{{"names":["registry.example.com/platform/service-{image}@sha256:{id:016x}{id:016x}{id:016x}{id:016x}","registry.example.com/platform/service-{image}:v1.{pool}.{image}"],"sizeBytes":{}}}"#,
            20_000_000 + id % 400_000_000,
        );
    }
    out.push_str("]}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_json_of_the_expected_size() {
        let mut text = String::new();
        write(&mut text, 77_777);
        let node: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(node["metadata"]["name"], "node-077777");
        assert!((13_200..13_600).contains(&text.len()), "{}", text.len());
    }
}
