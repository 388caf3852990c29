//! Resolves which topics are read and written.

use axum::http::Uri;
use dupgate_core::worker;

use super::super::raw::{Mode, OnBadRecord, Raw};
use super::super::settings::{Input, Output, RegistryIdentity, SchemaRegistry, Topics};
use super::super::units::Start;
use super::values::{MILLISECOND, at_least, check_name, check_own_name, is_read};
use super::{Findings, Purpose};

type Secrets = std::collections::BTreeMap<&'static str, secrecy::SecretString>;

/// Returns the part of a pattern that the Kafka client does not understand, if any. The client matches topics by POSIX
/// extended expressions, which have no classes like `\d` and no groups like `(?i)`; with such a pattern it would own no
/// partition, and read nothing.
fn unknown_to_client(pattern: &str) -> Option<&str> {
    let mut chars = pattern.char_indices().peekable();
    while let Some((at, char)) = chars.next() {
        let next = chars.next_if(|(_, next)| match char {
            '\\' => true,
            '(' => *next == '?',
            _ => false,
        });
        if let Some((end, next)) = next
            && (char == '(' || next.is_ascii_alphanumeric())
        {
            return pattern.get(at..end + next.len_utf8());
        }
    }
    None
}

pub(super) fn input(raw: &Raw, secrets: &Secrets, purpose: Purpose, found: &mut Findings) -> Input {
    let input = &raw.input;
    if input.topics.is_empty() && purpose == Purpose::Run {
        found.refuse("input.topics", "no topic is given: expected names, or one pattern that starts with ^");
    }
    let topics = match input.topics.as_slice() {
        [pattern] if pattern.starts_with('^') => {
            if let Err(error) = regex::Regex::new(pattern) {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default();
                found.refuse(
                    "input.topics",
                    format!("`{pattern}` is not a pattern: {}", why.trim_start_matches("error: ")),
                );
            } else if let Some(unknown) = unknown_to_client(pattern) {
                found.refuse(
                    "input.topics",
                    format!(
                        "`{pattern}` has `{unknown}`, which matches no topic: the Kafka client takes POSIX extended \
                         expressions, such as [0-9] for a digit"
                    ),
                );
            }
            Topics::Pattern(pattern.clone())
        }
        names => {
            for (number, name) in names.iter().enumerate() {
                if name.starts_with('^') {
                    found.refuse("input.topics", format!("the pattern `{name}` must be the only entry"));
                } else {
                    check_name("input.topics", name, found);
                }
                if names.iter().take(number).any(|other| other == name) {
                    found.refuse("input.topics", format!("`{name}` is named twice"));
                }
            }
            Topics::Names(names.to_vec())
        }
    };
    check_own_name("input.group", &input.group, found);
    if !input.instance_id.is_empty() {
        check_name("input.instance_id", &input.instance_id, found);
    }
    let start = input.start.parse().unwrap_or_else(|why| {
        found.refuse("input.start", why);
        Start::Earliest
    });
    Input {
        topics,
        group: worker::Mode::from(raw.mode).own_name(&input.group),
        instance_id: (!input.instance_id.is_empty()).then(|| input.instance_id.clone()),
        start,
        tombstones: input.tombstones,
        schema_registry: schema_registry(raw, secrets, found),
    }
}

