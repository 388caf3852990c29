'use strict';

// The list is asked for again and again; what it shows is made of text nodes only.

const EVERY_MS = 1500;
const HIGHEST_THRESHOLD = 8;
const HISTOGRAM_BITS = 16;
let paused = false;
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

function row(pair) {
  const made = element('tr');
  const verdict = element('td', pair.verdict);
  verdict.prepend(element('span', undefined, { class: `swatch ${pair.verdict}` }));
  made.append(verdict, element('td', pair.bits ?? '-'), element('td', age(pair.age_ms)));
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
  made.append(pages);
  made.addEventListener('click', () => look(pair.source));
  return made;
}

function histogram(pairs, limit) {
  const NS = 'http://www.w3.org/2000/svg';
  const svg = $('histogram');
  const draw = (name, attributes, text) => {
    const made = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  const counts = new Array(HISTOGRAM_BITS + 1).fill(0);
  for (const pair of pairs) {
    // Exact ones are all at 0: they would hide the rest.
    if (Number.isInteger(pair.bits) && pair.verdict !== 'exact') counts[Math.min(pair.bits, HISTOGRAM_BITS)] += 1;
  }
  const most = Math.max(1, ...counts);
  svg.replaceChildren();
  counts.forEach((count, bits) => {
    const height = count ? Math.max(2, (count / most) * 95) : 0;
    draw('rect', { x: bits * 20 + 2, y: 110 - height, width: 16, height });
    if (count) draw('text', { x: bits * 20 + 10, y: 106 - height }, count);
    draw('text', { x: bits * 20 + 10, y: 122 }, bits === HISTOGRAM_BITS ? `${bits}+` : bits);
  });
  draw('line', { x1: limit * 20 + 20, x2: limit * 20 + 20, y1: 0, y2: 112 });
  $('limit').textContent = `The near pairs of the list. The line marks match.simhash.max_distance (${limit}); the stage minhash found pairs to the right of it.`;
}

function clusters(found) {
  const rows = found.map(({ cluster, duplicates }) => {
    const made = element('tr');
    const forget = element('button', 'Forget', { type: 'button' });
    forget.addEventListener('click', () => confirmForget(cluster));
    const last = element('td');
    last.append(forget);
    made.append(element('td', `${duplicates}+`), element('td', cluster), last);
    return made;
  });
  $('clusters').tBodies[0].replaceChildren(...rows);
  $('no-clusters').hidden = rows.length > 0;
}

function confirmForget(cluster) {
  $('forget-what').textContent = cluster;
  $('forget').showModal();
}

// The answer itself, not the closing of the question: that is told later, when it may have been asked anew.
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
  wanted.set('limit', '200');
  return wanted.toString();
}

async function refresh() {
  try {
    const [page, top] = await Promise.all([ask(`pairs?${query()}`), ask('index/top?n=10')]);
    $('door').hidden = true;
    document.querySelector('main').hidden = false;
    $('totals').textContent = `${page.duplicates} duplicates delivered since the start; a sample of ${page.kept} is kept here`;
    configured = page.max_distance;
    listed = new Map(page.pairs.map((pair) => [pair.source, pair]));
    $('pairs').tBodies[0].replaceChildren(...page.pairs.map(row));
    $('none').hidden = page.pairs.length > 0;
    histogram(page.pairs, page.max_distance);
    clusters(top);
    trouble('');
  } catch (error) {
    if (!(error instanceof Refused)) {
      trouble(error.message);
      return;
    }
    document.querySelector('main').hidden = true;
    $('door').hidden = false;
    $('totals').textContent = 'The token is needed';
    $('refused').textContent = token ? error.message : '';
  }
}

// What is known of a pair, by the list or by the answer about it.
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
  $('match-name').textContent = named(pair, 'match_id', 'match');
  $('own-name').textContent = named(pair, 'id', 'source');
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
    const says = pair.bits <= limit ? 'match' : 'no match';
    $('thresholds').tHead.rows[0].append(element('th', limit));
    $('thresholds').tBodies[0].rows[0].append(element('td', says, limit === configured ? { class: 'now' } : {}));
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
  refresh();
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
  if (!paused && !document.hidden && !$('pair').open && !$('forget').open && $('door').hidden) refresh();
}, EVERY_MS);
