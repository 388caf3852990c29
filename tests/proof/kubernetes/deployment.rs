//! A `Deployment`, with a rolling update.

use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::Value;

use super::pod::{Node, Pod, wait_until_available};
use super::{count, has_only, seconds, text};
use crate::broker::wait;

/// The running pods.
#[derive(Debug)]
pub(crate) struct Deployment {
    node: Node,
    object: Value,
    pods: Vec<Pod>,
    /// Number of pods that were ever started, for their names.
    started: usize,
}

impl Deployment {
    /// Creates the pods.
    pub(crate) fn create(node: &Node, object: &Value) -> Self {
        let mut this = Self { node: node.clone(), object: object.clone(), pods: Vec::new(), started: 0 };
        while this.pods.len() < this.replicas() {
            let pod = this.pod();
            this.pods.push(pod);
        }
        this
    }

    pub(crate) fn wait_until_available(&mut self) {
        let min_ready = self.min_ready();
        wait_until_available(&mut self.pods, min_ready);
    }

    pub(crate) fn pods(&self) -> &[Pod] {
        &self.pods
    }

    /// Replaces the pods if the template has changed: new ones are started before old ones are stopped as far as
    /// `maxSurge` allows, and old ones are stopped as far as `maxUnavailable` allows.
    pub(crate) fn update(&mut self, object: &Value) {
        let before = std::mem::replace(&mut self.object, object.clone());
        let strategy = &object["spec"]["strategy"];
        has_only("strategy", strategy, &["rollingUpdate", "type"]);
        assert_eq!(strategy["type"], "RollingUpdate", "the test does not act out {strategy}");
        let limit = |name: &str| {
            let limit = &strategy["rollingUpdate"][name];
            assert!(limit.is_u64(), "the test does not act out percentages, or their default: {strategy}");
            count(limit, 0)
        };
        let (surge, unavailable) = (limit("maxSurge"), limit("maxUnavailable"));
        if before["spec"]["template"] == object["spec"]["template"] {
            return;
        }
        let mut old = std::mem::take(&mut self.pods);
        let mut stopping: Vec<JoinHandle<()>> = Vec::new();
        let (replicas, min_ready) = (self.replicas(), self.min_ready());
        wait::until("the update of the Deployment", || {
            while self.pods.len() < replicas && self.pods.len() + old.len() < replicas + surge {
                let pod = self.pod();
                self.pods.push(pod);
            }
            let all = self.pods.iter_mut().chain(&mut old);
            let available = all.filter_map(|pod| pod.is_available(min_ready).then_some(())).count();
            let stoppable = (available + unavailable).saturating_sub(replicas).min(old.len());
            for pod in old.drain(..stoppable) {
                // The controller does not wait for its end.
                stopping.push(std::thread::spawn(|| pod.terminate()));
            }
            (old.is_empty() && available >= replicas && self.pods.len() == replicas).then_some(())
        });
        self.wait_until_available();
        for pod in stopping {
            pod.join().expect("the pod ends well");
        }
    }

    /// Stops all pods, as `kubectl scale --replicas=0` does.
    pub(crate) fn scale_to_zero(self) {
        self.pods.into_iter().for_each(Pod::terminate);
    }

    fn replicas(&self) -> usize {
        count(&self.object["spec"]["replicas"], 1)
    }

    fn min_ready(&self) -> Duration {
        seconds(&self.object["spec"]["minReadySeconds"], 0)
    }

    fn pod(&mut self) -> Pod {
        self.started += 1;
        let name = format!("{}-{:05}", text(&self.object["metadata"]["name"]), self.started);
        Pod::start(&self.node, &name, &self.object["spec"]["template"], &[])
    }
}
