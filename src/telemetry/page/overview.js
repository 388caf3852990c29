'use strict';

// Requests the state and the samples since the last answer every two seconds. What is shown is made of text nodes only;
// charts are drawn by uPlot, and each has its newest values as text below it.

const EVERY_MS = 2000;
const PATIENCE_MS = 5000;
const VERDICTS = ['unique', 'update', 'template', 'near', 'exact', 'bypass'];
const NAMES = { bypass: 'passed on' };

const known = { started: null, last: 0, columns: {}, kept: 720 };
let minutes = 60;
let now = null;
let reached = performance.now();
let lost = false;
let charts = [];
let hovered = null;

// Numbers for people.

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 });
const rough = new Intl.NumberFormat('en', { maximumSignificantDigits: 3, notation: 'compact' });

function rate(value) {
  if (value === null || value === undefined) return '-';
  if (value >= 100) return whole.format(value);
  return value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(value < 1 ? 2 : 1);
}

const count = (value) => (value === null || value === undefined ? '-' : whole.format(value));

function percent(value) {
  if (value === null || value === undefined) return '-';
  const points = value * 100;
  return `${points >= 10 || points === 0 ? points.toFixed(0) : points.toFixed(1)} %`;
}

function span(ms) {
  if (ms === null || ms === undefined) return '-';
  const units = [['d', 86400000], ['h', 3600000], ['min', 60000], ['s', 1000]];
  const found = units.find(([, unit]) => ms >= 2 * unit);
  if (!found) return ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.round(Math.max(0, ms))} ms`;
  return `${Math.floor(ms / found[1])} ${found[0]}`;
}

const seconds = (value) => (value === null || value === undefined ? '-' : value < 10 && value >= 1 ? `${value.toFixed(1)} s` : span(value * 1000));

function bytes(value) {
  if (value === null || value === undefined) return '-';
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let place = 0;
  while (value >= 1024 && place < units.length - 1) [value, place] = [value / 1024, place + 1];
  return `${value >= 100 || place === 0 ? value.toFixed(0) : value.toFixed(1)} ${units[place]}`;
}

// The samples. Numbers restart with the instance: then all known samples are dropped.

function take(answer) {
  if (answer.started_ms !== known.started) {
    const again = known.started !== null;
    Object.assign(known, { started: answer.started_ms, last: 0, columns: {}, kept: answer.samples_kept });
    if (again) return false;
  }
  for (const [name, values] of Object.entries(answer.samples)) {
    known.columns[name] = (known.columns[name] || []).concat(values).slice(-known.kept);
  }
  known.last = answer.last_sample;
  return true;
}

const column = (name) => known.columns[name] || [];

function duplicates() {
  return column('number').map((_, place) => {
    const of = (verdict) => column(verdict)[place] || 0;
    const all = VERDICTS.reduce((sum, verdict) => sum + of(verdict), 0);
    return all > 0 ? (of('near') + of('exact')) / all : null;
  });
}

// Charts.

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const last = (values) => (values.length ? values[values.length - 1] : null);

function upTo(least) {
  return (_, __, most) => [0, Math.max(least, (most || 0) * 1.08)];
}

const isDecade = (value) => Number.isInteger(Math.round(Math.log10(value) * 1e6) / 1e6);

function decades(_, least, most) {
  const low = Math.min(0.01, least > 0 ? least : 0.01);
  const high = Math.max(1, most || 1);
  return [10 ** Math.floor(Math.log10(low)), 10 ** Math.ceil(Math.log10(high * 1.001))];
}

const CHARTS = [
  {
    id: 'rates',
    stacked: true,
    range: upTo(1),
    axis: (value) => rough.format(value),
    tell: rate,
    series: VERDICTS.map((verdict) => ({
      name: NAMES[verdict] || verdict, mark: `swatch ${verdict}`, colour: `verdict-${verdict}`, values: () => column(verdict),
    })),
  },
  {
    id: 'share',
    range: (_, __, most) => [0, most > 0.5 ? 1 : most > 0.2 ? 0.5 : 0.25],
    axis: (value) => `${Math.round(value * 100)} %`,
    tell: percent,
    series: [{ name: 'near and exact', colour: 'verdict-near', mark: 'swatch near', fill: true, values: duplicates }],
  },
  {
    id: 'latency',
    logarithmic: true,
    range: decades,
    axis: (value) => (value >= 1 && value < 120 ? `${value} s` : span(value * 1000)),
    tell: seconds,
    series: [
      { name: 'end to end p50', colour: 'accent', mark: 'accent', values: () => column('end_to_end_p50') },
      { name: 'end to end p99', colour: 'accent', faint: '73', mark: 'accent faint', values: () => column('end_to_end_p99') },
      { name: 'verdict wait p99', colour: 'second', mark: 'second', values: () => column('verdict_wait_p99') },
    ],
  },
  {
    id: 'lag',
    range: upTo(10),
    axis: (value) => rough.format(value),
    tell: count,
    series: [{ name: 'records, all partitions', colour: 'accent', mark: 'accent', fill: true, values: () => column('lag') }],
  },
  {
    id: 'index',
    range: () => [0, 1],
    axis: (value) => `${Math.round(value * 100)} %`,
    tell: percent,
    series: [
      { name: 'of index.max_memory', colour: 'accent', mark: 'accent', fill: true, values: () => column('index_fill') },
      { name: 'of the window', colour: 'second', mark: 'second', values: () => column('window_reached') },
    ],
  },
  {
    id: 'dead',
    range: upTo(1),
    axis: (value) => rough.format(value),
    tell: rate,
    series: [{ name: 'a second', colour: 'bad', mark: 'bad', fill: true, values: () => column('dead_letters') }],
  },
];

class Chart {
  constructor(kind) {
    this.kind = kind;
    this.box = $(kind.id);
    this.head = $(`${kind.id}-head`).textContent;
    const axis = { stroke: () => colour('dim'), font: '11px system-ui, sans-serif', ticks: { show: false } };
    const decadesOnly = (_, splits) => splits.map((value) => (isDecade(value) ? value : null));
    const filter = kind.logarithmic ? { filter: decadesOnly } : {};
    const grid = { stroke: () => colour('grid'), width: 1, ...filter };
    const line = (series, place) => ({
      label: series.name,
      stroke: () => colour(series.colour) + (series.faint || ''),
      fill: kind.stacked ? () => colour(series.colour) : series.fill ? () => `${colour(series.colour)}26` : undefined,
      width: kind.stacked ? 0 : 1.75,
      points: { show: (plot) => this.values.length === 1 && plot.series[place + 1].show },
    });
    this.values = [];
    this.raw = kind.series.map(() => []);
    const options = {
      ...this.size(),
      padding: [8, 6, 0, 0],
      legend: { show: false },
      cursor: {
        y: false,
        drag: { x: false, y: false },
        sync: { key: 'overview' },
        points: { size: 7, show: !kind.stacked },
      },
      scales: { x: { time: true }, y: { range: kind.range, distr: kind.logarithmic ? 3 : 1 } },
      axes: [
        {
          ...axis, grid: { show: false }, size: 26, space: 62,
          // Labels that the edge would cut are left out.
          values: (plot, splits) => splits.map((at) => (
            plot.valToPos(at, 'x') > plot.over.clientWidth - 20 ? '' : clock(new Date(at * 1000)).slice(0, at % 60 ? 8 : 5))),
        },
        { ...axis, ...filter, grid, size: 48, gap: 3, space: kind.logarithmic ? 18 : 34, values: (_, splits) => splits.map((value) => (value === null ? '' : kind.axis(value))) },
      ],
      series: [{}, ...this.order(kind.series).map(line)],
      hooks: { setCursor: [() => this.point()] },
    };
    this.plot = new uPlot(options, [[], ...this.raw], this.box);
    this.items = kind.series.map((series) => this.item(series));
    $(`${kind.id}-legend`).replaceChildren(...this.items.map(({ item }) => item));
    new ResizeObserver(() => this.plot.setSize(this.size())).observe(this.box);
    this.box.addEventListener('keydown', (event) => this.key(event));
    this.box.addEventListener('blur', () => this.leave());
  }

  size() {
    return { width: Math.max(120, Math.floor(this.box.clientWidth)), height: Math.max(80, this.box.clientHeight) };
  }

  // The largest sum of a stack is drawn first, and the others over it.
  order(list) {
    return this.kind.stacked ? [...list].reverse() : list;
  }

  item(series) {
    const item = element('li');
    const value = element('span', '-');
    item.append(element(series.mark.startsWith('swatch') ? 'span' : 'i', undefined, { class: series.mark }), element('span', series.name, { class: 'name' }), value);
    return { item, value };
  }

  draw(times, from) {
    this.values = times;
    this.raw = this.kind.series.map((series) => series.values());
    let drawn = this.raw;
    if (this.kind.stacked) {
      const sums = new Array(times.length).fill(0);
      drawn = this.raw.map((values) => values.map((value, place) => (sums[place] += value || 0)));
    }
    this.plot.batch(() => {
      this.plot.setData([times, ...this.order(drawn)], false);
      this.plot.setScale('x', { min: from, max: Math.max(from + 1, last(times) ?? from + 1) });
    });
    this.tell();
  }

  // The sample under the cursor, if any.
  place() {
    const { idx, left } = this.plot.cursor;
    return left >= 0 && Number.isInteger(idx) && idx < this.values.length ? idx : null;
  }

  tell() {
    const place = this.place();
    const shown = this.raw.map((values) => (place === null ? last(values) : values[place]));
    this.items.forEach(({ value }, at) => { value.textContent = this.kind.tell(shown[at]); });
    const list = this.kind.series.map((series, at) => `${series.name} ${this.kind.tell(shown[at])}`).join(', ');
    const when = place === null ? 'newest sample' : `at ${clock(new Date(this.values[place] * 1000))}`;
    this.box.setAttribute('aria-label', `Chart: ${this.head}, ${this.values.length ? `${when}: ${list}` : 'no samples yet'}`);
  }

  point() {
    if (!this.items) return;
    this.tell();
    const place = this.place();
    const at = place === null ? null : this.values[place];
    if (at !== hovered) {
      hovered = at;
      moment();
    }
  }

  // Arrow keys move from sample to sample, as the mouse does.
  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
    if (event.key === 'Escape') this.leave();
    if (!(event.key in steps) || !this.values.length) return;
    event.preventDefault();
    const first = this.values.findIndex((at) => at >= this.plot.scales.x.min);
    const end = this.values.length - 1;
    const place = Math.min(end, Math.max(first, (this.place() ?? end + 1) + steps[event.key]));
    this.plot.setCursor({ left: this.plot.valToPos(this.values[place], 'x'), top: 1 });
  }

  leave() {
    this.plot.setCursor({ left: -10, top: -10 });
  }
}

function draw() {
  if (!charts.length) charts = CHARTS.map((kind) => new Chart(kind));
  const times = column('at_ms').map((at) => at / 1000);
  const end = last(times) ?? (now.at_ms / 1000);
  const begin = times.length ? times[0] : end - 60;
  // At least a minute is shown, even for a younger instance.
  const from = Math.min(Math.max(begin, end - minutes * 60), end - 60);
  for (const chart of charts) chart.draw(times, from);
  moment();
}

function moment() {
  const step = (now.sample_interval_ms || 5000) / 1000;
  $('moment').textContent = hovered !== null
    ? `Values at ${clock(new Date(hovered * 1000))}`
    : known.last ? `One sample each ${step} s, kept by this instance for an hour` : `The first sample comes within ${step} s`;
}

// The state as text.

function rows(id, list, make) {
  $(id).tBodies[0].replaceChildren(...list.map(make));
}

function describe(list, pairs) {
  list.replaceChildren(...pairs.map(([name, value]) => {
    const pair = element('div');
    pair.append(element('dt', name), element('dd', value));
    return pair;
  }));
}

const JUDGES = {
  judge: ['judges', 'good'], standby: ['standby', 'good'], not_ready: ['not ready', 'warn'],
  elsewhere: ['judged elsewhere', ''], no_judge: ['no judge', 'bad'],
};

const PAUSES = {
  manual: ['Paused', 'An operator has paused the input (POST /api/v1/resume resumes it).', false],
  breaker: ['Paused', 'Too many records became dead letters: the input is paused.', true],
  restore: ['Catching up', 'Verdicts are read back before more of the input is read.', false],
};

// Problems, the worst first.
function troubles(state) {
  const found = [];
  if (state.no_judge) {
    const since = span(state.at_ms - state.no_judge.since_ms);
    found.push({ head: 'No judge', text: `for ${since}: pages wait for verdicts (${state.no_judge.why}).`, bad: true, loud: true });
  }
  for (const reason of state.paused.filter((reason) => reason in PAUSES)) {
    const [head, text, bad] = PAUSES[reason];
    found.push({ head, text, bad });
  }
  const blocked = Object.values(state.blocked).reduce((sum, partitions) => sum + partitions, 0);
  const partitions = blocked === 1 ? '1 partition' : `${count(blocked)} partitions`;
  if (blocked) found.push({ head: 'Blocked', text: `${partitions} are blocked, the others continue; Readiness names them.`, bad: true });
  for (const check of state.checks.filter((check) => !check.ok && !(state.no_judge && isSilence(check)))) {
    found.push({ head: 'Not ready', text: `${check.name}: ${check.why}`, bad: false });
  }
  if (state.evicted_for_capacity) {
    found.push({ head: 'Index full', text: 'index.max_memory is reached: originals left before the window ended, in the last five minutes.', bad: false });
  }
  if (state.snapshot_age_ms > 3 * state.snapshot_interval_ms) {
    found.push({ head: 'Snapshot', text: `The last one is ${span(state.snapshot_age_ms)} old.`, bad: false });
  }
  return found;
}

// Checks that fail only because no instance judges.
const isSilence = (check) => check.name === 'verdicts' || check.name === 'worker' || check.why.includes('no instance judges');

function headline(state) {
  if (state.no_judge) return ['No judge', 'bad'];
  const pause = state.paused.find((reason) => reason in PAUSES);
  if (pause) return [PAUSES[pause][0], PAUSES[pause][2] ? 'bad' : 'warn'];
  if (!state.ready) return ['Not ready', 'warn'];
  return Object.keys(state.blocked).length ? ['Blocked', 'bad'] : ['Ready', 'good'];
}

function judge(state) {
  return (judged) => {
    const [name, mark] = JUDGES[judged.state] || [judged.state, ''];
    const made = element('tr', undefined, judged.state === 'no_judge' ? { class: 'loud' } : {});
    const cell = element('td');
    cell.append(element('span', name, { class: `mark ${mark}` }));
    if (judged.why) cell.append(element('span', judged.why, { class: 'why' }));
    made.append(element('td', judged.log_partition), cell, element('td', span(state.at_ms - judged.since_ms)));
    return made;
  };
}

function check({ name, ok, why }) {
  const made = element('tr');
  const cell = element('td');
  cell.append(element('span', ok ? 'ok' : 'fails', { class: `mark ${ok ? 'good' : 'bad'}` }));
  if (why) cell.append(element('span', why, { class: 'why' }));
  made.append(element('td', name), cell);
  return made;
}

function lag(most) {
  return ({ topic, partition, lag: records }) => {
    const made = element('tr');
    const cell = element('td', partition === null ? topic : `${topic} ${partition}`);
    const bar = element('span', undefined, { class: 'bar' });
    bar.style.width = `${(records / most) * 100}%`;
    cell.append(bar);
    made.append(cell, element('td', count(records), { class: 'number' }));
    return made;
  };
}

function reason({ reason: name, delivered, held, example, why }) {
  const made = element('tr');
  const cell = element('td', example);
  cell.append(element('span', why, { class: 'why' }));
  made.append(element('td', name), element('td', count(delivered), { class: 'number', 'data-label': 'delivered' }),
    element('td', count(held), { class: 'number', 'data-label': 'held' }), cell);
  return made;
}

function heading(id, text, more = '', mark = '') {
  $(`${id}-now`).replaceChildren(text, ' ', element('small', more));
  $(`${id}-now`).className = `now ${mark}`;
}

function tell(state) {
  document.title = `dupgate - Overview - ${state.instance}`;
  const version = state.version ? `dupgate ${state.version}` : 'dupgate';
  describe($('facts'), [
    ['Instance', state.instance], ['Group', state.group], ['Version', version], ['Mode', state.mode || '-'],
    ['Roles', state.roles.join(', ')], ['Scheme', state.scheme || '-'], ['Up', span(state.at_ms - state.started_ms)],
  ]);
  say(...headline(state));
  const list = troubles(state).map(({ head, text, bad, loud }) => {
    const item = element('li', undefined, { class: `${bad ? 'bad' : ''} ${loud ? 'loud' : ''}`.trim() });
    item.append(element('strong', head), ` ${text}`);
    return item;
  });
  $('troubles').replaceChildren(...list);

  const judged = VERDICTS.reduce((sum, verdict) => sum + (state.documents[verdict] || 0), 0);
  const pages = VERDICTS.reduce((sum, verdict) => sum + (last(column(verdict)) || 0), 0);
  const total = `${count(judged)} since the start`;
  if (!judged && !state.dead_letters) heading('rates', 'No pages yet', 'nothing was judged since the start');
  else heading('rates', `${rate(pages)} /s`, total);
  const share = judged ? (state.documents.near + state.documents.exact) / judged : null;
  heading('share', percent(last(duplicates())), share === null ? '' : `${percent(share)} since the start`);
  heading('latency', seconds(last(column('end_to_end_p50'))), 'end to end, half of the pages');
  heading('lag', count(state.lag), 'records');
  const fill = state.index_memory_limit_bytes ? state.index_memory_bytes / state.index_memory_limit_bytes : null;
  const mark = fill >= 0.9 ? 'bad' : fill >= 0.8 ? 'warn' : '';
  heading('index', percent(fill), `${bytes(state.index_memory_bytes)} of ${bytes(state.index_memory_limit_bytes)}`, mark);
  const held = state.dead_letter_reasons.some((one) => one.held > 0);
  heading('dead', count(state.dead_letters), 'since the start', held ? 'bad' : '');

  rows('judges', state.judges, judge(state));
  const snapshot = state.snapshot_age_ms === null ? 'none yet' : `${span(state.snapshot_age_ms)} old, ${bytes(state.snapshot_bytes)}`;
  const window = state.window_ms === null ? '-' : span(state.window_ms);
  describe($('kept'), [
    ['Snapshot', snapshot],
    ['Originals', count(state.index_entries)],
    ['Window', state.effective_window_ms === null ? `${window} configured` : `reaches back ${span(state.effective_window_ms)} of ${window}`],
    ['Last commit', state.last_commit_age_ms === null ? 'none yet' : `${span(state.last_commit_age_ms)} ago`],
  ]);
  rows('checks', state.checks, check);
  const blocked = Object.entries(state.blocked);
  rows('blocked', blocked, ([name, partitions]) => {
    const made = element('tr');
    made.append(element('td', name), element('td', count(partitions)));
    return made;
  });
  $('blocked').hidden = !blocked.length;
  $('no-blocked').hidden = blocked.length > 0;
  rows('lags', state.lags, lag(Math.max(1, ...state.lags.map((one) => one.lag))));
  $('lags').hidden = !state.lags.length;
  $('no-lags').hidden = state.lags.length > 0;
  rows('reasons', state.dead_letter_reasons, reason);
  $('reasons').hidden = !state.dead_letter_reasons.length;
  $('no-reasons').hidden = state.dead_letter_reasons.length > 0;
}

// The state in one word; read out only when it changes.
function say(text, kind, aloud = text) {
  $('state').textContent = text;
  $('state').dataset.state = kind;
  if ($('announced').textContent !== aloud) $('announced').textContent = aloud;
}

// Requests.

let asking = false;

// Returns the answer with all unknown samples; nothing without an answer.
async function question() {
  const answer = () => ask(`overview?since=${known.last}`, { signal: AbortSignal.timeout(PATIENCE_MS) });
  try {
    const first = await answer();
    if (take(first)) return first;
    const second = await answer();
    take(second);
    return second;
  } catch (error) {
    if (error instanceof Refused) refused(error);
    else lost = true;
    return null;
  }
}

async function refresh() {
  if (asking) return;
  asking = true;
  const answer = await question();
  asking = false;
  if (!answer) {
    wait();
    return;
  }
  [now, reached, lost] = [answer, performance.now(), false];
  document.body.classList.remove('stale');
  $('door').hidden = true;
  $('main').hidden = false;
  tell(answer);
  draw();
}

function refused(error) {
  [lost, reached] = [false, performance.now()];
  const was = $('door').hidden;
  $('main').hidden = true;
  $('door').hidden = false;
  say('The token is needed', 'warn');
  $('refused').textContent = token ? error.message : '';
  if (was) $('token').focus();
}

// Shows for how long there was no answer. Charts are unchanged until there is one.
function wait() {
  if (!lost) return;
  document.body.classList.add('stale');
  const silence = Math.max(0, Math.round((performance.now() - reached) / 1000));
  say(`Unreachable for ${silence} s`, 'bad', 'The instance is unreachable');
}

const isAsking = () => !document.hidden && ($('door').hidden || lost);
setInterval(() => { if (isAsking()) refresh(); }, EVERY_MS);
setInterval(wait, 1000);
document.addEventListener('visibilitychange', () => { if (isAsking()) refresh(); });
$('door').addEventListener('submit', (event) => {
  event.preventDefault();
  keepToken($('token').value.trim());
  refresh();
});
for (const button of $('spans').querySelectorAll('button')) {
  button.addEventListener('click', () => {
    minutes = Number(button.dataset.minutes);
    for (const other of $('spans').querySelectorAll('button')) other.setAttribute('aria-pressed', other === button);
    draw();
  });
}
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => charts.forEach(({ plot }) => plot.redraw(false)));
refresh();
