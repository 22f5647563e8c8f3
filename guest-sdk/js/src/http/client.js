// The `http` of a body's context: `http.post(url, { json })`, and `ensureOk()` on the promise it returns.

import { $, Array, Object, Promise, String, deferred } from "../primordials.js";
import * as check from "../check.js";
import * as host from "../host.js";
import { encode } from "../json.js";
import { utf8 } from "../web/encoding.js";
import { URL, sentAsWritten } from "../web/url.js";
import { bodyOf } from "./body.js";
import { transmit } from "./fetch.js";
import { Headers } from "./headers.js";
import { methodOf, redirectOf, refuseBodyOf, sentUrl } from "./request.js";
import { ownEnsureOk } from "./response.js";

const FIELDS = ["headers", "json", "body", "query", "signal", "redirect", "timeoutMs", "key", "label", "renewOn"];
/// The headers of most requests. Nobody changes them.
const NO_HEADERS = [];
const OF_JSON = [["content-type", "application/json"]];

/// What `then` of a response's promise makes: the engine's own, which costs less, but where it is to be another of these.
let species;

/// The promise of a response, which can be asked for an ok one before it is there.
export class ResponsePromise extends Promise {
  #heard = false;

  static get [Symbol.species]() {
    return species;
  }

  then(fulfilled, rejected) {
    this.#heard = true;
    return this[$.then](fulfilled, rejected);
  }

  /// A failure that the body did not wait for would be lost with the body's end: it is told in the log, then or when it comes. Asked for
  /// when the promise is about to fail: most do not.
  static watch(promise, attempt, method) {
    const tell = (error) => {
      if (!promise.#heard) host.log("warn", `a ${method} request failed, and nothing awaited it: ${error?.message}`, null);
    };
    promise[$.then](undefined, (error) => (attempt.open ? attempt.unheard[$.push](() => tell(error)) : tell(error)));
  }

  /// The promise of what `next` answers for the response.
  #followed(Type, next) {
    const { promise, resolve, reject } = deferred(Type);
    this.then((response) => {
      next(response)[$.then](resolve, reject);
    }, reject);
    return promise;
  }

  ensureOk() {
    this.#heard = true;
    species = ResponsePromise;
    const promise = this[$.then](ensured);
    species = undefined;
    return promise;
  }

  json() {
    return this.#followed(Promise, (response) => response.json());
  }

  text() {
    return this.#followed(Promise, (response) => response.text());
  }
}

function ensured(response) {
  return response.ok && response.ensureOk === ownEnsureOk ? response : response.ensureOk();
}

/// The client of one attempt.
export function httpClient(attempt) {
  return {
    request: (method, url, options) => request(attempt, method, url, options),
    get: (url, options) => request(attempt, "GET", url, options),
    head: (url, options) => request(attempt, "HEAD", url, options),
    post: (url, options) => request(attempt, "POST", url, options),
    put: (url, options) => request(attempt, "PUT", url, options),
    patch: (url, options) => request(attempt, "PATCH", url, options),
    delete: (url, options) => request(attempt, "DELETE", url, options),
  };
}

function request(attempt, method, url, options) {
  const { promise, resolve, reject } = deferred(ResponsePromise);
  const failed = (error) => {
    ResponsePromise.watch(promise, attempt, String(method));
    reject(error);
  };
  try {
    check.text("http.request, method", method);
    transmit(attempt, outgoing(`http, ${method}`, method, url, options), resolve, failed);
  } catch (error) {
    failed(error);
  }
  return promise;
}

/// What is sent, as `outgoing` in `request.js` has it, of what the client was given.
function outgoing(where, method, url, given) {
  let json, query, givenHeaders, body, redirect, signal, timeoutMs, key, label, renewOn;
  if (given !== undefined && given !== null) {
    const names = check.names(where, given, FIELDS);
    ({ json, query, headers: givenHeaders } = given);
    for (let at = 0; at < names.length; at++) {
      switch (names[at]) {
        case "body":
          body = given.body;
          break;
        case "signal":
          signal = given.signal;
          break;
        case "redirect":
          redirect = given.redirect;
          break;
        case "timeoutMs":
          timeoutMs = given.timeoutMs;
          break;
        case "key":
          key = given.key;
          break;
        case "label":
          label = given.label;
          break;
        case "renewOn":
          renewOn = given.renewOn;
          break;
      }
    }
  }
  const headers = givenHeaders === undefined || givenHeaders === null ? null : new Headers(givenHeaders);
  let content = null;
  if (json !== undefined) {
    if (body !== undefined) check.refuse(where, "json or body, not both", given);
    content = { bytes: utf8(encode(`${where}, json`, json)), type: null };
    if (headers !== null && !headers.has("content-type")) headers.set("content-type", "application/json");
  }
  const target = targetOf(where, url, query);
  if (json === undefined) content = bodyOf(body);
  const sent = typeof target === "string" ? target : sentUrl(target);
  const pairs = headers === null ? (json === undefined ? pairsOf(content) : OF_JSON) : pairsWith(headers, content);
  const verb = methodOf(method);
  const redirects = redirectOf(redirect);
  if (content !== null) refuseBodyOf(verb);
  return {
    url: sent,
    pairs,
    method: verb,
    redirect: redirects,
    signal: signal ?? null,
    bytes: content === null ? null : content.bytes,
    timeoutMs,
    key,
    label,
    renewOn,
  };
}

function pairsOf(content) {
  return content === null || content.type === null ? NO_HEADERS : [["content-type", content.type]];
}

function pairsWith(headers, content) {
  const pairs = Headers.sorted(headers);
  if (content !== null && content.type !== null && !headers.has("content-type")) pairs[$.push](["content-type", content.type]);
  return pairs;
}

/// The URL with its query: the text as it is sent where that can be told at a glance, else a `URL`.
function targetOf(where, given, query) {
  const plain = query === undefined || query === null;
  if (plain && typeof given === "string") {
    const sent = sentAsWritten(given);
    if (sent !== undefined) return sent;
  }
  if (!(given instanceof URL)) check.text(`${where}, url`, given);
  const url = new URL(given);
  if (plain) return url;
  if (typeof query !== "object") check.refuse(`${where}, query`, "an object of texts", query);
  const pairs = typeof query[Symbol.iterator] === "function" ? [...query] : Object.entries(query);
  for (const [name, value] of pairs) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) url.searchParams.append(name, one);
  }
  return url;
}
