//! Checks permissions that only a probe shows: to write, to trim, to create, to join a group.

use std::collections::BTreeSet;

use super::rows::{Row, State};
use crate::config::settings::Settings;
use crate::kafka::errors::Denied;
use crate::kafka::inspector::{ClusterError, ClusterInspector, TopicPlan, TopicView};
use crate::kafka::log_topic::LogKind;
use crate::runtime::context;

/// Adds missing permissions to the other findings. They replace rows that report no problem.
pub(super) fn with(rows: Vec<Row>, denied: Vec<Row>) -> Vec<Row> {
    let keep = |row: &Row| denied.is_empty() || (row.state != State::Ok && !denied.contains(row));
    let mut rows: Vec<Row> = rows.into_iter().filter(keep).collect();
    rows.extend(denied);
    rows
}

/// Checks the permission to write to this topic.
pub(super) fn write(inspector: &ClusterInspector, topic: &str) -> Vec<Row> {
    inspector.may_write(topic).err().iter().map(|cluster_error| Row::cluster_error(topic, cluster_error)).collect()
}

/// Checks the permission to create a missing log; `create` is the command for another user.
pub(super) fn new_log(inspector: &ClusterInspector, plan: &TopicPlan, create: &str) -> Vec<Row> {
    let refused = inspector.may_create(plan).err();
    let row = |cluster_error: &ClusterError| {
        let row = Row::cluster_error(&plan.name, cluster_error);
        let fix = row.fix.as_ref().map(|fix| format!("{fix}, or let an authorized user run `{create}`"));
        Row { fix, ..row }
    };
    refused.iter().map(row).collect()
}

/// Checks the permissions to read, write and trim a log that the roles of this instance need.
pub(super) fn log(settings: &Settings, inspector: &ClusterInspector, kind: LogKind, view: &TopicView) -> Vec<Row> {
    let name = view.name.as_str();
    let (roles, is_fingerprints) = (settings.roles, kind == LogKind::Fingerprints);
    let mut rows = Vec::new();
    // Judges read the fingerprint log; both roles follow the verdict log.
    if roles.judge || !is_fingerprints {
        let unread = inspector.ends(name, view.partitions).err();
        rows.extend(unread.iter().map(|cluster_error| Row::cluster_error(name, cluster_error)));
    }
    if if is_fingerprints { roles.worker } else { roles.judge } {
        rows.extend(write(inspector, name));
    }
    if let (true, Err(ClusterError::Denied(denied))) = (roles.judge, inspector.may_delete_records(name)) {
        let text = format!("not authorized: {denied}: the log is never trimmed and grows without limit");
        rows.push(Row::warn(name, text, Some(denied.remedy())));
    }
    rows
}

/// Checks the permission to join the groups of the instance's roles. The probe needs an existing topic.
pub(super) fn groups(settings: &Settings, inspector: &ClusterInspector, input: &[TopicView]) -> Vec<Row> {
    let Some(topic) = input.first().map(|view| view.name.as_str()) else { return Vec::new() };
    let mut rows = Vec::new();
    let group = settings.input.group.as_str();
    if settings.roles.worker {
        rows.extend(
            inspector
                .may_join(group, topic)
                .err()
                .iter()
                .map(|cluster_error| Row::cluster_error("group", cluster_error)),
        );
    }
    if settings.roles.judge {
        let scheme = settings.scheme().to_string();
        let served: BTreeSet<u32> = settings.judge.served_partitions.iter().copied().collect();
        let refused = served.iter().find_map(|log| {
            let judges = context::judge_group(group, &scheme, log);
            inspector.may_join(&judges, topic).err()
        });
        rows.extend(refused.iter().map(|cluster_error| match cluster_error {
            // Suggest one prefixed ACL, which covers the groups of all schemes.
            ClusterError::Denied(denied) => {
                let of_all = Denied { name: format!("{group}.judge."), ..denied.clone() };
                let text = format!("not authorized: {} on group {}*", of_all.operation, of_all.name);
                let fix = of_all.remedy() + " --resource-pattern-type prefixed";
                Row { is_denied: true, ..Row::fail("group", text, Some(fix)) }
            }
            ClusterError::Identity(_) | ClusterError::Unavailable(_) => Row::cluster_error("group", cluster_error),
        }));
    }
    rows
}
