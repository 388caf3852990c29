'use strict';

// The list is refreshed periodically; it is made of text nodes only.

const EVERY_MS = 1500;
const PATIENCE_MS = 5000;
const PAGE = 50;
const HIGHEST_THRESHOLD = 8;
const NARROW = matchMedia('(max-width: 60rem)');
// Whether the last pointer was a mouse: after a touch nothing is pointed at.
let hasMouse = false;
let paused = false;
let asking = false;
let turn = 0;
// Number of the last pair of each page of the list that was left for an older one.
let before = [];
let listed = new Map();
// match.simhash.max_distance
let configured;

function age(ms) {
  const units = [['d', 86400000], ['h', 3600000], ['min', 60000], ['s', 1000]];
  const found = units.find(([, unit]) => Math.abs(ms) >= 2 * unit);
  return found ? `${Math.trunc(ms / found[1])} ${found[0]}` : `${ms} ms`;
}

const MARKS = { match: 'del', own: 'ins', both: 'span' };

function runs(list, ...sides) {
  const made = document.createDocumentFragment();
  for (const run of list) {
    if (sides.includes(run.side)) made.append(element(MARKS[run.side], run.text));
  }
  return made;
}

function named(pair, id, source) {
  return pair[id] ? `${pair[id]}  (${pair[source]})` : pair[source];
}

// A page's id: a link where it is a URL of the web. It comes from a crawl and is untrusted.
function link(id) {
  return /^https?:\/\//i.test(id) ? element('a', id, { href: id, target: '_blank', rel: 'noopener noreferrer' }) : id;
}

// The origin of the page: its id as a link, and its position.
function placed(id, source) {
  return id ? [link(id), ` (${source})`] : [source];
}

// Whether the pointer or the focus is in this part: then nothing in it may move.
function isHeld(part) {
  return part.contains(document.activeElement) || (hasMouse && part.matches(':hover'));
}

function fill(row, pair) {
  const verdict = element('td', pair.verdict);
  verdict.prepend(element('span', undefined, { class: `swatch ${pair.verdict}` }));
  const bits = element('td', pair.bits ?? '-', Number.isInteger(pair.bits) ? {} : { class: 'unknown' });
  const pages = element('td');
  const open = element('button', pair.id || pair.source, { type: 'button', class: 'open' });
  const other = element('div', `~ ${pair.match_id || pair.match}`, { class: 'other' });
  const differs = element('div', undefined, { class: 'differs' });
  if (pair.missing) differs.append(element('span', pair.missing, { class: 'note' }));
  else if (pair.differs && pair.differs.length) differs.append(runs(pair.differs, 'both', 'match', 'own'));
  else if (pair.words && pair.words.common === pair.words.own && pair.words.common === pair.words.match) {
    differs.append(element('span', 'same text', { class: 'note' }));
  } else if (pair.words) {
    differs.append(element('span', `${pair.words.common} of ${pair.words.own} words in common`, { class: 'note' }));
  }
  pages.append(open, other, differs);
  row.dataset.source = pair.source;
  row.replaceChildren(verdict, bits, element('td', age(pair.age_ms)), pages);
}

// Rows of the list by key, newest first. A row that stays is reused, which keeps focus, selection and place.
const rows = new Map();

function update(pairs) {
  const body = $('pairs').tBodies[0];
  const wanted = new Map(pairs.map((pair) => [`${pair.number} ${pair.source}`, pair]));
  for (const [key, { row }] of rows) {
    if (wanted.has(key)) continue;
    row.remove();
    rows.delete(key);
  }
  // The remaining rows are in the wanted order: new rows are only inserted between them.
  let next = body.firstElementChild;
  for (const [key, pair] of wanted) {
    const content = JSON.stringify(pair);
    const known = rows.get(key) || { row: element('tr') };
    if (rows.has(key)) next = known.row.nextElementSibling;
    else body.insertBefore(known.row, next);
    rows.set(key, known);
    if (known.content !== content) fill(known.row, pair);
    known.content = content;
  }
}

