//! Examples of changed verdicts as one self-contained HTML page.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use dupgate_core::replay::{Example, RecordedVerdict, Side};

use super::{Counted, kind_name, percent};
use crate::cli::html::{self, Named, Script, escaped};
use crate::cli::human;
use crate::record::Source;
use crate::text::Analyzer;

/// Shows the sections of one kind that hold a text. A link to a hidden section shows all again.
const SCRIPT: Script = Script {
    text: r"
const by=id=>document.getElementById(id),kind=by('kind'),text=by('text'),shown=by('shown');
const all=[...document.querySelectorAll('section')].map(e=>[e,e.textContent.toLowerCase()]);
function filter(){
  const wanted=text.value.trim().toLowerCase();let n=0;
  for(const [e,t] of all){const is=(!kind.value||e.dataset.kind===kind.value)&&t.includes(wanted);e.hidden=!is;n+=is}
  shown.textContent=n+' of '+all.length+' examples';
}
addEventListener('hashchange',()=>{
  const e=by(decodeURIComponent(location.hash.slice(1)));
  if(e&&e.hidden){kind.value='';text.value='';filter();e.scrollIntoView()}
});
kind.addEventListener('change',filter);text.addEventListener('input',filter);
by('filters').addEventListener('submit',e=>e.preventDefault());
by('filters').hidden=false;filter();
",
    sha256: "2M+roObovzkF/bDtz2guemnxJKE9oJNO9I6o+hJWutY=",
};

/// A page as shown: its id, and its normalised text or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shown {
    /// Its id.
    pub(super) id: Option<String>,
    /// The text.
    pub(super) text: Result<String, String>,
}

/// Begins the page: title, counts, filters.
pub(super) fn begin(counted: &Counted<'_>) -> String {
    let Counted { names, compared, plan, records, .. } = counted;
    let title = format!("{} against {}", names.after, names.before);
    let mut out = html::begin(&title, Some(SCRIPT));
    let set = if plan.set.is_empty() { "none".to_owned() } else { plan.set.join(" ") };
    // Writing to a `String` cannot fail.
    let _ = write!(
        out,
        "<h1>{}</h1>\n<p>Verdicts on {} pages at {} offsets. Settings that differ from the live ones: <code>{}</code></p>\n\
         <table><tr><th>verdict in {} -&gt; in {}</th><th class=\"n\">pages</th><th class=\"n\">share</th></tr>\n",
        escaped(&title),
        human::count(compared.total()),
        human::count(*records),
        escaped(&set),
        escaped(&names.before),
        escaped(&names.after),
    );
    let same = ("same verdict".to_owned(), compared.same());
    let changed = compared.changed().map(|(kind, count)| (kind_name(kind, names), count));
    for (name, count) in std::iter::once(same).chain(changed) {
        let (name, share) = (escaped(&name), percent(count, compared.total()));
        let _ = writeln!(
            out,
            "<tr><td>{name}</td><td class=\"n\">{}</td><td class=\"n\">{share}</td></tr>",
            human::count(count)
        );
    }
    out.push_str(
        "</table>\n<form id=\"filters\" hidden><label>change <select id=\"kind\"><option value=\"\">all</option>",
    );
    let kinds: BTreeSet<String> = compared.examples.iter().map(|example| kind_name(example.kind(), names)).collect();
    for kind in kinds {
        let kind = escaped(&kind);
        let _ = write!(out, "<option value=\"{kind}\">{kind}</option>");
    }
    out.push_str(
        "</select></label> <label>text <input id=\"text\" type=\"search\"></label> <small id=\"shown\"></small></form>\n",
    );
    out
}

/// Writes one example: the page, what it was matched with, and why the verdicts of the runs differ.
pub(super) fn section(
    out: &mut String,
    counted: &Counted<'_>,
    example: &Example,
    analyzer: &Analyzer,
    pages: &BTreeMap<Source, Shown>,
) {
    let Counted { names, anchors, .. } = counted;
    let kind = escaped(&kind_name(example.kind(), names));
    let place = escaped(&example.source.to_string());
    let _ = write!(
        out,
        "<section id=\"{place}\" data-kind=\"{kind}\"><h2>{kind} <small><a href=\"#{place}\">{place}</a></small></h2>\n\
         <p>{}</p>\n",
        escaped(&counted.why(example))
    );
    let named = |word: &str, source: &Source| {
        let place = escaped(&source.to_string());
        let place = if anchors.contains(source) && *source != example.source {
            format!("<a href=\"#{place}\">{place}</a>")
        } else {
            place
        };
        let id = pages.get(source).and_then(|page| page.id.as_deref()).map(escaped);
        [Some(word.to_owned()), Some(place), id].into_iter().flatten().collect::<Vec<_>>().join(" ")
    };
    let text = |source: &Source| match pages.get(source).map(|page| &page.text) {
        Some(Ok(text)) => (true, text.clone()),
        Some(Err(why)) => (false, format!("({why})")),
        None => (false, "(the input does not hold this page any more)".to_owned()),
    };
    let page_name = named("page", &example.source);
    let (has_page, page_text) = text(&example.source);
    let page = Named { name: &page_name, text: &page_text };
    let shown = shown_match(example);
    if let Some((side, of)) = shown {
        let name = named(&format!("original in {}", escaped(names.of(side))), of);
        let (has_original, original) = text(of);
        let original = Named { name: &name, text: &original };
        if has_page && has_original {
            html::pair(out, analyzer, original, page);
        } else {
            html::side_by_side(out, &[original, page]);
        }
    } else {
        html::side_by_side(out, &[page]);
    }
    out.push_str("</section>\n");
}

/// Returns the original to show beside the page: that of the replay, if any.
pub(super) fn shown_match(example: &Example) -> Option<(Side, &Source)> {
    let of = |side: Side| {
        let of = example.verdicts.of(side).as_ref().and_then(|recorded: &RecordedVerdict| recorded.of.as_deref())?;
        Some((side, &of.source))
    };
    of(Side::After).or_else(|| of(Side::Before))
}

/// Ends the page.
pub(super) fn end(out: &mut String) {
    html::end(out, Some(SCRIPT));
}
