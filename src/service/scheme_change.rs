//! A start under a scheme that has judged nothing yet, while the service has judged under another one.
//!
//! Fingerprints of two schemes do not compare, so the new index starts empty: until one window has passed, duplicates
//! of pages that were judged before are called unique. The start says so, or refuses (`index.cold_start: stop`).

use std::collections::BTreeSet;
use std::time::Duration;

use dupgate_core::judge::ColdStart;

use crate::clock::wall_time;
use crate::config::Span;
use crate::config::settings::Settings;
use crate::error::{Fatal, fatal};
use crate::fingerprint::scheme_id;
use crate::kafka::admin::{Brokers, LogNames};
use crate::kafka::inspector::{ClusterError, ClusterInspector};
use crate::record::Timestamp;
use crate::snapshot::Folder;
use crate::{context, fatal, text};

/// Time-out of one request.
const QUERY_TIMEOUT: Duration = Duration::from_secs(10);

/// A scheme, and the others under which the service has judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemeChange {
    scheme: String,
    /// Whether the verdict log of the scheme is missing or empty.
    is_new: bool,
    /// Schemes whose verdict log or snapshots exist.
    former: BTreeSet<String>,
    window: Duration,
    /// Whether a log of one of them decides in the dual period.
    is_bridged: bool,
    /// The version of the text code by which one of them differs, if by nothing else.
    by_version: Option<u32>,
}

impl SchemeChange {
    /// Looks for the logs of this service, and for snapshots in its folder.
    ///
    /// # Errors
    ///
    /// No broker answers, or we may not read the logs.
    pub fn find(
        inspector: &ClusterInspector,
        settings: &Settings,
        folder: Option<&Folder>,
    ) -> Result<Self, ClusterError> {
        let (prefix, scheme) = (&settings.logs.prefix, settings.scheme().to_string());
        let is_new = !inspector.has_records(&LogNames::new(prefix, &scheme).verdicts)?;
        let mut former: BTreeSet<String> =
            folder.map(Folder::schemes).unwrap_or_default().into_iter().map(|scheme| scheme.0).collect();
        for topic in inspector.topic_names()? {
            let Some(other) = LogNames::scheme_of(prefix, &topic) else { continue };
            if *topic == *LogNames::new(prefix, other).verdicts && inspector.has_records(&topic)? {
                former.insert(other.to_owned());
            }
        }
        former.remove(&scheme);
        let previous = settings.previous.as_ref().map(|previous| previous.scheme().to_string());
        let is_bridged = previous.is_some_and(|previous| former.contains(&previous));
        let of_version = |version: &u32| {
            let text = text::Settings { version: *version, ..settings.text.clone() };
            let scheme = scheme_id(&settings.record, &text, &settings.fingerprint, settings.log_partitions());
            former.contains(&scheme.0)
        };
        let by_version = text::VERSIONS.rev().find(of_version);
        Ok(Self { is_bridged, by_version, scheme, is_new, former, window: settings.rules.windows.max() })
    }

    /// Returns how much of the window a start at this time would not see and until when; `None` if the scheme has
    /// judged already, or no other one has.
    #[must_use]
    pub fn blindness(&self, now: Timestamp) -> Option<String> {
        if !self.is_new || self.former.is_empty() || self.is_bridged {
            return None;
        }
        let former = self.former.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let until = jiff::Timestamp::from_millisecond(now.plus(self.window).millis());
        let until = until.map(|until| until.strftime("%Y-%m-%d %H:%M UTC").to_string()).unwrap_or_default();
        Some(format!(
            "nothing is judged under scheme {} yet, and the service has judged under {former}: the index starts empty, so that \
             duplicates of pages judged before are called unique. All of the window is affected at first, and none of it any \
             more after one window ({}, about {until})",
            self.scheme,
            Span(self.window)
        ))
    }

    /// Returns what to do about the change.
    #[must_use]
    pub fn ways_out(&self) -> String {
        let version = self.by_version.map_or_else(String::new, |version| {
            format!(
                "{} differs by the version of the text code alone: name it in `previous: {{text: {{version: {version}}}}}`, or \
                 keep it by `text.version: {version}`; otherwise, ",
                self.scheme
            )
        });
        version + WAYS_OUT
    }