// Changes the list and keeps the row being read in place in the window.
function inPlace(change) {
  const isAbove = $('list').getBoundingClientRect().top < 0;
  const anchor = isAbove && [...$('pairs').tBodies[0].rows].find((row) => row.getBoundingClientRect().bottom > 0);
  const top = anchor && anchor.getBoundingClientRect().top;
  change();
  if (anchor && anchor.isConnected) window.scrollBy(0, anchor.getBoundingClientRect().top - top);
}

// Shows a page of the list. While it is held, it only shows the number of newer pairs.
function list(page, isWanted) {
  const newest = Math.max(...[...listed.values()].map((pair) => pair.number));
  if (!isWanted && isHeld($('pairs').tBodies[0])) {
    const newer = page.pairs.filter((pair) => pair.number > newest).length;
    $('newer-pairs').hidden = newer === 0;
    $('newer-pairs').textContent = newer === PAGE ? `Show ${PAGE} or more newer pairs` : newer === 1 ? 'Show 1 newer pair' : `Show ${newer} newer pairs`;
    return;
  }
  $('newer-pairs').hidden = true;
  listed = new Map(page.pairs.map((pair) => [pair.source, pair]));
  if (isWanted) update(page.pairs);
  else inPlace(() => update(page.pairs));
  const first = page.newer + 1;
  const last = page.newer + page.pairs.length;
  $('range').textContent = page.pairs.length ? `Pairs ${first} to ${last} of ${page.matching}, newest first` : '';
  $('none').hidden = page.matching > 0;
  allow('newest', before.length > 0);
  allow('newer', before.length > 0);
  allow('older', last < page.matching && page.pairs.length > 0);
}

// A disabled button keeps the focus.
function allow(id, isAllowed) {
  $(id).setAttribute('aria-disabled', !isAllowed);
}

function histogram(counts, limit) {
  const NS = 'http://www.w3.org/2000/svg';
  const svg = $('histogram');
  const draw = (name, attributes, text) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  const most = Math.max(1, ...counts);
  svg.replaceChildren();
  counts.forEach((count, bits) => {
    const height = count ? Math.max(2, (count / most) * 95) : 0;
    draw('rect', { x: bits * 20 + 2, y: 110 - height, width: 16, height });
    if (count) draw('text', { x: bits * 20 + 10, y: 106 - height }, count);
    draw('text', { x: bits * 20 + 10, y: 122 }, bits === counts.length - 1 ? `${bits}+` : bits);
  });
  draw('line', { x1: limit * 20 + 20, x2: limit * 20 + 20, y1: 0, y2: 112 });
  const all = counts.reduce((sum, count) => sum + count, 0);
  $('limit').textContent = `The ${all} near pairs that match the filter. The line marks match.simhash.max_distance (${limit}); the stage minhash found pairs to the right of it.`;
}

// Rows of the largest clusters by position of the first page.
let clusterRows = new Map();

function clusterRow({ cluster, id, duplicate_id: copy }) {
  const row = element('tr');
  const page = element('td');
  if (id) page.append(link(id));
  else if (copy) page.append('of ', link(copy));
  page.append(element('div', cluster, { class: 'note' }));
  const forget = element('button', 'Forget', { type: 'button', 'aria-label': `Forget ${id || cluster}` });
  forget.addEventListener('click', () => confirmForget(cluster, id));
  const last = element('td');
  last.append(forget);
  row.append(element('td'), page, last);
  return { row, id, copy };
}

function clusters(found) {
  const held = isHeld($('clusters'));
  const made = new Map();
  for (const one of found) {
    const known = clusterRows.get(one.cluster);
    const isSame = known && (held || known.id === one.id && (known.id || known.copy === one.duplicate_id));
    const row = isSame ? known : clusterRow(one);
    row.row.cells[0].textContent = `${one.duplicates}+`;
    made.set(one.cluster, row);
  }
  // Numbers may change below a pointer; rows may not.
  if (held) return;
  clusterRows = made;
  $('clusters').tBodies[0].replaceChildren(...[...made.values()].map(({ row }) => row));
  $('clusters').hidden = made.size === 0;
  $('no-clusters').hidden = made.size > 0;
}

