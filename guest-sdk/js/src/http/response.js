// `Response`, with `ensureOk()`.

import { $, JSON, Number, Object, String } from "../primordials.js";
import { Body, bodyOf } from "./body.js";
import { refused } from "./ensure-ok.js";
import { Headers } from "./headers.js";
import { tellOfLoss } from "../stringify.js";

const INTERNAL = Symbol("response");
const NULL_BODY = [101, 103, 204, 205, 304];

export class Response extends Body {
  constructor(body, init = {}, internal) {
    const own = internal?.[INTERNAL];
    if (own) {
      super(own.bytes);
      fix(this, own.status, own.statusText, Headers.received(own.pairs), own, "basic");
      return;
    }
    const given = bodyOf(body);
    super(given?.bytes ?? null);
    const status = init.status ?? 200;
    if (!Number.isInteger(status) || status < 200 || status > 599) throw new RangeError(`Response: ${status} is no status`);
    if (given && NULL_BODY[$.includes](status)) throw new TypeError(`Response: status ${status} has no body`);
    const headers = new Headers(init.headers);
    if (given?.type && !headers.has("content-type")) headers.set("content-type", given.type);
    fix(this, status, String(init.statusText ?? ""), headers, MADE, "default");
  }

  /// The response of an answer that the host gave.
  static answered(answer, request, redirected) {
    const own = {
      bytes: answer.body, status: answer.status, statusText: "", pairs: answer.headers, url: request.url, method: request.method, redirected,
      recorded: answer.recorded,
    };
    return new Response(null, undefined, { [INTERNAL]: own });
  }

  static json(data, init = {}) {
    const headers = new Headers(init.headers);
    if (!headers.has("content-type")) headers.set("content-type", "application/json");
    return new Response(JSON.stringify(data), { ...init, headers });
  }

  static error() {
    throw new TypeError("Response.error() is not offered");
  }

  clone() {
    const { status, statusText, url, method, redirected, recorded } = this;
    const own = { bytes: Body.peek(this), status, statusText, pairs: Headers.pairs(this.headers), url, method, redirected, recorded };
    return new Response(null, undefined, { [INTERNAL]: own });
  }

  /// This response where its status is 2xx; else throws an `HttpError` that is retried or not by its status.
  async ensureOk() {
    return this.ok ? this : await refused(this);
  }
}

/// Of a response that no request was answered with.
const MADE = { url: "", method: "GET", redirected: false, recorded: false };
/// One for all fields: each is written once, and a descriptor costs as much as that.
const FIXED = { __proto__: null, value: undefined, enumerable: true };
const HIDDEN = { __proto__: null, value: undefined, enumerable: false };

function fix(response, status, statusText, headers, from, type) {
  field(response, "status", status);
  field(response, "statusText", statusText);
  field(response, "headers", headers);
  field(response, "ok", status >= 200 && status <= 299);
  field(response, "url", from.url);
  field(response, "redirected", from.redirected);
  field(response, "recorded", from.recorded);
  field(response, "type", type);
  HIDDEN.value = from.method;
  Object.defineProperty(response, "method", HIDDEN);
}

function field(response, name, value) {
  FIXED.value = value;
  Object.defineProperty(response, name, FIXED);
}

tellOfLoss(Response, "a Response", "its status, without its body", "return what its json() or text() gives");

/// The method as the class has it: where an author has put another in its place, that one is asked.
export const ownEnsureOk = Response.prototype.ensureOk;
