//! The pair page: it does not move while it is read, and supports keyboards, small windows and dark mode.

use dupgate_testkit::ports::free_address;
use serde_json::{Value, json};

use super::browser::{Browser, Tab};
use super::canned::{Canned, cluster, pairs};
use super::holds;
use super::overview::FLAWS;

/// Name of the focused element.
const FOCUSED: &str = "(document.activeElement === document.body ? 'nothing' : document.activeElement.getAttribute('aria-label') || \
     document.activeElement.name || document.activeElement.textContent).trim()";

/// Texts with a contrast below 4.5 to 1 (WCAG 2).
const FAINT: &str = "(() => { const parts = (text) => text.match(/[\\d.]+/g).map(Number); \
     const light = (colour) => { const [r, g, b] = parts(colour).map((part) => part / 255) \
       .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)); return 0.2126 * r + 0.7152 * g + 0.0722 * b; }; \
     const background = (one) => { for (let at = one; at; at = at.parentElement) { \
       const back = getComputedStyle(at).backgroundColor; const [, , , alpha = 1] = parts(back); if (alpha > 0) return back; } \
       return 'rgb(255, 255, 255)'; }; const found = []; \
     for (const one of document.querySelectorAll('body *')) { \
       const hasText = [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim()); \
       if (!hasText || !one.getClientRects().length || one.closest('[aria-disabled=true]')) continue; \
       const style = getComputedStyle(one); \
       const pair = [light(one instanceof SVGElement ? style.fill : style.color), light(background(one))].sort((a, b) => b - a); \
       if ((pair[0] + 0.05) / (pair[1] + 0.05) < 4.5) found.push(`${one.tagName} ${one.textContent.slice(0, 40)}`); } \
     return [...new Set(found)]; })()";

/// Names of elements that overflow the window or their dialog.
const BEYOND: &str = "[document.documentElement, document.body, ...document.querySelectorAll('dialog[open]')] \
     .filter((one) => one.scrollWidth > one.clientWidth).map((one) => one.tagName)";

/// Numbers of the pairs that are listed, from the top.
const LISTED: &str =
    "[...document.querySelectorAll('#pairs tbody tr')].map((row) => Number(row.dataset.source.split(':')[2]))";

/// Opens the page over canned answers: 200 pairs, two clusters.
fn open(browser: &mut Browser) -> (Canned, Tab<'_>) {
    let address = free_address().to_string();
    let clusters = json!([cluster(7, 90, "https://originals.example/7"), cluster(9, 80, "javascript:alert(1)")]);
    let canned = Canned::start(&address, pairs(200, &clusters));
    let mut tab = browser.open(&format!("http://{address}/ui/pairs"));
    holds(
        &mut tab,
        "a list",
        &format!("{LISTED}.length === 50 && document.querySelectorAll('#clusters tbody tr').length === 2"),
    );
    (canned, tab)
}

fn find(canned: &Canned, newest: u64) {
    canned.change(|now| now["newest"] = json!(newest));
}

fn top_is(number: u64) -> String {
    format!("{LISTED}[0] === {number}")
}

fn newer_is(text: &str) -> String {
    format!(
        "!document.getElementById('newer-pairs').hidden && document.getElementById('newer-pairs').textContent === '{text}'"
    )
}