function confirmForget(cluster, id) {
  $('forget-what').textContent = cluster;
  $('forget-id').textContent = id ? ` (${id})` : '';
  $('forget').showModal();
}

// The answer itself, not the close event of the dialog, which may arrive after the next opening.
$('forget').querySelector('form').addEventListener('submit', async (event) => {
  if (event.submitter?.value !== 'yes') return;
  try {
    await ask('index/forget', { method: 'POST', body: JSON.stringify({ source: [$('forget-what').textContent] }) });
    trouble('');
  } catch (error) {
    trouble(error.message);
  }
});

function trouble(text) {
  $('trouble').textContent = text;
}

function query() {
  const wanted = new URLSearchParams(new FormData($('filters')));
  wanted.set('limit', PAGE);
  if (before.length) wanted.set('before', before[before.length - 1]);
  return wanted.toString();
}

// Requests the list and the clusters. If the user has requested it (`isWanted`), the list is shown even while it is
// held.
async function refresh(isWanted = false) {
  turn += 1;
  const own = turn;
  asking = true;
  const signal = AbortSignal.timeout(PATIENCE_MS);
  try {
    const [page, top] = await Promise.all([ask(`pairs?${query()}`, { signal }), ask('index/top?n=10', { signal })]);
    // A newer request is shown instead.
    if (own !== turn) return;
    $('door').hidden = true;
    document.querySelector('main').hidden = false;
    document.title = `dupgate - Pairs - ${page.instance}`;
    $('totals').textContent = `${page.instance}: ${page.duplicates} duplicates delivered since the start; a sample of ${page.kept} is kept here`;
    configured = page.max_distance;
    list(page, isWanted);
    histogram(page.distances, page.max_distance);
    clusters(top);
    trouble('');
  } catch (error) {
    if (own !== turn) return;
    if (!(error instanceof Refused)) {
      trouble(error.message);
      return;
    }
    document.querySelector('main').hidden = true;
    $('door').hidden = false;
    $('totals').textContent = 'The token is needed';
    $('refused').textContent = token ? error.message : '';
    trouble('');
  } finally {
    if (own === turn) asking = false;
  }
}

// Goes to another page of the list, and to its beginning.
async function turnTo(pages) {
  before = pages;
  await refresh(true);
  $('list').focus({ preventScroll: true });
  $('list').scrollIntoView();
}

// The facts about a pair, from the list or from the answer about it.
function tell(pair) {
  $('pair-head').textContent = `${pair.verdict}: ${named(pair, 'id', 'source')}`;
  const facts = [`found by ${pair.stage}`];
  if (Number.isInteger(pair.bits)) facts.push(`${pair.bits} bits of the SimHash differ`);
  if (pair.similarity !== undefined) facts.push(`similarity of the sketches ${pair.similarity}`);
  if (pair.words) facts.push(`words ${pair.words.match} and ${pair.words.own}, ${pair.words.common} in common`);
  if (pair.segmenter) facts.push(`segmenter ${pair.segmenter}`);
  facts.push(`${age(Math.abs(pair.age_ms))} ${pair.age_ms < 0 ? 'before' : 'after'} the original`);
  if (pair.cut) facts.push('the end of a long text is left out');
  $('pair-facts').textContent = facts.join(' · ');
  $('match-name').replaceChildren(...placed(pair.match_id, pair.match));
  $('own-name').replaceChildren(...placed(pair.id, pair.source));
  $('thresholds').tHead.rows[0].replaceChildren();
  $('thresholds').tBodies[0].rows[0].replaceChildren();
  thresholds(pair);
  const shown = pair.runs || pair.differs || [];
  $('match-text').replaceChildren(runs(shown, 'both', 'match'));
  $('own-text').replaceChildren(runs(shown, 'both', 'own'));
}