    /// Returns what a judge does that finds no log, or why the service must not start.
    fn cold_start(&self, configured: ColdStart, now: Timestamp) -> Result<ColdStart, Fatal> {
        let blindness = self.blindness(now);
        match (configured, blindness) {
            (ColdStart::Proceed, Some(blindness)) => {
                tracing::warn!(target: "dupgate::service", scheme = self.scheme, "{blindness}");
                Ok(configured)
            }
            (ColdStart::Proceed, None) => Ok(configured),
            (ColdStart::Stop | ColdStart::StopOnNewScheme, Some(blindness)) => {
                Err(fatal!(State, "index.cold_start is stop, and {blindness}; {}", self.ways_out()))
            }
            (ColdStart::Stop | ColdStart::StopOnNewScheme, None) if self.former.is_empty() => Ok(ColdStart::Stop),
            (ColdStart::Stop | ColdStart::StopOnNewScheme, None) => Ok(ColdStart::StopOnNewScheme),
        }
    }
}

/// What to do about any change of the scheme.
const WAYS_OUT: &str = "to keep the window: go back to the release and configuration before, whose logs still exist, or, \
    if the configuration changed the scheme, name the settings before in `previous`, or fill the new index with \
    `dupgate index warm`; to go on without it: start once \
    with index.cold_start: proceed";

/// Returns what judges of this service do that find no log. Logs how much of the window is lost if they begin a new one
/// after a change of the scheme.
///
/// # Errors
///
/// The scheme has changed and `index.cold_start: stop` forbids a start with an empty index, or it is not known whether
/// it has.
pub(crate) fn cold_start(settings: &Settings, brokers: Brokers, folder: Option<&Folder>) -> Result<ColdStart, Fatal> {
    let configured = ColdStart::from(settings.index.cold_start);
    let has_snapshot = || folder.is_some_and(|folder| folder.schemes().contains(&settings.scheme()));
    let is_judge = settings.roles.judge;
    if brokers == Brokers::InProcess || (!is_judge && configured == ColdStart::Proceed) || has_snapshot() {
        return Ok(configured);
    }
    let connection = context::connection(&settings.kafka);
    let found = ClusterInspector::new(&connection, &settings.input.group, QUERY_TIMEOUT)
        .and_then(|inspector| SchemeChange::find(&inspector, settings, folder));
    match found {
        Ok(change) => change.cold_start(configured, wall_time()),
        Err(error) if configured == ColdStart::Proceed => {
            tracing::warn!(target: "dupgate::service", %error, "failed to look for logs of other schemes");
            Ok(configured)
        }
        Err(error) => Err(fatal::cluster_error(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(is_new: bool, former: &[&str]) -> SchemeChange {
        SchemeChange {
            scheme: "sh64-222222".to_owned(),
            is_new,
            former: former.iter().map(|&scheme| scheme.to_owned()).collect(),
            window: Duration::from_hours(72),
            is_bridged: false,
            by_version: None,
        }
    }

    #[test]
    fn a_changed_scheme_stops_the_start_only_where_a_window_would_be_lost() {
        let now = Timestamp::from_millis(1_773_476_865_000);
        let of = |is_new, former: &[&str], configured| change(is_new, former).cold_start(configured, now).ok();
        let old = ["sh64-111111"];
        assert_eq!(of(true, &old, ColdStart::Stop), None);
        assert_eq!(of(true, &old, ColdStart::Proceed), Some(ColdStart::Proceed));
        assert_eq!(of(true, &[], ColdStart::Stop), Some(ColdStart::Stop), "the first day");
        assert_eq!(of(false, &old, ColdStart::Stop), Some(ColdStart::StopOnNewScheme), "the log may hold no verdict");
        assert_eq!(of(false, &[], ColdStart::Stop), Some(ColdStart::Stop));
    }

    #[test]
    fn the_message_says_how_much_is_blind_until_when_and_what_to_do() {
        let now = Timestamp::from_millis(1_773_476_865_000);
        let fatal = change(true, &["sh64-111111"]).cold_start(ColdStart::Stop, now).unwrap_err();
        let text = fatal.to_string();
        for part in
            ["sh64-111111", "sh64-222222", "(3d, about 2026-03-17 08:27 UTC)", "index warm", "cold_start: proceed"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let by_version = SchemeChange { by_version: Some(1), ..change(true, &["sh64-111111"]) };
        assert!(by_version.ways_out().contains("`previous: {text: {version: 1}}`"), "{}", by_version.ways_out());
        assert!(!text.contains("version"), "{text}");
        assert_eq!(change(false, &["sh64-111111"]).blindness(now), None);
        assert_eq!(change(true, &[]).blindness(now), None);
    }
}
