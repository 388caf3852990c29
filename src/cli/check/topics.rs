//! Checks topics, and the permissions that only a probe shows: to write, to trim, to create, to join a group.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dupgate_core::worker::MAX_HEADER_BYTES;

use super::{Row, State};
use crate::cli::output;
use crate::cli::topics::{Inherited, max_document, output_bytes};
use crate::config::raw::Partition;
use crate::config::settings::Settings;
use crate::context;
use crate::kafka::admin::LogNames;
use crate::kafka::admin::{LogKind, MORE_REPLICAS, alter_command, is_on_one_disk, problems};
use crate::kafka::errors::Denied;
use crate::kafka::inspector::{ClusterError, ClusterInspector, Ends, TopicPlan, TopicView};
use crate::record::Timestamp;

/// Returns the finding of a missing topic, with the command that creates it.
pub(super) fn missing(name: &str, create: String) -> Row {
    Row::fail(name, "topic does not exist".to_owned(), Some(create))
}

/// Finds the logs of other schemes of the service, with one finding for each scheme. They remain after a change of the
/// scheme, and dupgate never deletes them. `names` are all topics of the cluster.
pub(super) fn other_schemes(names: &BTreeSet<String>, settings: &Settings) -> Vec<Row> {
    let (prefix, current) = (&settings.logs.prefix, settings.scheme().to_string());
    let mut logs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in names {
        if let Some(scheme) = LogNames::scheme_of(prefix, name).filter(|scheme| *scheme != current) {
            logs.entry(scheme).or_default().push(name);
        }
    }
    let previous = settings.previous.as_ref().map(|previous| previous.scheme().to_string());
    let row = |(scheme, names): (&str, Vec<&str>)| {
        let kept = names.join(" and ");
        if previous.as_deref() == Some(scheme) {
            return Row::ok(
                "schemes",
                format!(
                    "{kept}: of scheme {scheme}, which decides until the dual period is over (previous); until then text work and requests are those of both"
                ),
            );
        }
        // The command takes regular expressions.
        let pattern = names.iter().map(|name| name.replace('.', "\\.")).collect::<Vec<_>>().join("|");
        let text = format!(
            "{kept}: of scheme {scheme}, while {current} is in use; never deleted, and useful only for a change back, for previous or index warm"
        );
        let remove = format!("kafka-topics.sh --bootstrap-server BROKER --delete --topic '{pattern}'");
        Row::warn("schemes", text, Some(remove))
    };
    logs.into_iter().map(row).collect()
}

/// Checks an input topic: whether it is readable, its records, and whether its timestamps are plausible.
pub(super) fn input(
    view: &TopicView,
    ends: &Result<Ends, ClusterError>,
    now: Timestamp,
    settings: &Settings,
) -> Vec<Row> {
    let ends = match ends {
        Ok(ends) => ends,
        Err(cluster_error) => return vec![Row::cluster_error(&view.name, cluster_error)],
    };
    let bytes = view.number("max.message.bytes").map(|bytes| format!("max.message.bytes {}", size(bytes)));
    let retention = view.number("retention.ms").map(|retention| format!("retention {}", span(retention)));
    let facts = std::iter::once(format!("read; {} partitions", view.partitions)).chain(bytes).chain(retention);
    let mut rows = vec![Row::ok(&view.name, facts.collect::<Vec<_>>().join("; "))];
    if let Err(cluster_error) = &view.settings {
        rows.push(unread_settings(&view.name, cluster_error));
    }
    let limit = settings.rules.max_future_skew;
    if let Some(newest) = ends.newest.filter(|newest| *newest > now.plus(limit)) {
        let ahead = span(i64::try_from(newest.gap_millis(now)).unwrap_or(i64::MAX));
        let limit = output::span(limit);
        let text =
            format!("its newest record is {ahead} ahead of this machine's clock (window.max_future_skew {limit})");
        let fix = "set the clock of this machine, or of the writer of the input".to_owned();
        rows.push(Row::warn("clock", text, Some(fix)));
    } else if let Some(newest) = ends.newest {
        let age = span(now.millis().saturating_sub(newest.millis()).max(0));
        rows.push(Row::ok("clock", format!("newest record of {} is {age} old", view.name)));
    }
    rows
}

