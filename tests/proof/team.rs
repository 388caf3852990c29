//! Several instances of one deployment, and who of them does what.

use serde_json::{Value, json};

use crate::broker::wait;
use crate::cluster::Cluster;
use crate::cluster::instance::Instance;

/// The instances that run now.
pub(crate) struct Team<'c> {
    cluster: &'c Cluster<'c>,
    members: Vec<Instance>,
}

impl<'c> Team<'c> {
    pub(crate) fn new(cluster: &'c Cluster<'c>) -> Self {
        Self { cluster, members: Vec::new() }
    }

    /// Starts an instance with both roles and static membership.
    pub(crate) fn join(&mut self, name: &str) {
        self.join_as(name, json!({ "input": { "instance_id": name } }));
    }

    /// Starts an instance with this configuration beside the deployment's. Without an instance id its membership is
    /// dynamic.
    pub(crate) fn join_as(&mut self, name: &str, config: Value) {
        self.members.push(self.cluster.start_with(name, config));
    }

    pub(crate) fn wait_ready(&mut self) {
        self.members.iter_mut().for_each(Instance::wait_ready);
    }

    pub(crate) fn member(&mut self, name: &str) -> &mut Instance {
        self.members.iter_mut().find(|member| member.name() == name).expect("a member of this name")
    }

    pub(crate) fn members(&self) -> &[Instance] {
        &self.members
    }

    /// Name of the instance that judges, other than `but`, once there is one.
    pub(crate) fn judge_other_than(&self, but: &str) -> String {
        wait::until("a judge", || {
            let judge = self.members.iter().find(|member| member.name() != but && member.judges());
            judge.map(|member| member.name().to_owned())
        })
    }

    pub(crate) fn judge(&self) -> String {
        self.judge_other_than("")
    }

    /// Name of an instance that owns input partitions and does not judge.
    pub(crate) fn plain_worker(&self) -> String {
        wait::until("a worker that does not judge", || {
            let worker = self.members.iter().find(|member| !member.judges() && member.partitions() > 0.0);
            worker.map(|member| member.name().to_owned())
        })
    }

    /// Waits until the others own all `partitions` of the input.
    pub(crate) fn wait_for_others_to_own(&self, partitions: f64, but: &str) {
        wait::until("the others to own all partitions", || {
            let owned: f64 = self.members.iter().filter(|member| member.name() != but).map(Instance::partitions).sum();
            (owned >= partitions).then_some(())
        });
    }

    /// Lets an instance that judges no more stop cleanly, or any other.
    pub(crate) fn leave(&mut self, name: &str) {
        let place = self.members.iter().position(|member| member.name() == name).expect("a member of this name");
        self.members.remove(place).stop();
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, name: &str) {
        let place = self.members.iter().position(|member| member.name() == name).expect("a member of this name");
        self.members.remove(place).kill();
    }

    /// Starts those again that have ended by themselves, as a supervisor would, and says who. None of them may have
    /// found a bug in itself.
    pub(crate) fn revive(&mut self) -> Vec<String> {
        let mut ended = Vec::new();
        for member in &mut self.members {
            if let Some(status) = member.has_ended() {
                assert!(!matches!(status.code(), None | Some(70 | 101)), "{} ended with {status}", member.name());
                ended.push(member.name().to_owned());
            }
        }
        for name in &ended {
            self.members.retain(|member| member.name() != name);
            self.join(name);
        }
        ended
    }

    /// Stops everybody cleanly.
    pub(crate) fn disband(self) {
        self.members.into_iter().for_each(Instance::stop);
    }
}
