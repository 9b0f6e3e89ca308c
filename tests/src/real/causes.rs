//! The order of the causes in a Status of kube-apiserver.

use serde_json::Value;

/// Sorts the causes of an invalid object that follow each other for the same field, in the details and in the message.
/// Their order is not promised: the server validates labels in the order of a Go map, which is random.
pub fn sort_causes(status: &mut Value) {
    let text = |cause: &Value, member: &str| cause[member].as_str().unwrap_or_default().to_owned();
    let line = |cause: &Value| format!("{}: {}", text(cause, "field"), text(cause, "message"));
    let Some(Value::Array(causes)) = status.pointer_mut("/details/causes") else {
        return;
    };
    let listed = |causes: &[Value]| {
        let mut lines: Vec<String> = Vec::new();
        for line in causes.iter().map(line) {
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        format!("[{}]", lines.join(", "))
    };
    let before = listed(causes);
    for same in causes.chunk_by_mut(|a, b| a["field"] == b["field"]) {
        same.sort_by_key(|cause| (line(cause), text(cause, "reason")));
    }
    let after = listed(causes);
    if let Some(Value::String(message)) = status.get_mut("message") {
        *message = message.replace(&before, &after);
    }
}

#[cfg(test)]
mod tests {
    use super::sort_causes;
    use serde_json::json;

    #[test]
    fn the_order_of_causes_is_not_compared() {
        let status = |[first, second]: [&str; 2]| {
            let cause = |message| json!({ "reason": "FieldValueInvalid", "message": message, "field": "metadata.labels" });
            let mut status = json!({
                "message": format!("Pod \"a\" is invalid: [metadata.labels: {first}, metadata.labels: {second}]"),
                "details": { "causes": [cause(first), cause(second)] },
            });
            sort_causes(&mut status);
            status
        };
        assert_eq!(status(["one", "two"]), status(["two", "one"]));
        assert_ne!(status(["one", "two"]), status(["one", "three"]));
    }
}
