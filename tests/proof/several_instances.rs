//! Several instances of one deployment, and their roles.

use serde_json::{Value, json};

use crate::broker::wait;
use crate::cluster::Cluster;
use crate::cluster::instance::Instance;
use crate::cluster::records::TopicReader;

/// The running instances, and a supervisor that restarts those that have ended by themselves.
pub(crate) struct Team<'c> {
    cluster: &'c Cluster<'c>,
    members: Vec<Member>,
    /// Number of restarts.
    revived: usize,
}

struct Member {
    instance: Instance,
    config: Value,
}

impl<'c> Team<'c> {
    pub(crate) fn new(cluster: &'c Cluster<'c>) -> Self {
        Self { cluster, members: Vec::new(), revived: 0 }
    }

    /// Starts an instance with both roles and static membership.
    pub(crate) fn join(&mut self, name: &str) {
        self.join_as(name, json!({ "input": { "instance_id": name } }));
    }

    /// Starts an instance with this configuration in addition to the deployment's. Without an instance id its
    /// membership is dynamic.
    pub(crate) fn join_as(&mut self, name: &str, config: Value) {
        let instance = self.cluster.start_with(name, config.clone());
        self.members.push(Member { instance, config });
    }

    /// Waits until each one is ready. One that ends meanwhile is started again.
    pub(crate) fn wait_ready(&mut self) {
        let names: Vec<String> = self.members().map(|member| member.name().to_owned()).collect();
        names.iter().for_each(|name| self.wait_until_ready(name));
    }

    /// Waits until one is ready. Those that end meanwhile are started again.
    pub(crate) fn wait_until_ready(&mut self, name: &str) {
        wait::until(&format!("{name} to be ready"), || {
            self.revive();
            self.member(name).is_ready().then_some(())
        });
    }

    pub(crate) fn members(&self) -> impl Iterator<Item = &Instance> {
        self.members.iter().map(|member| &member.instance)
    }

    pub(crate) fn member(&self, name: &str) -> &Instance {
        self.members().find(|member| member.name() == name).expect("a member of this name")
    }

    /// Waits until there are `count` records in the outputs.
    pub(crate) fn deliver(&mut self, out: &mut TopicReader, count: usize) {
        out.wait_while(count, || self.revive());
    }

    /// Name of the instance that judges, other than `but`, once there is one.
    pub(crate) fn judge_other_than(&mut self, but: &str) -> String {
        wait::until("a judge", || {
            self.revive();
            self.members().find(|member| member.name() != but && member.judges()).map(|member| member.name().to_owned())
        })
    }

    pub(crate) fn judge(&mut self) -> String {
        self.judge_other_than("")
    }

    /// Name of an instance that owns input partitions and does not judge.
    pub(crate) fn plain_worker(&mut self) -> String {
        wait::until("a worker that does not judge", || {
            self.revive();
            let mut workers = self.members().filter(|member| member.is_ready() && member.partitions() > 0.0);
            workers.find(|member| !member.judges()).map(|member| member.name().to_owned())
        })
    }

    /// Waits until the others own all `partitions` of the input.
    pub(crate) fn wait_for_others_to_own(&mut self, partitions: f64, but: &str) {
        wait::until("the others to own all partitions", || {
            self.revive();
            let owned: f64 = self.members().filter(|member| member.name() != but).map(Instance::partitions).sum();
            (owned >= partitions).then_some(())
        });
    }

    /// Stops an instance cleanly.
    pub(crate) fn leave(&mut self, name: &str) {
        self.take(name).stop();
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self, name: &str) {
        self.take(name).kill();
    }

    fn take(&mut self, name: &str) -> Instance {
        let place = self.members.iter().position(|member| member.instance.name() == name).expect("a member");
        self.members.remove(place).instance
    }

    /// Restarts those that have ended by themselves, as a supervisor would: a worker ends if the coordinator has timed
    /// out its transaction. None may have ended with a bug (code 70) or been killed.
    fn revive(&mut self) {
        for Member { instance, config } in &mut self.members {
            if let Some(status) = instance.has_ended() {
                let name = instance.name().to_owned();
                assert!(!matches!(status.code(), None | Some(70 | 101)), "{name} ended with {status}");
                let log = instance.log();
                let why = log.lines().rev().find(|line| line.contains(r#""level":"error""#)).unwrap_or_default();
                eprintln!("{name} ended with {status} and is started again: {why}");
                *instance = self.cluster.start_with(&name, config.clone());
                self.revived += 1;
            }
        }
    }

    /// Stops all cleanly, and prints the number of restarts.
    pub(crate) fn disband(mut self) -> usize {
        self.wait_ready();
        self.members.into_iter().for_each(|member| member.instance.stop());
        self.revived
    }
}
