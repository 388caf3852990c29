//! What `check` says of permissions that only trying tells: to write, to trim, to create, to be a member.

use std::collections::BTreeSet;

use super::rows::{Row, State};
use crate::config::settings::Settings;
use crate::kafka::admin::LogKind;
use crate::kafka::errors::Denied;
use crate::kafka::inspector::{ClusterError, ClusterInspector, TopicPlan, TopicView};
use crate::runtime::service_context;

/// Puts what is not permitted beside what else was seen. A row that says all is well is left out then.
pub(super) fn with(rows: Vec<Row>, denied: Vec<Row>) -> Vec<Row> {
    let keep = |row: &Row| denied.is_empty() || (row.state != State::Ok && !denied.contains(row));
    let mut rows: Vec<Row> = rows.into_iter().filter(keep).collect();
    rows.extend(denied);
    rows
}

/// Whether records may be written to this topic.
pub(super) fn write(inspector: &ClusterInspector, topic: &str) -> Vec<Row> {
    inspector.may_write(topic).err().iter().map(|cluster_error| Row::cluster_error(topic, cluster_error)).collect()
}

/// Whether a log that is not there may be created; `create` is the command for somebody else to do it.
pub(super) fn new_log(inspector: &ClusterInspector, plan: &TopicPlan, create: &str) -> Vec<Row> {
    let refused = inspector.may_create(plan).err();
    let row = |cluster_error: &ClusterError| {
        let row = Row::cluster_error(&plan.name, cluster_error);
        let fix = row.fix.as_ref().map(|fix| format!("{fix}, or let an authorized user run `{create}`"));
        Row { fix, ..row }
    };
    refused.iter().map(row).collect()
}

/// Whether a log may be read, written and trimmed, as the roles of this instance need it.
pub(super) fn log(settings: &Settings, inspector: &ClusterInspector, kind: LogKind, view: &TopicView) -> Vec<Row> {
    let name = view.name.as_str();
    let (roles, is_asked) = (settings.roles, kind == LogKind::Fingerprints);
    let mut rows = Vec::new();
    // Judges read what is asked; both roles follow what was answered.
    if roles.judge || !is_asked {
        let unread = inspector.ends(name, view.partitions).err();
        rows.extend(unread.iter().map(|cluster_error| Row::cluster_error(name, cluster_error)));
    }
    if if is_asked { roles.worker } else { roles.judge } {
        rows.extend(write(inspector, name));
    }
    if let (true, Err(ClusterError::Denied(denied))) = (roles.judge, inspector.may_delete_records(name)) {
        let text = format!("not authorized: {denied}: the log is never trimmed and grows for ever");
        rows.push(Row::warn(name, text, Some(denied.remedy())));
    }
    rows
}

/// Whether this instance may be a member of the groups of its roles. Without a topic to name nobody can be asked.
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
            let judges = service_context::judge_group(group, &scheme, log);
            inspector.may_join(&judges, topic).err()
        });
        rows.extend(refused.iter().map(|cluster_error| match cluster_error {
            // One ACL for those of every scheme to come.
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
