//! The admin listener: the overview, the pair page, and the API that inspects and controls a running instance.
//!
//! The listener is off unless `http.admin.listen` is set. If there is a token, every path below `/api/` requires it
//! (compared in constant time). Without a token, the listener must be on a loopback address, and answers only requests
//! to such an address. Cross-origin requests are refused in either case. The pages themselves hold no data, so they
//! need no token.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post, put};
use axum::{Router, middleware};
use futures_util::stream;
use secrecy::SecretString;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::http_server::{self, Server, json_answer};
use super::labels::{Duplicate, LabelValue};
use super::logging;
use super::overview::{INTERVAL, Overview};
use super::pairs::{Cluster, Filter, Pair, Pairs};
use crate::config::Levels;
use crate::config::settings::ShownText;
use crate::fingerprint::{SimHash, id_hash};
use crate::protocol::ForgetTarget;
use crate::record::Source;

/// Largest document that is explained, in bytes.
const LARGEST_BODY: usize = 8 << 20;

/// Every path with a description.
const PATHS: [(&str, &str); 16] = [
    ("GET  /", "this list"),
    ("GET  /ui/", "the overview"),
    ("GET  /ui/pairs", "the pair page"),
    ("GET  /api/v1/overview", "the state of this instance, and the samples of the last hour after ?since=NUMBER"),
    (
        "GET  /api/v1/pairs",
        "recent duplicates: ?verdict=&min_distance=&max_distance=&site=&segmenter=&after=&before=&limit=",
    ),
    ("GET  /api/v1/pairs/stream", "the same as a stream of server-sent events"),
    ("GET  /api/v1/pairs/{source}", "one pair, with both texts as far as http.admin.text allows"),
    ("POST /api/v1/explain", "a page, as in the input: its words, its fingerprint, the nearest originals"),
    ("GET  /api/v1/index/stats", "what the judges of this instance remember"),
    ("GET  /api/v1/index/lookup", "originals: ?fp=&distance= or ?source= or ?id="),
    ("GET  /api/v1/index/top", "the clusters with the most duplicates since the start: ?n=20"),
    ("POST /api/v1/index/forget", "forget originals: {\"source\": [], \"id\": []}"),
    ("POST /api/v1/index/snapshot", "write a snapshot soon"),
    ("POST /api/v1/pause", "pause the input, without leaving the group"),
    ("POST /api/v1/resume", "resume the input"),
    ("PUT  /api/v1/log", "change the log level: {\"level\": \"debug\"}"),
];

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Files of the pages: path, kind, contents.
const FILES: [(&str, &str, &str); 11] = [
    ("/ui/", HTML, include_str!("page/overview.html")),
    ("/ui/overview.css", CSS, include_str!("page/overview.css")),
    ("/ui/overview.js", SCRIPT, include_str!("page/overview.js")),
    ("/ui/pairs", HTML, include_str!("page/pairs.html")),
    ("/ui/pairs.css", CSS, include_str!("page/pairs.css")),
    ("/ui/pairs.js", SCRIPT, include_str!("page/pairs.js")),
    ("/ui/colours.css", CSS, include_str!("page/colours.css")),
    ("/ui/access.js", SCRIPT, include_str!("page/access.js")),
    ("/ui/icon.svg", "image/svg+xml", include_str!("page/icon.svg")),
    ("/ui/vendor/uplot.css", CSS, include_str!("page/vendor/uplot.css")),
    ("/ui/vendor/uplot.js", SCRIPT, include_str!("page/vendor/uplot.js")),
];

/// Errors of requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiError {
    /// The resource does not exist.
    Missing(String),
    /// The request is invalid.
    Wrong(String),
    /// The request cannot be answered now, or not by this instance.
    Unable(String),
}

/// The originals to look up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The one at this position.
    Source(Source),
    Id(String),
    /// Those near this code; within the configured distance by default.
    Code(SimHash, Option<u8>),
}

/// The operations of a running instance. They are called on threads that may block.
pub trait AdminService: Send + Sync {
    /// Inspects both pages of a pair again and returns the pair with as much of the texts as may be shown.
    ///
    /// # Errors
    ///
    /// The pages cannot be read.
    fn pair(&self, pair: &Pair) -> Result<Value, ApiError>;

