//! The subresources of Pods that only a POST uses: `eviction` and `binding`.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use informer_core::selector::LabelSelector;
use serde_json::{Value, json};

use super::options::DeleteOptions;
use super::target::{Target, text};
use super::{Done, parse, scale};
use crate::server::{FakeServer, MutationError};
use crate::status::Status;
use crate::store::key;

impl FakeServer {
    /// Deletes a Pod, if its budget allows it.
    pub(super) fn evict(
        &mut self,
        target: &Target<'_>,
        name: &str,
        body: &[u8],
    ) -> Result<Done, Status> {
        let eviction = parse(body)?;
        check_name(&eviction, name, "Eviction")?;
        let mut options = DeleteOptions::read(target.query, &eviction["deleteOptions"])?;
        options.is_dry |= target.is_dry;
        let pod = self
            .current(target, name)
            .ok_or_else(|| target.refused(MutationError::NotFound, name))?;
        let is_deleted = text(&pod, "deletionTimestamp").is_some();
        let phase = pod["status"]["phase"].as_str().unwrap_or_default();
        if !is_deleted && !["Pending", "Succeeded", "Failed"].contains(&phase) {
            self.use_budget(target, name, &pod, options.is_dry)?;
        }
        self.remove_one(target, name, pod, &options)?;
        Ok(done())
    }

    /// Takes one disruption from the budget of a Pod.
    fn use_budget(
        &mut self,
        target: &Target<'_>,
        name: &str,
        pod: &Value,
        is_dry: bool,
    ) -> Result<(), Status> {
        let index = self
            .store
            .kinds()
            .position(|kind| !kind.custom && kind.plural == "poddisruptionbudgets");
        let Some(index) = index else { return Ok(()) };
        let prefix = [target.namespace(), "/"].concat();
        let budgets = self.store.at(index, self.store.version, &prefix, None);
        let keys = budgets.map(|budget| key(&budget.namespace, &budget.name));
        let budgets = keys.collect::<Vec<String>>().into_iter();
        let mut budgets = budgets
            .filter_map(|key| self.value_at(index, &key))
            .filter(|budget| selects(&budget["spec"]["selector"], pod));
        let Some(mut budget) = budgets.next() else {
            return Ok(());
        };
        if budgets.next().is_some() {
            let message = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
            let text = ["Internal error occurred: ", message].concat();
            let details = json!({ "causes": [{ "message": message }] });
            return Err(Status::new(500, "InternalError", text).details(details));
        }
        let own = text(&budget, "name").unwrap_or_default().to_string();
        let number = |budget: &Value, place: &str| {
            budget.pointer(place).and_then(Value::as_i64).unwrap_or(0)
        };
        if number(&budget, "/status/observedGeneration") < number(&budget, "/metadata/generation") {
            let message = [
                "The disruption budget ",
                &own,
                " is still being processed by the server.",
            ];
            return Err(over_budget(&message.concat(), Some(10)));
        }
        let allowed = number(&budget, "/status/disruptionsAllowed");
        let (desired, current) = (
            number(&budget, "/status/desiredHealthy"),
            number(&budget, "/status/currentHealthy"),
        );
        // A Pod that is not ready is no part of what the budget protects.
        let always = budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow";
        if is_unready(pod) && (always || desired > 0 && current >= desired) {
            return Ok(());
        }
        if allowed <= 0 {
            let (desired, current) = (desired.to_string(), current.to_string());
            let message = [
                "The disruption budget ",
                &own,
                " needs ",
                &desired,
                " healthy pods and has ",
                &current,
                " currently",
            ];
            return Err(over_budget(&message.concat(), None));
        }
        if is_dry {
            return Ok(());
        }
        let existing = budget.clone();
        let time = self.time();
        let generation = number(&budget, "/status/observedGeneration");
        let status = &mut budget["status"];
        status["disruptionsAllowed"] = (allowed - 1).into();
        status["disruptedPods"][name] = time.as_str().into();
        let (is_allowed, reason) = match allowed {
            1 => ("False", "InsufficientPods"),
            _ => ("True", "SufficientPods"),
        };
        set_condition(
            status,
            json!({
                "type": "DisruptionAllowed", "status": is_allowed, "observedGeneration": generation,
                "lastTransitionTime": time, "reason": reason, "message": "",
            }),
        );
        self.put_status(index, &existing, budget);
        Ok(())
    }

