// `Request`, and what any call of `fetch` or the `http` client becomes: one plain description of a request.

import { $, Array, JSON, Number, Object, String } from "../primordials.js";
import * as check from "../check.js";
import { URL, sentAsWritten, withoutFragment } from "../web/url.js";
import { Body, bodyOf } from "./body.js";
import { Headers, joined } from "./headers.js";

/// Fields of Stepwell's own in `fetch`'s options; see `stepwell.d.ts`.
const EXTRAS = ["timeoutMs", "key", "label", "renewOn"];
const KEYS = ["effect", "attempt", "operation", "none"];
const METHODS = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"];
const SAFE = ["GET", "HEAD", "OPTIONS", "TRACE"];

/// One for all fields: each is written once, and a descriptor costs as much as that.
const FIXED = { __proto__: null, value: undefined, enumerable: true };

export class Request extends Body {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : null;
    const options = init ?? {};
    const given = options.body !== undefined ? bodyOf(options.body) : null;
    super(given ? given.bytes : from ? Body.peek(from) : null);
    const url = from ? from.url : sentUrl(input);
    const headers = new Headers(options.headers ?? from?.headers);
    if (given?.type && !headers.has("content-type")) headers.set("content-type", given.type);
    const method = methodOf(options.method ?? from?.method ?? "GET");
    const redirect = redirectOf(options.redirect ?? from?.redirect);
    const signal = options.signal ?? from?.signal ?? null;
    field(this, "method", method);
    field(this, "url", url);
    field(this, "headers", headers);
    field(this, "redirect", redirect);
    field(this, "signal", signal);
    for (const name of EXTRAS) field(this, name, options[name] ?? from?.[name]);
    if (given) refuseBodyOf(method);
  }

  clone() {
    return new Request(this);
  }
}

function field(request, name, value) {
  FIXED.value = value;
  Object.defineProperty(request, name, FIXED);
}

/// How a redirect is met.
export function redirectOf(given) {
  return given === undefined || given === null || given === "follow" ? "follow" : check.oneOf("fetch, redirect", given, ["follow", "manual", "error"]);
}

export function refuseBodyOf(method) {
  if (method === "GET" || method === "HEAD") throw new TypeError(`fetch: a ${method} request has no body`);
}

/// What is sent for a URL, or the text of one.
export function sentUrl(input) {
  if (typeof input === "string") {
    const sent = sentAsWritten(input);
    if (sent !== undefined) return sent;
  }
  const url = input instanceof URL ? input : new URL(String(input));
  const { protocol } = url;
  if (protocol !== "http:" && protocol !== "https:") throw new TypeError(`fetch: ${protocol} is not offered, only http: and https:`);
  return withoutFragment(url);
}

export function methodOf(method) {
  if (METHODS[$.includes](method)) return method;
  const text = String(method);
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/[$.test](text)) throw new TypeError(`fetch: ${JSON.stringify(text)} is no method`);
  const upper = text[$.toUpperCase]();
  return METHODS[$.includes](upper) ? upper : text;
}

export function isSafe(method) {
  return SAFE[$.includes](method);
}

/// A request as it is sent: `{ method, url, pairs, bytes, redirect, signal, timeoutMs, key, label, renewOn }`. `pairs` are its headers with
/// names in small letters, which nobody changes any more.
export function outgoing(request) {
  const { method, url, redirect, signal, timeoutMs, key, label, renewOn } = request;
  return { method, url, pairs: Headers.pairs(request.headers), bytes: Body.peek(request), redirect, signal, timeoutMs, key, label, renewOn };
}

/// What was written as `outgoing` has it, as `host.httpSend` takes it.
export function describe(sent) {
  let { pairs, key } = sent;
  const ownKey = joined(pairs, "idempotency-key");
  if (ownKey !== null) {
    pairs = pairs[$.filter]((pair) => pair[0] !== "idempotency-key");
    key ??= { custom: ownKey };
  }
  return {
    method: sent.method,
    url: sent.url,
    headers: pairs,
    body: sent.bytes,
    timeoutMs: check.optionalMs("fetch, timeoutMs", sent.timeoutMs),
    key: key === undefined || key === null ? "effect" : keyOf(key),
    label: check.optionalText("fetch, label", sent.label),
    renewOn: statuses(sent.renewOn),
  };
}

function keyOf(key) {
  if (typeof key === "object" && key !== null) return { custom: check.text("fetch, key.custom", key.custom) };
  return KEYS[$.includes](key) ? key : check.refuse("fetch, key", '"effect", "attempt", "operation", "none" or { custom: "..." }', key);
}

function statuses(list) {
  if (list === undefined || list === null) return [];
  const valid = Array.isArray(list) && list[$.every]((status) => Number.isInteger(status) && status >= 100 && status <= 599);
  return valid ? list[$.map]((status) => status | 0) : check.refuse("fetch, renewOn", "an array of statuses, e.g. [500]", list);
}