/// Checks an output topic against the input.
pub(super) fn output(
    view: &TopicView,
    input: Option<Inherited>,
    oldest: Option<Timestamp>,
    now: Timestamp,
    settings: &Settings,
) -> Vec<Row> {
    let name = view.name.as_str();
    if let Err(cluster_error) = &view.settings {
        return vec![unread_settings(name, cluster_error)];
    }
    let mut rows = Vec::new();
    let mut set = |text: String, name_value: String| {
        rows.push(Row::warn(name, text, Some(alter(name, &name_value))));
    };
    let is_dead = settings.output.dead_letter.as_deref() == Some(name);
    if let (Some(limit), Some(input)) = (view.number("max.message.bytes"), input) {
        let of_document = max_document(settings);
        let of_headers = i64::try_from(MAX_HEADER_BYTES).unwrap_or(i64::MAX);
        let fate = if is_dead { "larger dead letters are cut" } else { "larger pages become dead letters" };
        let found = format!("max.message.bytes {}", size(limit));
        let problem = if limit < input.max_bytes {
            Some(format!("{found} is below the input's {}: {fate}", size(input.max_bytes)))
        } else if limit < of_document {
            let of_document = size(of_document);
            Some(format!("{found} is below input.max_document {of_document}, which compressed pages can reach: {fate}"))
        } else if limit < input.max_bytes.max(of_document).saturating_add(of_headers) {
            Some(format!("{found} leaves no room for our headers"))
        } else {
            None
        };
        if let Some(problem) = problem {
            set(problem, format!("max.message.bytes={}", output_bytes(input.max_bytes, settings)));
        }
    }
    if view.setting("message.timestamp.type") == Some("LogAppendTime") {
        set(
            "takes the brokers' time instead of the page's (message.timestamp.type)".to_owned(),
            "message.timestamp.type=CreateTime".to_owned(),
        );
    }
    let keeps_time = view.setting("message.timestamp.type") != Some("LogAppendTime")
        && settings.output.timestamp == crate::config::settings::TimestampOf::Source;
    if let (Some(retention @ 0..), Some(oldest), true) = (view.number("retention.ms"), oldest, keeps_time) {
        let age = now.millis().saturating_sub(oldest.millis());
        let deletes = view.setting("cleanup.policy").is_none_or(|policy| policy.contains("delete"));
        if age > retention && deletes {
            let (kept, age) = (span(retention), span(age));
            let text = format!(
                "retention.ms ({kept}) is shorter than the oldest input record ({age}): old pages may be deleted on arrival"
            );
            let longer = input.map_or(-1, |input| if input.retention > retention { input.retention } else { -1 });
            set(text, format!("retention.ms={longer}"));
        }
    }
    let keeps_numbers = settings.output.partition == Partition::Same && !is_dead;
    if let Some(input) = input.filter(|input| view.partitions != input.partitions && keeps_numbers) {
        let (own, of_input) = (view.partitions, input.partitions);
        let text = format!("{own} partitions, the input has {of_input}: pages go by key instead of to the same number");
        let fix = format!("kafka-topics.sh --bootstrap-server BROKER --alter --topic {name} --partitions {of_input}");
        rows.push(Row::warn(name, text, (own < of_input).then_some(fix)));
    }
    let (in_sync, replicas, min) = (view.in_sync, view.replicas, view.number("min.insync.replicas").unwrap_or(1));
    if in_sync < usize::try_from(min).unwrap_or(1) {
        let text =
            format!("{in_sync} of {replicas} replicas in sync, min.insync.replicas is {min}: nothing can be written");
        rows.push(Row::fail(name, text, Some("restart the brokers that hold its replicas".to_owned())));
    }
    if rows.is_empty() {
        let same = if input.is_some_and(|input| input.partitions == view.partitions) { " (same as input)" } else { "" };
        rows.push(Row::ok(name, format!("write; {} partitions{same}", view.partitions)));
    }
    rows
}

/// Checks a log against the needs of the protocol.
pub(super) fn log(
    kind: LogKind,
    plan: &TopicPlan,
    view: Option<&TopicView>,
    brokers: usize,
    settings: &Settings,
) -> Vec<Row> {
    let name = plan.name.as_str();
    let Some(view) = view else {
        let text = "does not exist yet: the first start creates it".to_owned();
        let few = low_replication(name, plan.replicas, brokers);
        return std::iter::once(Row::ok(name, text)).chain(few).collect();
    };
    let mut rows = Vec::new();
    if view.partitions != plan.partitions {
        let text = format!("{} partitions, but judge.partitions is {}", view.partitions, plan.partitions);
        rows.push(Row::fail(name, text, Some(format!("set judge.partitions: {}", view.partitions))));
    }
    match &view.settings {
        Err(cluster_error) => {
            rows.push(unread_settings(name, cluster_error));
        }
        Ok(found) => rows.extend(problems(kind, view.replicas, found).into_iter().map(|problem| {
            let fix = Some(alter(name, &format!("{}={}", problem.setting, problem.wanted)));
            let finding = if problem.is_deadly { Row::fail } else { Row::warn };
            finding(name, problem.to_string(), fix)
        })),
    }
    if is_on_one_disk(view.replicas, brokers, settings.logs.replication_factor) {
        let text = format!("one replica on {brokers} brokers: the loss of one broker would lose all verdicts");
        rows.push(Row::fail(name, text, Some(MORE_REPLICAS.to_owned())));
    } else {
        rows.extend(low_replication(name, view.replicas, brokers));
    }
    if rows.is_empty() {
        let keep = output::span(settings.logs.retention);
        rows.push(Row::ok(name, format!("read, write; {} partitions; trimmed after {keep}", view.partitions)));
    }
    rows
}