    /// Assigns a Pod to a Node.
    pub(super) fn bind(
        &mut self,
        target: &Target<'_>,
        name: &str,
        body: &[u8],
    ) -> Result<Done, Status> {
        let binding = parse(body)?;
        check_name(&binding, name, "Binding")?;
        let node = binding["target"]["name"].as_str().unwrap_or_default();
        let mut pod = self
            .current(target, name)
            .ok_or_else(|| Status::no_such_object("", "pods", name))?;
        let problem = match pod["spec"]["nodeName"].as_str() {
            Some(own) if !own.is_empty() => {
                ["pod ", name, " is already assigned to node \"", own, "\""].concat()
            }
            _ if text(&pod, "deletionTimestamp").is_some() => [
                "pod ",
                name,
                " is being deleted, cannot be assigned to a host",
            ]
            .concat(),
            _ => String::new(),
        };
        if !problem.is_empty() {
            let message = [
                "Operation cannot be fulfilled on pods/binding \"",
                name,
                "\": ",
            ];
            let details = json!({ "name": name, "kind": "pods/binding" });
            let message = message.concat() + &problem;
            return Err(Status::new(409, "Conflict", message).details(details));
        }
        if node.is_empty() {
            return Err(Status::bad_request("target.name: Required value"));
        }
        pod["spec"]["nodeName"] = node.into();
        let time = self.time();
        set_condition(
            &mut pod["status"],
            json!({
                "type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": time,
            }),
        );
        self.commit(target, 201, pod, target.is_dry)?;
        Ok(done())
    }
}

fn check_name(object: &Value, name: &str, kind: &str) -> Result<(), Status> {
    if text(object, "name") == Some(name) {
        return Ok(());
    }
    let message = ["name in URL does not match name in ", kind, " object"];
    Err(Status::bad_request(message.concat()))
}

/// Returns whether a Pod says that it is not ready. One that says nothing counts as ready.
fn is_unready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready" && condition["status"] != "True")
}

/// Returns whether a selector in an object selects another object. One that is absent selects none.
fn selects(selector: &Value, object: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let text = scale::selector(selector);
    let selector = text.and_then(|text| LabelSelector::parse(&text).ok());
    let labels = object["metadata"]["labels"].as_object();
    let labels = labels.into_iter().flatten();
    let labels: Vec<(&str, &str)> = labels
        .filter_map(|(name, value)| Some((name.as_str(), value.as_str()?)))
        .collect();
    selector.is_some_and(|selector| selector.matches(labels.as_slice()))
}

/// The response to an eviction that the budget does not allow.
fn over_budget(message: &str, seconds: Option<u64>) -> Status {
    let mut details = json!({ "causes": [{ "reason": "DisruptionBudget", "message": message }] });
    if let Some(seconds) = seconds {
        details["retryAfterSeconds"] = seconds.into();
    }
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    Status::new(429, "TooManyRequests", text).details(details)
}

/// Sets a condition of a status.
fn set_condition(status: &mut Value, condition: Value) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Value::Array(conditions) = &mut status["conditions"] else {
        return;
    };
    let same = |own: &&mut Value| own["type"] == condition["type"];
    match conditions.iter_mut().find(same) {
        Some(own) => *own = condition,
        None => conditions.push(condition),
    }
}

fn done() -> Done {
    let body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201 });
    (201, body.to_string().into_bytes())
}