    /// Reads a page as a record of the input.
    ///
    /// # Errors
    ///
    /// The page is refused.
    fn explain(&self, value: &[u8]) -> Result<Value, ApiError>;

    /// Returns what the judges of this instance remember.
    ///
    /// # Errors
    ///
    /// The judges do not answer.
    fn stats(&self) -> Result<Value, ApiError>;

    /// Finds originals.
    ///
    /// # Errors
    ///
    /// The judges do not answer.
    fn lookup(&self, what: &Lookup) -> Result<Value, ApiError>;

    /// Forgets originals.
    ///
    /// # Errors
    ///
    /// The judges do not answer.
    fn forget(&self, targets: Vec<ForgetTarget>) -> Result<Value, ApiError>;

    /// Requests a snapshot, taken with the next commit of verdicts.
    ///
    /// # Errors
    ///
    /// This instance does not judge.
    fn snapshot(&self) -> Result<Value, ApiError>;

    /// Pauses or resumes the input.
    ///
    /// # Errors
    ///
    /// This instance reads no input.
    fn hold(&self, is_held: bool) -> Result<Value, ApiError>;
}

/// Settings and data of the listener.
#[derive(Clone)]
pub struct Admin {
    /// The token that a request must carry.
    pub token: Option<SecretString>,
    /// How much of a page's text may be shown; the service enforces it.
    pub text: ShownText,
    /// Largest distance of a match, which the page marks in its histogram.
    pub max_distance: u8,
    /// Recent duplicates.
    pub pairs: Pairs,
    /// The state of the instance, and the last hour.
    pub overview: Overview,
    /// The other operations.
    pub admin_service: Arc<dyn AdminService>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").field("text", &self.text).finish_non_exhaustive()
    }
}

/// Starts answering on a bound address, and sampling for the overview.
///
/// # Errors
///
/// No thread can be started.
pub fn start(bound: TcpListener, admin: Admin) -> io::Result<Server> {
    let sampling = admin.overview.clone().sample_every(INTERVAL);
    Server::start("admin", bound, router(admin), sampling)
}

fn router(admin: Admin) -> Router {
    let api = Router::new()
        .route("/overview", get(overview))
        .route("/pairs", get(pairs))
        .route("/pairs/stream", get(stream))
        .route("/pairs/{source}", get(pair))
        .route("/explain", post(explain))
        .route("/index/stats", get(stats))
        .route("/index/lookup", get(lookup))
        .route("/index/top", get(top))
        .route("/index/forget", post(forget))
        .route("/index/snapshot", post(snapshot))
        .route("/pause", post(pause))
        .route("/resume", post(resume))
        .route("/log", put(log))
        .layer(middleware::from_fn_with_state(admin.token.clone(), http_server::token));
    let mut router = Router::new().route("/", get(list)).route("/ui", get(|| async { Redirect::permanent("/ui/") }));
    for (path, kind, text) in FILES {
        router = router.route(path, get(move || async move { ([(header::CONTENT_TYPE, kind)], text) }));
    }
    router
        .nest("/api/v1", api)
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(middleware::from_fn_with_state(admin.token.is_some(), http_server::guard))
        .with_state(admin)
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, why) = match self {
            Self::Missing(why) => (StatusCode::NOT_FOUND, why),
            Self::Wrong(why) => (StatusCode::BAD_REQUEST, why),
            Self::Unable(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
        };
        json_answer(status, &json!({"error": why}))
    }
}

fn wrong(why: impl fmt::Display) -> ApiError {
    ApiError::Wrong(why.to_string())
}

/// Calls the service on a thread that may block.
async fn ask(
    admin: &Admin,
    question: impl FnOnce(&dyn AdminService) -> Result<Value, ApiError> + Send + 'static,
) -> Result<Response, ApiError> {
    let admin_service = Arc::clone(&admin.admin_service);
    let answered = tokio::task::spawn_blocking(move || question(&*admin_service)).await;
    let value = answered.map_err(|error| ApiError::Unable(format!("the request was not answered: {error}")))??;
    Ok(json_answer(StatusCode::OK, &value))
}

