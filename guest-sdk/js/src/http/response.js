// `Response`, with `ensureOk()`.

import { $, JSON, Number, String } from "../primordials.js";
import { Body, bodyOf } from "./body.js";
import { refused } from "./ensure-ok.js";
import { Headers } from "./headers.js";
import { tellOfLoss } from "../stringify.js";

const INTERNAL = Symbol("response");
const NULL_BODY = [101, 103, 204, 205, 304];

export class Response extends Body {
  // Its own, so that JSON and the log show them. To forbid that they are written would cost as much as all the rest of a response.
  status;
  statusText;
  headers;
  ok;
  url;
  redirected;
  recorded;
  type;
  #method = "GET";

  constructor(body, init = {}, internal) {
    const own = internal?.[INTERNAL];
    if (own) {
      super(own.bytes);
      fill(this, own.status, own.statusText, Headers.received(own.pairs), own, "basic");
      this.#method = own.method;
      return;
    }
    const given = bodyOf(body);
    super(given?.bytes ?? null);
    const status = init.status ?? 200;
    if (!Number.isInteger(status) || status < 200 || status > 599) throw new RangeError(`Response: ${status} is no status`);
    if (given && NULL_BODY[$.includes](status)) throw new TypeError(`Response: status ${status} has no body`);
    const headers = new Headers(init.headers);
    if (given?.type && !headers.has("content-type")) headers.set("content-type", given.type);
    fill(this, status, String(init.statusText ?? ""), headers, MADE, "default");
  }

  /// That of the request.
  get method() {
    return this.#method;
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
const MADE = { url: "", redirected: false, recorded: false };

function fill(response, status, statusText, headers, from, type) {
  response.status = status;
  response.statusText = statusText;
  response.headers = headers;
  response.ok = status >= 200 && status <= 299;
  response.url = from.url;
  response.redirected = from.redirected;
  response.recorded = from.recorded;
  response.type = type;
}

tellOfLoss(Response, "a Response", "its status, without its body", "return what its json() or text() gives");

/// The method as the class has it: where an author has put another in its place, that one is asked.
export const ownEnsureOk = Response.prototype.ensureOk;
