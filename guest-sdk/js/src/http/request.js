// `Request`, and what any call of `fetch` or the `http` client becomes: one plain description of a request.

import { $, Array, JSON, Number, Object, String } from "../primordials.js";
import * as check from "../check.js";
import { URL, withoutFragment } from "../web/url.js";
import { Body, bodyOf } from "./body.js";
import { Headers } from "./headers.js";

/// Fields of Stepwell's own in `fetch`'s options; see `stepwell.d.ts`.
const EXTRAS = ["timeoutMs", "key", "label", "renewOn"];
const KEYS = ["effect", "attempt", "operation", "none"];
const SAFE = ["GET", "HEAD", "OPTIONS", "TRACE"];

export class Request extends Body {
  constructor(input, init = {}) {
    const from = input instanceof Request ? input : null;
    const options = init ?? {};
    const given = options.body !== undefined ? bodyOf(options.body) : null;
    super(given ? given.bytes : from ? Body.peek(from) : null);
    const url = from ? from.url : absolute(input);
    const headers = new Headers(options.headers ?? from?.headers);
    if (given?.type && !headers.has("content-type")) headers.set("content-type", given.type);
    const fixed = {
      method: methodOf(options.method ?? from?.method ?? "GET"),
      url,
      headers,
      redirect: check.oneOf("fetch, redirect", options.redirect ?? from?.redirect ?? "follow", ["follow", "manual", "error"]),
      signal: options.signal ?? from?.signal ?? null,
    };
    for (const name of EXTRAS) fixed[name] = options[name] ?? from?.[name];
    for (const [name, value] of Object.entries(fixed)) Object.defineProperty(this, name, { value, enumerable: true });
    if (given && (fixed.method === "GET" || fixed.method === "HEAD")) {
      throw new TypeError(`fetch: a ${fixed.method} request has no body`);
    }
  }

  clone() {
    return new Request(this);
  }
}

function absolute(input) {
  const url = input instanceof URL ? input : new URL(String(input));
  const { protocol } = url;
  if (protocol !== "http:" && protocol !== "https:") throw new TypeError(`fetch: ${protocol} is not offered, only http: and https:`);
  return withoutFragment(url);
}

function methodOf(method) {
  const text = String(method);
  if (!/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/[$.test](text)) throw new TypeError(`fetch: ${JSON.stringify(text)} is no method`);
  const upper = text[$.toUpperCase]();
  return ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"][$.includes](upper) ? upper : text;
}

export function isSafe(method) {
  return SAFE[$.includes](method);
}

/// The request as `host.httpSend` takes it.
export function describeRequest(request) {
  const headers = Headers.pairs(request.headers)[$.filter](([name]) => name !== "idempotency-key");
  const ownKey = request.headers.get("idempotency-key");
  return {
    method: request.method,
    url: request.url,
    headers,
    body: Body.peek(request),
    timeoutMs: check.optionalMs("fetch, timeoutMs", request.timeoutMs),
    key: keyOf(request.key ?? (ownKey === null ? "effect" : { custom: ownKey })),
    label: check.optionalText("fetch, label", request.label),
    renewOn: statuses(request.renewOn),
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
