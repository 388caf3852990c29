'use strict';

// Shared code of both pages: elements made of text nodes, the token, and requests to the instance.

const $ = (id) => document.getElementById(id);
let token = sessionStorage.getItem('token') || '';

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function keepToken(given) {
  token = given;
  sessionStorage.setItem('token', token);
}

class Refused extends Error {}

const clock = (at) => [at.getHours(), at.getMinutes(), at.getSeconds()].map((part) => String(part).padStart(2, '0')).join(':');

// Since when the instance has not answered; null while it does.
let silentSince = null;

function silent() {
  silentSince ??= new Date();
  return new Error(`The instance has not answered since ${clock(silentSince)}. The page retries by itself.`);
}

async function ask(path, options = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(`/api/v1/${path}`, { ...options, headers }).catch(() => { throw silent(); });
  const body = await answer.json().catch(() => null);
  // An incomplete answer counts as none.
  if (answer.ok && body === null) throw silent();
  silentSince = null;
  if (answer.status === 401) throw new Refused(body?.error);
  if (!answer.ok) throw new Error(body?.error || `the instance answers ${answer.status}`);
  return body;
}

// A token after `#token=` is stored and removed from the address.
const handed = new URLSearchParams(location.hash.slice(1)).get('token');
if (handed) {
  keepToken(handed);
  history.replaceState(null, '', location.pathname + location.search);
}
