// `Headers`: names without regard to case, in the order in which they came, several values of a name joined on reading.

import { $, JSON, Object, Set, String } from "../primordials.js";
import { tellOfLoss } from "../stringify.js";

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const VALUE = /^[^\0\r\n]*$/;

export class Headers {
  /// Pairs of a name in small letters and a value.
  #list = [];
  /// What was received, as it came, until somebody looks.
  #received = null;

  #pairs() {
    const received = this.#received;
    if (received !== null) {
      this.#received = null;
      for (let at = 0; at < received.length; at++) this.#list[$.push]([received[at][0][$.toLowerCase](), received[at][1]]);
    }
    return this.#list;
  }

  constructor(init) {
    if (init === undefined || init === null) return;
    if (typeof init !== "object") throw new TypeError("Headers: expected an object, an array of pairs or Headers");
    const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
    for (const pair of pairs) {
      const [name, value, ...more] = [...pair];
      if (value === undefined || more.length > 0) throw new TypeError("Headers: each pair must have a name and a value");
      this.append(name, value);
    }
  }

  append(name, value) {
    const pair = [headerName(name), headerValue(name, value)];
    this.#pairs()[$.push](pair);
  }

  set(name, value) {
    const key = headerName(name);
    const list = this.#pairs();
    const at = list[$.findIndex](([other]) => other === key);
    const entry = [key, headerValue(name, value)];
    if (at < 0) list[$.push](entry);
    else this.#list = list[$.filter](([other], index) => index <= at || other !== key)[$.with](at, entry);
  }

  delete(name) {
    const key = headerName(name);
    this.#list = this.#pairs()[$.filter](([other]) => other !== key);
  }

  get(name) {
    const key = headerName(name);
    return joined(this.#pairs(), key);
  }

  has(name) {
    const key = headerName(name);
    return this.#pairs()[$.some](([other]) => other === key);
  }

  getSetCookie() {
    return this.#pairs()[$.filter](([name]) => name === "set-cookie")[$.map](([, value]) => value);
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback[$.call](self, value, name, this);
  }

  /// Sorted by name; cookies one by one, other names joined.
  *entries() {
    const names = [...new Set(this.#pairs()[$.map](([name]) => name))][$.sort]();
    for (const name of names) {
      if (name === "set-cookie") for (const value of this.getSetCookie()) yield [name, value];
      else yield [name, this.get(name)];
    }
  }

  *keys() {
    for (const [name] of this.entries()) yield name;
  }

  *values() {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  /// The pairs as they are sent, one for each value.
  static pairs(headers) {
    return headers.#pairs()[$.map]((pair) => [pair[0], pair[1]]);
  }

  /// The pairs in the order in which a copy has them: by name, values of a name joined but for cookies.
  static sorted(headers) {
    const list = headers.#pairs();
    for (let at = 1; at < list.length; at++) {
      if (!(list[at - 1][0] < list[at][0])) return Headers.pairs(new Headers(headers));
    }
    return Headers.pairs(headers);
  }

  /// Headers of an answer, whose texts are what the other side sent and are not judged here.
  static received(pairs) {
    const headers = new Headers();
    headers.#received = pairs;
    return headers;
  }
}

Object.defineProperty(Headers.prototype, Symbol.toStringTag, { value: "Headers", configurable: true });

/// The values of a name in a list of pairs, joined; null where there is none.
export function joined(pairs, key) {
  let text = null;
  for (let at = 0; at < pairs.length; at++) {
    const pair = pairs[at];
    if (pair[0] === key) text = text === null ? pair[1] : `${text}, ${pair[1]}`;
  }
  return text;
}

function headerName(name) {
  const text = String(name);
  if (!NAME[$.test](text)) throw new TypeError(`Headers: ${JSON.stringify(text)} is no header name`);
  return text[$.toLowerCase]();
}

function headerValue(name, value) {
  let text = String(value)[$.toWellFormed]();
  // Most have nothing around them, and replacing costs more than all the rest.
  if (text[$.charCodeAt](0) <= 0x20 || text[$.charCodeAt](text.length - 1) <= 0x20) text = text[$.replace](/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
  if (!VALUE[$.test](text)) throw new TypeError(`Headers: the value of ${name} holds a line break or a zero`);
  return text;
}

tellOfLoss(Headers, "a Headers", "{}", "write Object.fromEntries(headers)");
