// The `http` of a body's context: `http.post(url, { json })`, and `ensureOk()` on the promise it returns.

import { $, Array, Object, Promise, String } from "../primordials.js";
import * as check from "../check.js";
import * as host from "../host.js";
import { encode } from "../json.js";
import { URL } from "../web/url.js";
import { send } from "./fetch.js";
import { Headers } from "./headers.js";
import { Request } from "./request.js";

const FIELDS = ["headers", "json", "body", "query", "signal", "redirect", "timeoutMs", "key", "label", "renewOn"];

/// The promise of a response, which can be asked for an ok one before it is there.
export class ResponsePromise extends Promise {
  #heard = false;

  static get [Symbol.species]() {
    return Promise;
  }

  /// A promise that is settled with a promise asks it for its `then`, which may have been patched: these are told of its end.
  static of(promise) {
    return new ResponsePromise((resolve, reject) => promise[$.then](resolve, reject));
  }

  #followed(Type, next) {
    return new Type((resolve, reject) => {
      this.then((response) => {
        next(response)[$.then](resolve, reject);
      }, reject);
    });
  }

  then(fulfilled, rejected) {
    this.#heard = true;
    return this[$.then](fulfilled, rejected);
  }

  /// A failure that the body did not wait for would be lost with the body's end: it is told in the log, then or when it comes.
  static watch(promise, attempt, what) {
    const tell = (error) => {
      if (!promise.#heard) host.log("warn", `${what} failed, and nothing awaited it: ${error?.message}`, null);
    };
    promise[$.then](undefined, (error) => (attempt.open ? attempt.unheard[$.push](() => tell(error)) : tell(error)));
    return promise;
  }

  ensureOk() {
    return this.#followed(ResponsePromise, (response) => response.ensureOk());
  }

  json() {
    return this.#followed(Promise, (response) => response.json());
  }

  text() {
    return this.#followed(Promise, (response) => response.text());
  }
}

/// The client of one attempt.
export function httpClient(attempt) {
  const request = (method, url, options) => {
    const answer = (async () => {
      check.text("http.request, method", method);
      return await send(attempt, buildRequest(`http, ${method}`, method, url, options));
    })();
    return ResponsePromise.watch(ResponsePromise.of(answer), attempt, `a ${String(method)} request`);
  };
  const verb = (method) => (url, options) => request(method, url, options);
  return {
    request,
    get: verb("GET"),
    head: verb("HEAD"),
    post: verb("POST"),
    put: verb("PUT"),
    patch: verb("PATCH"),
    delete: verb("DELETE"),
  };
}

function buildRequest(where, method, url, given) {
  const { json, query, headers: givenHeaders, ...init } = check.options(where, given, FIELDS);
  const headers = new Headers(givenHeaders);
  if (json !== undefined) {
    if (init.body !== undefined) check.refuse(where, "json or body, not both", given);
    init.body = encode(`${where}, json`, json);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
  }
  return new Request(withQuery(where, url, query), { ...init, method, headers });
}

function withQuery(where, given, query) {
  if (!(given instanceof URL)) check.text(`${where}, url`, given);
  const url = new URL(given);
  if (query === undefined || query === null) return url;
  if (typeof query !== "object") check.refuse(`${where}, query`, "an object of texts", query);
  const pairs = typeof query[Symbol.iterator] === "function" ? [...query] : Object.entries(query);
  for (const [name, value] of pairs) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) url.searchParams.append(name, one);
  }
  return url;
}