async fn list() -> String {
    let lines = PATHS.iter().map(|(path, what)| format!("{path:<28} {what}\n"));
    lines.collect()
}

/// The parameters of the query string. Empty ones count as absent, because a form sends all of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Wanted {
    verdict: String,
    min_distance: String,
    max_distance: String,
    site: String,
    id: String,
    segmenter: String,
    after: String,
    before: String,
    limit: String,
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<Option<T>, ApiError> {
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| wrong(format_args!("{name} is `{text}`: expected a whole number")))
}

impl Wanted {
    fn filter(self) -> Result<Filter, ApiError> {
        let text = |text: String| Some(text).filter(|text| !text.is_empty());
        let verdicts: Vec<String> =
            self.verdict.split(',').filter(|verdict| !verdict.is_empty()).map(str::to_owned).collect();
        if let Some(unknown) = verdicts.iter().find(|verdict| !Duplicate::NAMES.contains(&verdict.as_str())) {
            let known = Duplicate::NAMES.join(" and ");
            return Err(wrong(format_args!("verdict is `{unknown}`: pairs are duplicates, {known}")));
        }
        Ok(Filter {
            verdicts,
            min_distance: number("min_distance", &self.min_distance)?,
            max_distance: number("max_distance", &self.max_distance)?,
            site: text(self.site),
            id: text(self.id),
            segmenter: text(self.segmenter),
            after: number("after", &self.after)?,
            before: number("before", &self.before)?,
            limit: number("limit", &self.limit)?,
        })
    }
}

fn filter(query: Result<Query<Wanted>, axum::extract::rejection::QueryRejection>) -> Result<Filter, ApiError> {
    let Query(wanted) = query.map_err(|error| wrong(error.body_text()))?;
    wanted.filter()
}

type Queried<T> = Result<Query<T>, axum::extract::rejection::QueryRejection>;

