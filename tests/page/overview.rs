//! The overview: its charts of a demo, and its messages about problems.

use std::time::Duration;

use dupgate_testkit::ports::free_address;
use serde_json::{Value, json};

use super::browser::{Browser, Tab};
use super::canned::{Canned, answer};
use super::{Demo, TOKEN, enter, holds, keep_picture, wait};

/// How long the page may wait, in milliseconds, for the next state that the instance knows: from one request to the next,
/// and for an answer.
const SOON: u64 = 7_000;

/// How long a test waits for a state to be shown: [`SOON`], and what a busy machine needs.
const LIMIT: Duration = Duration::from_mins(2);

/// Charts whose canvases have pixels of more than one colour.
const DRAWN: &str = "[...document.querySelectorAll('.chart canvas')].filter((canvas) => { \
     const pixels = new Uint32Array(canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.buffer); \
     return new Set(pixels).size > 1; }).length";

/// Whether a hundredth of the first chart has the colour of unique pages.
const PAINTED: &str = "(() => { const canvas = document.querySelector('#rates canvas'); \
     const wanted = colour('verdict-unique').slice(1).match(/../g).map((part) => parseInt(part, 16)); \
     const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); let found = 0; \
     for (let at = 0; at < data.length; at += 4) if (wanted.every((part, channel) => data[at + channel] === part)) found += 1; \
     return found * 400 > data.length; })()";

/// Accessibility problems of the page.
pub(super) const FLAWS: &str = "(() => { const found = []; const all = (what) => [...document.querySelectorAll(what)]; \
     const ids = all('[id]').map((one) => one.id); \
     if (new Set(ids).size !== ids.length) found.push('an id is used twice'); \
     if (!document.documentElement.lang) found.push('no language'); \
     if (all('h1').length !== 1) found.push('not one h1'); \
     if (all('main').length !== 1) found.push('not one main'); \
     let level = 1; for (const head of all('h1, h2, h3, h4')) { const own = Number(head.tagName[1]); \
       if (own > level + 1) found.push(`${head.textContent} skips a level`); level = own; } \
     for (const field of all('input, select, textarea')) if (!field.labels.length) found.push(`${field.id} has no label`); \
     for (const one of all('button, a, th')) if (!one.textContent.trim()) found.push(`an empty ${one.tagName}`); \
     for (const one of all('[role=img], [role=group], nav')) if (!one.getAttribute('aria-label')) found.push(`${one.id} has no name`); \
     for (const one of all('[aria-labelledby]')) if (!document.getElementById(one.getAttribute('aria-labelledby'))) found.push('a name leads nowhere'); \
     for (const one of all('th')) if (!one.scope) found.push(`${one.textContent} heads nothing`); \
     for (const one of all('[tabindex]')) if (one.tabIndex > 0) found.push('a separate tab order'); \
     return found; })()";

pub(super) fn text(tab: &mut Tab<'_>, id: &str) -> String {
    let text = tab.run(&format!("document.getElementById('{id}').textContent"));
    text.as_str().unwrap_or_default().to_owned()
}

/// Waits until the condition holds in the page, which must request the state often enough to show it soon.
pub(super) fn soon(tab: &mut Tab<'_>, what: &str, condition: &str) {
    let longest = tab.run("EVERY_MS + PATIENCE_MS").as_u64();
    assert!(longest.is_some_and(|longest| longest <= SOON), "{what} may be shown after {longest:?} ms");
    let condition = format!("(() => {{ try {{ return {condition}; }} catch {{ return false; }} }})()");
    wait::within(LIMIT, what, || (tab.run(&condition) == Value::Bool(true)).then_some(()));
}

pub(super) fn state_is(state: &str) -> String {
    format!("document.getElementById('state').textContent === '{state}'")
}

/// Sends a request as the page does, with its token.
fn post(tab: &mut Tab<'_>, path: &str) {
    let done = tab.run(&format!("ask('{path}', {{ method: 'POST' }}).then(() => true)"));
    assert_eq!(done, true, "{path}");
}

