use informer_core::Form;

use super::*;

fn pod(number: usize, word: &str) -> String {
    let mut env = String::new();
    for i in 0..40 {
        env.push_str(&format!(
            r#"{{"name":"{word}_SETTING_{i}","value":"{}"}},"#,
            i * 7 % 11
        ));
    }
    format!(
        r#"{{"metadata":{{"name":"{word}-{number}","labels":{{"app":"{word}"}},"managedFields":[{{}}]}},"spec":{{"nodeName":"n{}","env":[{env}null]}}}}"#,
        number % 10
    )
}

fn keep(packed: &Packer, json: &str) -> Packed<Raw> {
    packed.decode(&RawObject::parse(json.as_bytes())).unwrap()
}

#[test]
fn bytes_come_back_as_they_were_with_and_without_a_dictionary() {
    let packed = Packer::new();
    let pods: Vec<String> = (0..400).map(|i| pod(i, "web")).collect();
    let kept: Vec<_> = pods.iter().map(|json| keep(&packed, json)).collect();
    assert!(kept[0].shelf.dictionary.is_none() && kept[399].shelf.dictionary.is_some());
    // These are so repetitive that they compress well without a dictionary.
    assert!(kept[399].packed.len() * 3 < kept[0].packed.len() * 2);
    for (json, kept) in pods.iter().zip(&kept) {
        assert_eq!(kept.unpack().unwrap().bytes(), json.as_bytes());
    }
    assert_eq!(
        kept[7].string_at(&["spec", "nodeName"]).unwrap().unwrap(),
        "n7"
    );
    let mut labels = Vec::new();
    Packed::<Raw>::with_labels(&kept[7], &mut |json| labels.push(json.to_vec()));
    assert_eq!(labels, [br#"{"app":"web"}"#.to_vec()]);
}

#[test]
fn a_dictionary_is_renewed_when_objects_change_and_the_old_one_stays_readable() {
    let packed = Packer::new();
    let old: Vec<_> = (0..2000).map(|i| keep(&packed, &pod(i, "web"))).collect();
    let other = |i: usize| {
        let words: String = (0..60)
            .map(|k| {
                format!(
                    r#""field-{}-of-another-kind":{{"deep":[{k},"x{k}"]}},"#,
                    k * 31 % 97
                )
            })
            .collect();
        format!(r#"{{"metadata":{{"name":"o{i}"}},{words}"end":{i}}}"#)
    };
    let new: Vec<_> = (0..3000).map(|i| keep(&packed, &other(i))).collect();
    let of = |kept: &Packed<Raw>| Arc::as_ptr(&kept.shelf);
    assert_ne!(of(&old[1999]), of(&new[2999]));
    assert!(new[2999].packed.len() * 2 < new[0].packed.len());
    // Also those that led to a new dictionary.
    for (number, kept) in old.iter().enumerate() {
        assert_eq!(
            kept.unpack().unwrap().bytes(),
            pod(number, "web").as_bytes()
        );
    }
    for (number, kept) in new.iter().enumerate() {
        assert_eq!(kept.unpack().unwrap().bytes(), other(number).as_bytes());
    }
}

#[test]
fn parts_are_left_out_before_packing() {
    let kept = keep(&Packer::new().prune(Prune::NOISE), &pod(1, "web"));
    let json = kept.unpack().unwrap();
    assert_eq!(json.at(&["metadata", "managedFields"]), None);
    assert!(json.at(&["metadata", "labels"]).is_some());
}

#[test]
fn a_reader_may_read_another_object() {
    let packed = Packer::new();
    let (a, b) = (keep(&packed, &pod(1, "a")), keep(&packed, &pod(2, "b")));
    let both = a
        .read(|a| b.read(|b| (a.to_vec(), b.to_vec())).unwrap())
        .unwrap();
    assert_eq!(both.0, pod(1, "a").as_bytes());
    assert_eq!(both.1, pod(2, "b").as_bytes());
}

#[derive(serde::Deserialize)]
struct Pod {
    spec: Spec,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: String,
}

fn typed(packer: &Packer<Pod>, json: &str) -> Packed<Pod> {
    packer.decode(&RawObject::parse(json.as_bytes())).unwrap()
}

#[test]
fn an_object_is_decoded_once_while_it_is_in_use() {
    let packer = Packer::<Pod>::new().keep_decoded(2);
    // The last ones are compressed with a dictionary.
    let kept: Vec<_> = (0..400).map(|i| typed(&packer, &pod(i, "web"))).collect();
    let (first, last) = (kept[0].get().unwrap(), kept[399].get().unwrap());
    assert_eq!(
        (&*first.spec.node_name, &*last.spec.node_name),
        ("n0", "n9")
    );
    assert!(Arc::ptr_eq(&first, &kept[0].clone().get().unwrap()));
    kept[1].get().unwrap();
    assert!(Arc::ptr_eq(&first, &kept[0].get().unwrap()));
    assert!(!Arc::ptr_eq(&last, &kept[399].get().unwrap()));
    assert_eq!(Arc::strong_count(&last), 1, "it made room");
}

#[test]
fn labels_and_paths_are_read_without_decoding() {
    let packer = Packer::<Pod>::new();
    // It is not a `Pod` of this type, which has a node.
    let json = r#"{"metadata":{"name":"a","labels":{"app":"web"}},"spec":{"hostname":"h"}}"#;
    let kept = typed(&packer, json);
    let mut labels = Vec::new();
    Packed::<Pod>::with_labels(&kept, &mut |json| labels.push(json.to_vec()));
    assert_eq!(labels, [br#"{"app":"web"}"#.to_vec()]);
    let host = kept.string_at(&["spec", "hostname"]).unwrap();
    assert_eq!(host.as_deref(), Some("h"));
    for _ in 0..2 {
        let error = kept.get().map(|_| ()).unwrap_err().to_string();
        assert_eq!(
            error,
            "the stored object cannot be decoded: missing field `nodeName` at line 1 column 71"
        );
    }
}