/// Resolves the registry, and refuses formats without it and settings of it without a format that needs it.
fn schema_registry(raw: &Raw, secrets: &Secrets, found: &mut Findings) -> Option<SchemaRegistry> {
    const URL: &str = "input.schema_registry.url";
    let given = &raw.input.schema_registry;
    let format = crate::record::Format::from(raw.input.format);
    let Some(url) = &given.url else {
        if format.needs_schemas() {
            found.refuse(URL, format!("is missing: input.format {} reads values by their schemas", format.name()));
        } else if given.username.is_some()
            || given.password.is_some()
            || given.token.is_some()
            || given.ca_file.is_some()
        {
            found.refuse(URL, "is missing: the other settings of input.schema_registry have no effect without it");
        }
        return None;
    };
    if !format.needs_schemas() {
        let why = format!("has no effect: input.format {} needs no schemas, only avro and protobuf do", format.name());
        found.refuse(URL, why);
    }
    let is_address = |uri: &Uri| {
        matches!(uri.scheme_str(), Some("http" | "https"))
            && uri.host().is_some_and(|host| !host.is_empty())
            && uri.query().is_none()
            && !url.contains(['@', '#'])
    };
    if !url.parse::<Uri>().is_ok_and(|uri| is_address(&uri)) {
        let expected =
            "expected http://host:port or https://host:port, with a path or without, and without user and password";
        // It may hold a password.
        found.refuse(URL, format!("is not the address of a registry: {expected}"));
    }
    if given.ca_file.is_some() && url.starts_with("http:") {
        found.refuse("input.schema_registry.ca_file", "has no effect: the url is not https");
    }
    at_least("input.schema_registry.timeout", given.timeout.0, MILLISECOND, found);
    let password = secrets.get("input.schema_registry.password");
    let token = secrets.get("input.schema_registry.token");
    let identity = match (&given.username, password, token) {
        (Some(user), Some(password), None) => Some(RegistryIdentity::Password(user.clone(), password.clone())),
        (None, None, Some(token)) => Some(RegistryIdentity::Token(token.clone())),
        (None, None, None) => None,
        (_, _, Some(_)) => {
            found.refuse(
                "input.schema_registry.token",
                "is given beside username or password: one of both identifies us",
            );
            None
        }
        (user, ..) => {
            // A password that could not be read has been refused.
            if user.is_none() || given.password.is_none() {
                found.refuse("input.schema_registry", "username and password go together: only one is given");
            }
            None
        }
    };
    let url = url.trim_end_matches('/').to_owned();
    Some(SchemaRegistry { url, identity, ca_file: given.ca_file.clone(), timeout: given.timeout.0 })
}

pub(super) fn output(raw: &Raw, purpose: Purpose, found: &mut Findings) -> Output {
    let output = &raw.output;
    let produces = raw.mode != Mode::Observe;
    let needed = [
        ("output.unique.topic", &output.unique.topic, produces, "every mode but observe writes to it"),
        ("output.duplicate.topic", &output.duplicate.topic, raw.mode == Mode::Route, "mode is route"),
        (
            "output.dead_letter.topic",
            &output.dead_letter.topic,
            produces && raw.processing.on_bad_record == OnBadRecord::DeadLetter,
            "processing.on_bad_record is dead_letter",
        ),
    ];
    for (path, topic, is_needed, why) in needed {
        match topic {
            None if is_needed && purpose == Purpose::Run => found.refuse(path, format!("is missing: {why}")),
            Some(name) => check_name(path, name, found),
            None => {}
        }
    }
    let mut named: Vec<&String> = Vec::new();
    for (path, topic, is_needed, _) in needed {
        let Some(name) = topic.as_ref().filter(|_| is_needed) else { continue };
        if named.contains(&name) {
            found.refuse(path, format!("`{name}` is already used by another output"));
        }
        if is_read(raw, name) {
            found.refuse(path, format!("`{name}` is also an input topic: this would create a loop"));
        }
        named.push(name);
    }
    at_least("output.commit_interval", output.commit_interval.0, MILLISECOND, found);
    let prefix = &output.headers.prefix;
    if prefix.is_empty() || prefix.chars().any(|c| !c.is_ascii_graphic() || c.is_ascii_uppercase()) {
        found.refuse(
            "output.headers.prefix",
            format!("`{prefix}` is not a valid prefix: expected lower-case ASCII without spaces"),
        );
    }
    if output.headers.drop.iter().any(String::is_empty) {
        found.refuse("output.headers.drop", "names an empty header");
    }
    let [unique, duplicate, dead_letter] = needed.map(|(_, topic, is_needed, _)| topic.clone().filter(|_| is_needed));
    Output {
        unique,
        duplicate,
        dead_letter,
        duplicate_value: output.duplicate.value,
        delivery: output.delivery.into(),
        commit_interval: output.commit_interval.0,
        partition: output.partition,
        timestamp: output.timestamp,
        compression: output.compression,
        header_prefix: prefix.clone(),
        dropped_headers: output.headers.drop.clone(),
    }
}