#[test]
fn the_overview_follows_a_demo_and_recovers_with_the_service() {
    let Some(mut browser) = Browser::start() else { return };
    let admin = free_address().to_string();
    let demo = Demo::start(&admin);
    wait::until("the admin listener", || std::net::TcpStream::connect(&admin).ok());
    let mut tab = browser.open(&format!("http://{admin}/ui/"));

    holds(&mut tab, "the door", "!document.getElementById('door').hidden && document.querySelector('main').hidden");
    enter(&mut tab, "not the token of the test");
    holds(&mut tab, "the refusal", "document.getElementById('refused').textContent.includes('wrong token')");
    enter(&mut tab, TOKEN);

    // Numbers that move, and all charts drawn.
    holds(
        &mut tab,
        "a state",
        "document.title === 'dupgate - Overview - demo' && !document.querySelector('main').hidden",
    );
    holds(&mut tab, "samples", "known.last >= 3");
    holds(&mut tab, "charts", &format!("{DRAWN} === 6 && {PAINTED}"));
    let total = "Number(document.querySelector('#rates-now small').textContent.split(' ')[0].replaceAll(',', ''))";
    let before = tab.run(total).as_u64().expect("a number");
    holds(&mut tab, "pages", &format!("{total} > {before}"));
    holds(&mut tab, "a new sample", "known.last >= 4 && charts[0].plot.data[0].length === known.last");
    holds(&mut tab, "the judge", "document.querySelector('#judges tbody').textContent.includes('judges')");
    holds(&mut tab, "readiness", &state_is("Ready"));
    assert!(tab.run("document.querySelectorAll('#checks tbody tr').length").as_u64() >= Some(3));
    let legend = text(&mut tab, "rates-legend");
    assert!(["unique", "near", "exact"].iter().all(|verdict| legend.contains(verdict)), "{legend}");
    assert_eq!(tab.run(FLAWS), json!([]));

    // The picture for the documents: a minute, and all of the page.
    if std::env::var_os("DUPGATE_WRITE_DOCS").is_some() {
        holds(&mut tab, "a minute", "known.last >= 14");
    }
    let height = tab.run("document.documentElement.scrollHeight").as_u64().expect("a height");
    tab.resize(1280, height);
    holds(&mut tab, "the new size", "charts[0].plot.width === document.getElementById('rates').clientWidth");
    keep_picture("overview.png", &tab.picture());

    // A pause is shown.
    post(&mut tab, "pause");
    holds(&mut tab, "the pause", &state_is("Paused"));
    assert!(text(&mut tab, "troubles").contains("An operator has paused the input"));
    post(&mut tab, "resume");
    holds(&mut tab, "going on", &state_is("Ready"));

    // The service ends: the charts stay, and the page shows for how long it has had no answer.
    drop(demo);
    holds(
        &mut tab,
        "the silence",
        "/^Unreachable for [1-9]\\d* s$/.test(document.getElementById('state').textContent)",
    );
    assert_eq!(tab.run(&format!("{DRAWN} === 6 && !document.querySelector('main').hidden")), true);
    let started = tab.run("known.started");
    let _demo = Demo::start(&admin);
    holds(&mut tab, "the new start", &format!("known.started !== {started} && known.last >= 1"));
    holds(
        &mut tab,
        "only its samples",
        "known.columns.number[0] === 1 && charts[0].plot.data[0].length === known.last",
    );
    holds(&mut tab, "readiness again", &state_is("Ready"));

    // The way to the pairs and back, without entering the token again.
    tab.run("document.querySelector('nav a[href=\"/ui/pairs\"]').click()");
    holds(
        &mut tab,
        "the pairs",
        "document.title === 'dupgate - Pairs - demo' && !document.querySelector('main').hidden",
    );
    tab.run("document.querySelector('nav a[href=\"/ui/\"]').click()");
    holds(&mut tab, "the overview", "document.title === 'dupgate - Overview - demo'");

    let seen = tab.seen();
    let origin = format!("http://{admin}/");
    let foreign: Vec<&String> = seen.requests.iter().filter(|url| !url.starts_with(&origin)).collect();
    assert!(foreign.is_empty() && seen.requests.len() > 10, "{foreign:?}");
    let expected = |complaint: &String| complaint.contains("401") || complaint.contains("net::ERR_");
    let complaints: Vec<&String> = seen.complaints.iter().filter(|complaint| !expected(complaint)).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

#[test]
fn problems_are_shown_soon() {
    let Some(mut browser) = Browser::start() else { return };
    let address = free_address().to_string();
    let mut empty = answer(1_000_000, 0);
    empty["documents"] = json!({"unique": 0, "near": 0, "exact": 0, "update": 0, "template": 0, "bypass": 0});
    let canned = Canned::start(&address, empty);
    let mut tab = browser.open(&format!("http://{address}/ui/"));
    holds(&mut tab, "an empty page", "document.getElementById('rates-now').textContent.startsWith('No pages yet')");
    assert!(text(&mut tab, "moment").contains("The first sample comes within 5 s"));
    assert_eq!(tab.run(FLAWS), json!([]));

    canned.change(|now| *now = answer(1_000_000, 30));
    soon(&mut tab, "samples", &format!("known.last === 30 && {DRAWN} === 6 && {PAINTED}"));
    assert!(text(&mut tab, "lags").contains("pages 3"));

    // Without a judge the page shows that first, and prominently.
    canned.change(|now| {
        let why = "none for 4 s (3306 pages wait; no judge answers)";
        let at = now["at_ms"].as_u64().unwrap_or_default();
        now["ready"] = json!(false);
        now["no_judge"] = json!({"since_ms": at - 4000, "why": why});
        now["judges"][0] = json!({"log_partition": 0, "state": "no_judge", "since_ms": at - 4000, "why": why});
        now["checks"] =
            json!([{"name": "verdicts", "ok": false, "why": why}, {"name": "worker", "ok": false, "why": "waits"}]);
        now["blocked"] = json!({"out_of_range": 2});
    });
    soon(&mut tab, "the missing judge", &state_is("No judge"));
    let first = tab.run("document.querySelector('#troubles li').textContent");
    assert!(
        first.as_str().is_some_and(|first| first.starts_with("No judge for 4 s") && first.contains("3306")),
        "{first}"
    );
    assert!(text(&mut tab, "judges").contains("no judge") && text(&mut tab, "announced") == "No judge");
    assert!(text(&mut tab, "troubles").contains("2 partitions") && text(&mut tab, "blocked").contains("out_of_range"));

    // Unreachable, and back with restarted samples.
    drop(canned);
    soon(&mut tab, "the silence", "document.getElementById('state').textContent.startsWith('Unreachable for ')");
    assert_eq!(tab.run("known.last"), 30, "known samples stay");
    let canned = Canned::start(&address, answer(2_000_000, 5));
    soon(&mut tab, "the new start", &format!("{} && charts[0].plot.data[0].length === 5", state_is("Ready")));
    canned.change(|now| *now = answer(2_000_000, 6));
    soon(&mut tab, "one more sample", "charts[0].plot.data[0].length === 6");
}

#[test]
fn the_overview_supports_small_windows_dark_mode_and_keyboards() {
    let Some(mut browser) = Browser::start() else { return };
    let address = free_address().to_string();
    let mut all = answer(1_000_000, 700);
    let long = "the way out: ".repeat(20);
    all["checks"] = json!([{"name": "worker", "ok": false, "why": long}]);
    all["dead_letter_reasons"] = json!([{
        "reason": "output_record_too_large", "delivered": 12, "held": 0, "example": "a.topic.with.a.very.long.name.indeed:31:123456789", "why": long,
    }]);
    let _canned = Canned::start(&address, all);
    let mut tab = browser.open(&format!("http://{address}/ui/"));
    holds(&mut tab, "charts", &format!("{DRAWN} === 6"));

    // The order in which the keyboard goes through the page; the skip link; a chart from sample to sample.
    let focused = "[document.activeElement.textContent.trim(), document.activeElement.id].find(Boolean)";
    for expected in ["Skip to the charts", "Overview", "Pairs", "10 min", "1 hour", "rates", "share"] {
        tab.press("Tab");
        assert_eq!(tab.run(focused), json!(expected));
    }
    tab.press("ArrowLeft");
    holds(&mut tab, "the newest sample", "document.getElementById('moment').textContent.startsWith('Values at ')");
    let newest = text(&mut tab, "moment");
    tab.press("ArrowLeft");
    holds(&mut tab, "the one before", &format!("document.getElementById('moment').textContent !== {}", json!(newest)));
    let label = tab.run("document.getElementById('share').getAttribute('aria-label')");
    assert!(
        label.as_str().is_some_and(|label| label.contains("Share of duplicates, at ") && label.contains("19 %")),
        "{label}"
    );
    tab.run("document.querySelector('.skip').focus()");
    tab.press("Enter");
    holds(&mut tab, "the skip link", "document.activeElement.id === 'main'");
    tab.run("document.querySelector('[data-minutes=\"10\"]').focus()");
    tab.press("Enter");
    let shown = "charts[0].plot.scales.x.max - charts[0].plot.scales.x.min";
    holds(
        &mut tab,
        "ten minutes",
        &format!("{shown} === 600 && document.querySelector('[data-minutes=\"10\"]').ariaPressed === 'true'"),
    );

    // Dark mode and reduced motion.
    let back = "getComputedStyle(document.body).backgroundColor";
    let light = tab.run(back);
    tab.prefer("prefers-color-scheme", "dark");
    holds(&mut tab, "the dark", &format!("{back} !== {light}"));
    holds(&mut tab, "charts in dark colours", &format!("{DRAWN} === 6 && {PAINTED}"));
    tab.prefer("prefers-reduced-motion", "reduce");
    let moves = "[...document.querySelectorAll('*')].some((one) => getComputedStyle(one).transitionDuration !== '0s' || \
                 getComputedStyle(one).animationName !== 'none')";
    assert_eq!(tab.run(moves), false);

    // Nothing overflows the window of a small telephone, and the charts are in one column.
    tab.resize(360, 740);
    holds(&mut tab, "the new size", "charts[0].plot.width < 360");
    let beyond = "[document.documentElement, document.body].filter((one) => one.scrollWidth > document.documentElement.clientWidth).length";
    assert_eq!(tab.run(beyond), 0);
    let columns =
        "new Set([...document.querySelectorAll('.card')].map((card) => card.getBoundingClientRect().left)).size";
    assert_eq!(tab.run(columns), 1);
    let picture = tab.picture();
    assert!(picture.len() > 5_000, "{} bytes", picture.len());
    assert!(tab.seen().complaints.is_empty(), "{:?}", tab.seen().complaints);
}