#[test]
fn the_list_does_not_move_while_it_is_read() {
    let Some(mut browser) = Browser::start() else { return };
    let (canned, mut tab) = open(&mut browser);
    assert_eq!(tab.run("document.getElementById('range').textContent"), "Pairs 1 to 50 of 200, newest first");

    // The focus stays where it is, and newer pairs wait.
    tab.run("document.querySelectorAll('#pairs button.open')[2].focus()");
    let focused = tab.run(FOCUSED);
    assert!(focused.as_str().is_some_and(|focused| focused.contains("/198/")), "{focused}");
    find(&canned, 210);
    holds(&mut tab, "newer pairs", &newer_is("Show 10 newer pairs"));
    assert_eq!((tab.run(FOCUSED), tab.run(&format!("{LISTED}[0]"))), (focused, json!(200)));
    tab.run("document.getElementById('newer-pairs').click()");
    holds(&mut tab, "the newer ones", &format!("{} && document.activeElement.id === 'list'", top_is(210)));

    // Elsewhere the list continues, and rows that stay are the same rows.
    tab.run("document.getElementById('pause').focus()");
    tab.run("document.querySelectorAll('#pairs tbody tr')[0].dataset.mark = 'kept'");
    find(&canned, 213);
    let marked = "[...document.querySelectorAll('#pairs tbody tr')].findIndex((row) => row.dataset.mark === 'kept')";
    holds(&mut tab, "three more", &format!("{} && {marked} === 3", top_is(213)));
    assert_eq!(tab.run(FOCUSED), "Pause the list");

    // The text being read stays in place in the window.
    tab.run("document.querySelectorAll('#pairs tbody tr')[20].dataset.place = 'here'");
    tab.run("document.querySelector('[data-place]').scrollIntoView()");
    let place = |tab: &mut Tab<'_>| {
        let top = tab.run("document.querySelector('[data-place]').getBoundingClientRect().top + 100");
        top.as_f64().expect("a place")
    };
    let before = place(&mut tab);
    find(&canned, 215);
    holds(&mut tab, "two more", &top_is(215));
    let after = place(&mut tab);
    assert!((after - before).abs() < 2.0, "{before} {after}");
    tab.run("window.scrollTo(0, 0)");

    // A pointer that rests in the list holds it, too.
    let middle = tab.run(
        "(() => { const box = document.querySelectorAll('#pairs tbody tr')[1].getBoundingClientRect(); \
         return [box.left + 40, box.top + box.height / 2]; })()",
    );
    tab.point(middle[0].as_f64().expect("a place"), middle[1].as_f64().expect("a place"));
    find(&canned, 216);
    holds(&mut tab, "one newer pair", &newer_is("Show 1 newer pair"));
    assert_eq!(tab.run(&format!("{LISTED}[0]")), 215);
    tab.point(2.0, 2.0);
    holds(&mut tab, "the list to continue", &top_is(216));

    // Clusters: the numbers change below the focus, the order does not.
    tab.run("document.querySelectorAll('#clusters button')[1].focus()");
    canned.change(|now| {
        now["clusters"] = json!([cluster(9, 99, "javascript:alert(1)"), cluster(7, 91, "https://originals.example/7")]);
    });
    let clusters_shown =
        "[...document.querySelectorAll('#clusters tbody tr')].map((row) => row.cells[0].textContent).join()";
    holds(&mut tab, "the new numbers", &format!("{clusters_shown} === '91+,99+'"));
    assert_eq!(tab.run(FOCUSED), "Forget javascript:alert(1)");
    let links = tab.run("[...document.querySelectorAll('#clusters a')].map((link) => [link.href, link.rel])");
    assert_eq!(links, json!([["https://originals.example/7", "noopener noreferrer"]]), "no other kind of address");
    tab.run("document.getElementById('pause').focus()");
    holds(&mut tab, "the new order", &format!("{clusters_shown} === '99+,91+'"));

    // Pages of the list: older ones stay where they are while newer ones come.
    tab.run("document.getElementById('older').click()");
    holds(&mut tab, "older pairs", &format!("{} && document.activeElement.id === 'list'", top_is(166)));
    find(&canned, 220);
    holds(&mut tab, "the range", "document.getElementById('range').textContent.startsWith('Pairs 55 to 104 of 220')");
    assert_eq!(tab.run(&format!("{LISTED}[0]")), 166);
    tab.run("document.getElementById('newest').click()");
    holds(
        &mut tab,
        "the newest",
        &format!("{} && document.getElementById('newer').ariaDisabled === 'true'", top_is(220)),
    );

    // Without an answer the page shows that with the time, and recovers by itself.
    drop(canned);
    let message = "document.getElementById('trouble').textContent";
    holds(&mut tab, "the silence", &format!("/has not answered since \\d\\d:\\d\\d:\\d\\d/.test({message})"));
}