async fn pairs(State(admin): State<Admin>, query: Queried<Wanted>) -> Result<Response, ApiError> {
    let page = admin.pairs.page(&filter(query)?);
    let (offered, kept) = admin.pairs.totals();
    let value = json!({
        "instance": admin.overview.instance(),
        "duplicates": offered,
        "kept": kept,
        "text": admin.text,
        "max_distance": admin.max_distance,
        "matching": page.matching,
        "newer": page.newer,
        "distances": page.distances,
        "pairs": page.pairs.iter().map(|pair| pair.json()).collect::<Value>(),
    });
    Ok(json_answer(StatusCode::OK, &value))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct After {
    since: String,
}

async fn overview(State(admin): State<Admin>, query: Queried<After>) -> Result<Response, ApiError> {
    let Query(requested) = query.map_err(|error| wrong(error.body_text()))?;
    let since = number("since", &requested.since)?.unwrap_or(0);
    Ok(json_answer(StatusCode::OK, &admin.overview.answer(since)))
}

async fn stream(State(admin): State<Admin>, query: Queried<Wanted>) -> Result<Response, ApiError> {
    struct Heard {
        news: broadcast::Receiver<Arc<Pair>>,
        filter: Filter,
        left: usize,
    }
    let filter = filter(query)?;
    let left = filter.limit.unwrap_or(usize::MAX);
    let heard = Heard { news: admin.pairs.listen(), filter, left };
    let events = stream::unfold(heard, |mut heard| async move {
        loop {
            if heard.left == 0 {
                return None;
            }
            let event = match heard.news.recv().await {
                Ok(pair) if heard.filter.passes(&pair) => Event::default().event("pair").data(pair.json().to_string()),
                Ok(_) => continue,
                Err(RecvError::Lagged(missed)) => Event::default().event("missed").data(missed.to_string()),
                Err(RecvError::Closed) => return None,
            };
            heard.left -= 1;
            return Some((Ok::<_, std::convert::Infallible>(event), heard));
        }
    });
    Ok(Sse::new(events).keep_alive(KeepAlive::new().interval(Duration::from_secs(10))).into_response())
}

async fn pair(State(admin): State<Admin>, Path(source): Path<String>) -> Result<Response, ApiError> {
    let source = source.parse::<Source>().map_err(wrong)?;
    let found = admin
        .pairs
        .find(&source)
        .ok_or_else(|| ApiError::Missing(format!("{source} is not among the recent pairs of this instance")))?;
    ask(&admin, move |admin_service| admin_service.pair(&found)).await
}

async fn explain(State(admin): State<Admin>, body: Bytes) -> Result<Response, ApiError> {
    ask(&admin, move |admin_service| admin_service.explain(&body)).await
}

async fn stats(State(admin): State<Admin>) -> Result<Response, ApiError> {
    ask(&admin, |admin_service| admin_service.stats()).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct LookupQuery {
    fp: String,
    distance: String,
    source: String,
    id: String,
}

async fn lookup(State(admin): State<Admin>, query: Queried<LookupQuery>) -> Result<Response, ApiError> {
    let Query(requested) = query.map_err(|error| wrong(error.body_text()))?;
    let what = match (requested.fp.as_str(), requested.source.as_str(), requested.id.as_str()) {
        (fp, "", "") if !fp.is_empty() => {
            let code: SimHash = fp.parse().map_err(|why| wrong(format_args!("fp: {why}")))?;
            let max = code.width().bits();
            let distance = number::<u8>("distance", &requested.distance)?;
            if let Some(distance) = distance.filter(|distance| u32::from(*distance) > max) {
                return Err(wrong(format_args!("distance is {distance}: expected 0 to {max}")));
            }
            Lookup::Code(code, distance)
        }
        ("", source, "") if !source.is_empty() => Lookup::Source(source.parse().map_err(wrong)?),
        ("", "", id) if !id.is_empty() => Lookup::Id(id.to_owned()),
        _ => return Err(wrong("expected one of fp, source and id")),
    };
    ask(&admin, move |admin_service| admin_service.lookup(&what)).await
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Number {
    n: String,
}

async fn top(State(admin): State<Admin>, query: Queried<Number>) -> Result<Response, ApiError> {
    let Query(requested) = query.map_err(|error| wrong(error.body_text()))?;
    let clusters = admin.pairs.largest(number("n", &requested.n)?.unwrap_or(20));
    let one = |Cluster { source, id, duplicate_id, duplicates }: &Cluster| json!({"cluster": source.to_string(), "id": id, "duplicate_id": duplicate_id, "duplicates": duplicates});
    Ok(json_answer(StatusCode::OK, &clusters.iter().map(one).collect()))
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Targets {
    source: Vec<String>,
    id: Vec<String>,
}

async fn forget(State(admin): State<Admin>, body: Bytes) -> Result<Response, ApiError> {
    let targets: Targets = serde_json::from_slice(&body).map_err(wrong)?;
    let mut found = Vec::new();
    for source in &targets.source {
        found.push(ForgetTarget::Source(source.parse().map_err(wrong)?));
    }
    found.extend(targets.id.iter().map(|id| ForgetTarget::Id(id_hash(id))));
    if found.is_empty() {
        return Err(wrong("nothing to forget: expected {\"source\": [\"topic:partition:offset\"], \"id\": []}"));
    }
    ask(&admin, move |admin_service| admin_service.forget(found)).await
}

async fn snapshot(State(admin): State<Admin>) -> Result<Response, ApiError> {
    ask(&admin, |admin_service| admin_service.snapshot()).await
}

async fn pause(State(admin): State<Admin>) -> Result<Response, ApiError> {
    ask(&admin, |admin_service| admin_service.hold(true)).await
}

async fn resume(State(admin): State<Admin>) -> Result<Response, ApiError> {
    ask(&admin, |admin_service| admin_service.hold(false)).await
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Logged {
    level: Levels,
}

async fn log(body: Bytes) -> Result<Response, ApiError> {
    let Logged { level } = serde_json::from_slice(&body).map_err(wrong)?;
    logging::set_level(&level).map_err(ApiError::Unable)?;
    tracing::warn!(target: "dupgate::http", %level, "log level changed by an operator");
    Ok(json_answer(StatusCode::OK, &json!({"level": level})))
}

#[cfg(test)]
mod tests;