async function look(source) {
  $('pair-head').textContent = source;
  for (const id of ['pair-facts', 'pair-trouble', 'copied', 'match-name', 'own-name', 'match-text', 'own-text']) {
    $(id).textContent = '';
  }
  $('thresholds').tHead.rows[0].replaceChildren();
  $('thresholds').tBodies[0].rows[0].replaceChildren();
  $('case').value = '';
  for (const id of ['case-box', 'no-case']) $(id).hidden = true;
  if (listed.has(source)) tell(listed.get(source));
  $('pair-state').textContent = 'loading the texts …';
  if (!$('pair').open) $('pair').showModal();
  try {
    const pair = await ask(`pairs/${encodeURIComponent(source)}`);
    tell(pair);
    if (pair.missing) $('pair-trouble').textContent = pair.missing;
    else if (!pair.runs.length) $('pair-trouble').textContent = 'http.admin.text is none: texts are not shown';
    $('case').value = pair.case || '';
    $('case-box').hidden = !pair.case;
    $('no-case').hidden = pair.text === 'full';
  } catch (error) {
    $('pair-trouble').textContent = error.message;
  }
  $('pair-state').textContent = '';
}

function thresholds(pair) {
  if (!Number.isInteger(pair.bits)) return;
  for (let limit = 0; limit <= HIGHEST_THRESHOLD; limit += 1) {
    const verdict = pair.bits <= limit ? 'match' : 'no match';
    $('thresholds').tHead.rows[0].append(element('th', limit, { scope: 'col' }));
    $('thresholds').tBodies[0].rows[0].append(element('td', verdict, limit === configured ? { class: 'now' } : {}));
  }
}

$('door').addEventListener('submit', (event) => {
  event.preventDefault();
  keepToken($('token').value.trim());
  refresh();
});
$('filters').addEventListener('submit', (event) => event.preventDefault());
// The address carries the filter: it can be shared.
for (const [name, value] of new URLSearchParams(location.search)) {
  const field = $('filters').elements.namedItem(name);
  if (field) field.value = value;
}
$('filters').addEventListener('input', () => {
  const set = [...new FormData($('filters'))].filter(([, value]) => value !== '');
  const wanted = new URLSearchParams(set).toString();
  history.replaceState(null, '', wanted ? `?${wanted}` : location.pathname);
  before = [];
  refresh(true);
});
$('pairs').tBodies[0].addEventListener('click', (event) => {
  const row = event.target.closest('tr');
  if (row) look(row.dataset.source);
});
for (const kind of ['pointermove', 'pointerdown']) {
  document.addEventListener(kind, (event) => { hasMouse = event.pointerType === 'mouse'; });
}
$('newer-pairs').addEventListener('click', () => turnTo(before));
const TURNS = {
  newest: () => [],
  newer: () => before.slice(0, -1),
  older: () => [...before, Math.min(...[...listed.values()].map((pair) => pair.number))],
};
for (const [id, pages] of Object.entries(TURNS)) {
  $(id).addEventListener('click', () => {
    if ($(id).getAttribute('aria-disabled') !== 'true') turnTo(pages());
  });
}
// In a narrow window the side part is folded, and opened when the user goes to it.
const fold = () => { $('side').open = !NARROW.matches; };
fold();
NARROW.addEventListener('change', fold);
document.querySelector('.jump').addEventListener('click', (event) => {
  event.preventDefault();
  $('side').open = true;
  $('side').querySelector('summary').focus({ preventScroll: true });
  $('side').scrollIntoView();
});
$('pause').addEventListener('click', () => {
  paused = !paused;
  $('pause').setAttribute('aria-pressed', paused);
  $('pause').textContent = paused ? 'Resume the list' : 'Pause the list';
});
$('close').addEventListener('click', () => $('pair').close());
$('copy').addEventListener('click', async () => {
  $('case').select();
  try {
    await navigator.clipboard.writeText($('case').value);
    $('copied').textContent = 'copied: append it to a file of cases';
  } catch {
    // Not every browser lets a page write to the clipboard over plain HTTP.
    $('copied').textContent = 'it is selected: copy it by the keyboard';
  }
});

refresh();
setInterval(() => {
  if (!asking && !paused && !document.hidden && !$('pair').open && !$('forget').open && $('door').hidden) refresh();
}, EVERY_MS);
