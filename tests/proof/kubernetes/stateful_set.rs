//! A `StatefulSet`, with an update from the highest ordinal to the lowest.
#![expect(clippy::disallowed_methods, reason = "the test measures time")]

use std::time::Instant;

use serde_json::Value;

use super::pod::{Node, Pod, wait_until_available};
use super::{count, has_only, items, seconds, text};
use crate::broker::wait;

/// A pod that was replaced.
#[derive(Clone, Debug)]
pub(crate) struct Replacement {
    pub(crate) pod: String,
    /// Whether it judged when it was deleted.
    pub(crate) judged: bool,
    pub(crate) deleted: Instant,
    /// When it had stopped, and the new one was started.
    pub(crate) replaced: Instant,
    /// When the new one had been ready for `minReadySeconds`.
    pub(crate) available: Instant,
}

/// The running pods, by ordinal.
#[derive(Debug)]
pub(crate) struct StatefulSet {
    node: Node,
    object: Value,
    pods: Vec<Pod>,
}

impl StatefulSet {
    /// Creates the pods: all at once, or each when the one before is available.
    pub(crate) fn create(node: &Node, object: &Value) -> Self {
        let mut this = Self { node: node.clone(), object: object.clone(), pods: Vec::new() };
        let spec = &object["spec"];
        for ordinal in 0..count(&spec["replicas"], 1) {
            this.pods.push(this.pod(ordinal));
            if spec["podManagementPolicy"] != "Parallel" {
                this.wait_until_available();
            }
        }
        this
    }

    pub(crate) fn wait_until_available(&mut self) {
        let min_ready = seconds(&self.object["spec"]["minReadySeconds"], 0);
        wait_until_available(&mut self.pods, min_ready);
    }

    pub(crate) fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// Replaces the pods if the template has changed, one at a time, each when all of the others are available.
    pub(crate) fn update(&mut self, object: &Value) -> Vec<Replacement> {
        let former = std::mem::replace(&mut self.object, object.clone());
        let (before, after) = (&former["spec"], &object["spec"]);
        for fixed in ["replicas", "serviceName", "volumeClaimTemplates"] {
            assert_eq!(before[fixed], after[fixed], "the test does not act out a change of {fixed}");
        }
        let strategy = &after["updateStrategy"];
        has_only("updateStrategy", strategy, &["rollingUpdate", "type"]);
        has_only("rollingUpdate", &strategy["rollingUpdate"], &["partition"]);
        assert_eq!(strategy["type"], "RollingUpdate", "the test does not act out {strategy}");
        let kept = count(&strategy["rollingUpdate"]["partition"], 0);
        if before["template"] == after["template"] {
            return Vec::new();
        }
        (kept..self.pods.len()).rev().map(|ordinal| self.replace(ordinal)).collect()
    }

    /// Replaces a pod when all of the others are available, as `kubectl delete pod` does.
    pub(crate) fn replace(&mut self, ordinal: usize) -> Replacement {
        self.wait_until_available();
        let judge = self.judge();
        let pod = self.pods.remove(ordinal);
        let (name, judged, deleted) = (pod.instance().name().to_owned(), judge == ordinal, Instant::now());
        pod.terminate();
        let replaced = Instant::now();
        self.pods.insert(ordinal, self.pod(ordinal));
        self.wait_until_available();
        Replacement { pod: name, judged, deleted, replaced, available: Instant::now() }
    }

    /// The ordinal of the pod that judges. Waits for one.
    pub(crate) fn judge(&self) -> usize {
        wait::until("a judge", || self.pods.iter().position(|pod| pod.instance().judges()))
    }

    /// Stops all pods, as `kubectl scale --replicas=0` does.
    pub(crate) fn scale_to_zero(self) {
        self.pods.into_iter().rev().for_each(Pod::terminate);
    }

    fn pod(&self, ordinal: usize) -> Pod {
        let spec = &self.object["spec"];
        let name = format!("{}-{ordinal}", text(&self.object["metadata"]["name"]));
        Pod::start(&self.node, &name, &spec["template"], items(&spec["volumeClaimTemplates"]))
    }
}