fn low_replication(name: &str, replication_factor: usize, brokers: usize) -> Option<Row> {
    let possible = brokers.min(3);
    let text =
        format!("replication factor {replication_factor} on {brokers} brokers: a lost broker takes verdicts with it");
    let fix =
        format!("set logs.replication_factor: {possible} before the first start, or kafka-reassign-partitions.sh");
    (replication_factor < possible).then(|| Row::warn(name, text, Some(fix)))
}

fn alter(topic: &str, setting: &str) -> String {
    alter_command(topic, &[setting.to_owned()])
}

fn unread_settings(topic: &str, cluster_error: &ClusterError) -> Row {
    let fix = match cluster_error {
        ClusterError::Denied(denied) => Some(denied.clone().to("DescribeConfigs").remedy()),
        ClusterError::Identity(_) | ClusterError::Unavailable(_) => None,
    };
    Row::warn(topic, format!("failed to read its settings: {cluster_error}"), fix)
}

/// Formats a number of bytes in the largest unit that it reaches.
fn size(bytes: i64) -> String {
    let units = [("GiB", 1_i64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let Some((unit, factor)) = units.iter().find(|(_, factor)| bytes >= *factor) else {
        return format!("{bytes} B");
    };
    let tenths = bytes.saturating_mul(10) / factor;
    match tenths % 10 {
        0 => format!("{} {unit}", tenths / 10),
        tenth => format!("{}.{tenth} {unit}", tenths / 10),
    }
}

/// Formats a number of milliseconds; a negative one means unlimited.
fn span(millis: i64) -> String {
    u64::try_from(millis).map_or_else(|_| "unlimited".to_owned(), |millis| output::span(Duration::from_millis(millis)))
}

/// Adds missing permissions to the other findings. They replace rows that report no problem.
pub(super) fn with_denied(rows: Vec<Row>, denied: Vec<Row>) -> Vec<Row> {
    let keep = |row: &Row| denied.is_empty() || (row.state != State::Ok && !denied.contains(row));
    let mut rows: Vec<Row> = rows.into_iter().filter(keep).collect();
    rows.extend(denied);
    rows
}

/// Checks the permission to write to this topic.
pub(super) fn may_write(inspector: &ClusterInspector, topic: &str) -> Vec<Row> {
    inspector.may_write(topic).err().iter().map(|cluster_error| Row::cluster_error(topic, cluster_error)).collect()
}

/// Checks the permission to create a missing log; `create` is the command for another user.
pub(super) fn may_make_log(inspector: &ClusterInspector, plan: &TopicPlan, create: &str) -> Vec<Row> {
    let row = |cluster_error: ClusterError| {
        let row = Row::cluster_error(&plan.name, &cluster_error);
        let fix = row.fix.as_ref().map(|fix| format!("{fix}, or let an authorized user run `{create}`"));
        Row { fix, ..row }
    };
    inspector.may_create(plan).err().map(row).into_iter().collect()
}

/// Checks the permissions to read, write and trim a log that the roles of this instance need.
pub(super) fn may_use_log(
    settings: &Settings,
    inspector: &ClusterInspector,
    kind: LogKind,
    view: &TopicView,
) -> Vec<Row> {
    let name = view.name.as_str();
    let (roles, is_fingerprints) = (settings.roles, kind == LogKind::Fingerprints);
    let mut rows = Vec::new();
    // Judges read the fingerprint log; both roles follow the verdict log.
    if roles.judge || !is_fingerprints {
        rows.extend(inspector.ends(name, view.partitions).err().map(|error| Row::cluster_error(name, &error)));
    }
    if if is_fingerprints { roles.worker } else { roles.judge } {
        rows.extend(may_write(inspector, name));
    }
    if let (true, Err(ClusterError::Denied(denied))) = (roles.judge, inspector.may_delete_records(name)) {
        let text = format!("not authorized: {denied}: the log is never trimmed and grows without limit");
        rows.push(Row::warn(name, text, Some(denied.remedy())));
    }
    rows
}

/// Checks the permission to join the groups of the instance's roles. The probe needs an existing topic.
pub(super) fn may_join(settings: &Settings, inspector: &ClusterInspector, input: &[TopicView]) -> Vec<Row> {
    let Some(topic) = input.first().map(|view| view.name.as_str()) else { return Vec::new() };
    let mut rows = Vec::new();
    let group = settings.input.group.as_str();
    if settings.roles.worker {
        rows.extend(inspector.may_join(group, topic).err().map(|error| Row::cluster_error("group", &error)));
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
                Row::denied("group", text, of_all.remedy() + " --resource-pattern-type prefixed")
            }
            ClusterError::Identity(_) | ClusterError::Unavailable(_) => Row::cluster_error("group", cluster_error),
        }));
    }
    rows
}

#[cfg(test)]
mod tests;
