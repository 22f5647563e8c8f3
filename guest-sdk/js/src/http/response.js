// `Response`, with `ensureOk()`.

import { $, JSON, Number, Object, String } from "../primordials.js";
import { Body, bodyOf } from "./body.js";
import { ensureOk } from "./ensure-ok.js";
import { Headers } from "./headers.js";

const INTERNAL = Symbol("response");
const NULL_BODY = [101, 103, 204, 205, 304];

export class Response extends Body {
  constructor(body, init = {}, internal) {
    const own = internal?.[INTERNAL];
    const given = own ? { bytes: own.bytes, type: null } : bodyOf(body);
    super(given?.bytes ?? null);
    const status = init.status ?? 200;
    if (!own && (!Number.isInteger(status) || status < 200 || status > 599)) throw new RangeError(`Response: ${status} is no status`);
    if (!own && given && NULL_BODY[$.includes](status)) throw new TypeError(`Response: status ${status} has no body`);
    const headers = own ? Headers.received(init.headers) : new Headers(init.headers);
    if (given?.type && !headers.has("content-type")) headers.set("content-type", given.type);
    const fixed = {
      status,
      statusText: String(init.statusText ?? ""),
      headers,
      ok: status >= 200 && status <= 299,
      url: own?.url ?? "",
      redirected: own?.redirected ?? false,
      recorded: own?.recorded ?? false,
      type: own ? "basic" : "default",
    };
    for (const [name, value] of Object.entries(fixed)) Object.defineProperty(this, name, { value, enumerable: true });
    Object.defineProperty(this, "method", { value: own?.method ?? "GET" });
  }

  /// The response of an answer that the host gave.
  static answered(answer, request, redirected) {
    const { status, headers, body, recorded } = answer;
    const own = { bytes: body, url: request.url, method: request.method, redirected, recorded };
    return new Response(null, { status, headers }, { [INTERNAL]: own });
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
    const own = { bytes: Body.peek(this), url, method, redirected, recorded };
    return new Response(null, { status, statusText, headers: Headers.pairs(this.headers) }, { [INTERNAL]: own });
  }

  /// This response where its status is 2xx; else throws an `HttpError` that is retried or not by its status.
  async ensureOk() {
    return await ensureOk(this);
  }
}
