// Bodies of requests and responses: always whole, in memory, and read at most once.

import { $, JSON, isView } from "../primordials.js";
import { bytesOf, isBuffer, textOf, utf8 } from "../web/encoding.js";
import { URLSearchParams } from "../web/search-params.js";

/// `{ bytes, type }` of what was given as a body; null where there is none. `type` is the content type it implies.
export function bodyOf(given) {
  if (given === undefined || given === null) return null;
  if (typeof given === "string") return { bytes: utf8(given), type: "text/plain;charset=UTF-8" };
  if (given instanceof URLSearchParams) {
    return { bytes: utf8(given.toString()), type: "application/x-www-form-urlencoded;charset=UTF-8" };
  }
  if (isView(given) || isBuffer(given)) return { bytes: bytesOf(given)[$.slice](), type: null };
  throw new TypeError("a body must be a string, URLSearchParams, an ArrayBuffer or a view of one; for JSON use JSON.stringify or { json }");
}

/// What `Request` and `Response` share.
export class Body {
  #bytes;
  #used = false;

  constructor(bytes) {
    this.#bytes = bytes;
  }

  /// Streams are not offered: bodies are whole.
  get body() {
    return null;
  }

  get bodyUsed() {
    return this.#used;
  }

  async bytes() {
    return this.#take()[$.slice]();
  }

  async arrayBuffer() {
    return this.#take()[$.slice]().buffer;
  }

  async text() {
    return textOf(this.#take());
  }

  async json() {
    return JSON.parse(textOf(this.#take()));
  }

  /// The bytes without using them up, for copies; null where there is no body.
  static peek(body) {
    if (body.#used) throw new TypeError("the body was read already");
    return body.#bytes;
  }

  #take() {
    if (this.#used) throw new TypeError("the body was read already: keep what the first reading gave, or read a clone()");
    this.#used = this.#bytes !== null;
    return this.#bytes ?? new Uint8Array(0);
  }
}