#[test]
fn the_pairs_are_reached_by_the_keyboard() {
    let Some(mut browser) = Browser::start() else { return };
    let (_canned, mut tab) = open(&mut browser);
    assert_eq!(tab.run(FLAWS), json!([]));
    let filters = ["verdict", "min_distance", "max_distance", "site", "segmenter"];
    for expected in ["Skip to the pairs", "Overview", "Pairs"].into_iter().chain(filters).chain(["Pause the list"]) {
        tab.press("Tab");
        assert_eq!(tab.run(FOCUSED), json!(expected));
    }
    let follows = |tab: &mut Tab<'_>, expected: &str| {
        tab.press("Tab");
        let focused = tab.run(FOCUSED);
        assert!(focused.as_str().is_some_and(|focused| focused.contains(expected)), "{focused}, not {expected}");
    };
    follows(&mut tab, "/200/");

    // The skip link, a pair, and back to where it was opened.
    tab.run("document.querySelector('.skip').focus()");
    tab.press("Enter");
    holds(&mut tab, "the skip link", "document.activeElement.id === 'list'");
    follows(&mut tab, "/200/");
    follows(&mut tab, "/199/");
    tab.press("Enter");
    holds(
        &mut tab,
        "both texts",
        "document.getElementById('pair').open && document.querySelector('#own-text ins') !== null",
    );
    assert_eq!(tab.run("document.activeElement.closest('dialog')?.id"), "pair");
    for expected in ["Text of the original", "Text of the duplicate", "What each distance", "case", "Copy as test case"]
    {
        while tab.run(FOCUSED).as_str().is_some_and(|focused| !focused.contains(expected))
            && tab.run("document.activeElement.id") != expected
        {
            tab.press("Tab");
            assert_eq!(tab.run("document.activeElement.closest('dialog')?.id"), "pair", "{expected} is not reached");
        }
    }
    tab.press("Escape");
    holds(&mut tab, "the end", "!document.getElementById('pair').open");
    assert!(tab.run(FOCUSED).as_str().is_some_and(|focused| focused.contains("/199/")));

    // After the list: its pages, then the clusters, each with its page.
    tab.run("[...document.querySelectorAll('#pairs button.open')].pop().focus()");
    for expected in ["Newest", "Newer", "Older", "https://originals.example/7", "Forget https://originals.example/7"] {
        follows(&mut tab, expected);
    }
    tab.press("Enter");
    holds(&mut tab, "the question", "document.getElementById('forget').open");
    assert!(tab.run(FOCUSED).as_str().is_some_and(|focused| focused.contains("Keep it")));
    tab.press("Escape");
    holds(&mut tab, "the answer", "document.activeElement.textContent === 'Forget'");
}

#[test]
fn the_pairs_support_small_windows_and_dark_mode() {
    let Some(mut browser) = Browser::start() else { return };
    let (_canned, mut tab) = open(&mut browser);
    let dialog = |tab: &mut Tab<'_>| {
        tab.run("document.querySelector('#pairs button.open').click()");
        holds(
            tab,
            "both texts",
            "document.getElementById('pair').open && document.querySelector('#own-text ins') !== null",
        );
    };
    for width in [1280, 360] {
        tab.resize(width, 740);
        holds(&mut tab, "the new size", &format!("document.documentElement.clientWidth <= {width}"));
        for scheme in ["light", "dark"] {
            tab.prefer("prefers-color-scheme", scheme);
            let back = if scheme == "light" { "rgb(255, 255, 255)" } else { "rgb(18, 22, 29)" };
            holds(&mut tab, scheme, &format!("getComputedStyle(document.body).backgroundColor === '{back}'"));
            tab.run("trouble('something went wrong')");
            assert_eq!((tab.run(FAINT), tab.run(BEYOND)), (json!([]), json!([])), "{width} {scheme}");
            dialog(&mut tab);
            assert_eq!((tab.run(FAINT), tab.run(BEYOND)), (json!([]), json!([])), "a pair, {width} {scheme}");
            tab.run("document.getElementById('close').click()");
        }
    }

    // Verdict, bits and age in one line, the texts below it over the whole width.
    let boxes = tab.run(
        "[...document.querySelectorAll('#pairs tbody tr')[1].cells].map((cell) => cell.getBoundingClientRect()) \
         .map((box) => [box.top, box.bottom, box.width])",
    );
    let at = |cell: usize, side: usize| boxes[cell][side].as_f64().expect("a number");
    assert!((at(0, 0) - at(2, 0)).abs() < 2.0 && at(3, 0) >= at(0, 1) && at(3, 2) > 300.0, "{boxes}");

    // The side part is folded, follows the list, and is one step away.
    assert_eq!(tab.run("document.getElementById('side').open"), false);
    tab.run("document.querySelector('.jump').focus()");
    tab.press("Enter");
    holds(
        &mut tab,
        "the clusters",
        "document.getElementById('side').open && document.activeElement.tagName === 'SUMMARY' && \
         document.activeElement.getBoundingClientRect().top < 740",
    );
    assert_eq!(tab.run(BEYOND), Value::Array(Vec::new()));
    assert!(tab.seen().complaints.is_empty(), "{:?}", tab.seen().complaints);
}
