// `Headers`: names without regard to case, in the order in which they came, several values of a name joined on reading.

import { $, Array, JSON, Object, Set, String } from "../primordials.js";

const NAME = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/;
const VALUE = /^[^\0\r\n]*$/;

export class Headers {
  #list = [];

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
    this.#list[$.push]([headerName(name), headerValue(name, value)]);
  }

  set(name, value) {
    const key = headerName(name);
    const at = this.#list[$.findIndex](([other]) => other === key);
    const entry = [key, headerValue(name, value)];
    if (at < 0) this.#list[$.push](entry);
    else this.#list = this.#list[$.filter](([other], index) => index <= at || other !== key)[$.with](at, entry);
  }

  delete(name) {
    const key = headerName(name);
    this.#list = this.#list[$.filter](([other]) => other !== key);
  }

  get(name) {
    const key = headerName(name);
    const values = this.#list[$.filter](([other]) => other === key);
    return values.length === 0 ? null : values[$.map](([, value]) => value)[$.join](", ");
  }

  has(name) {
    const key = headerName(name);
    return this.#list[$.some](([other]) => other === key);
  }

  getSetCookie() {
    return this.#list[$.filter](([name]) => name === "set-cookie")[$.map](([, value]) => value);
  }

  forEach(callback, self) {
    for (const [name, value] of this) callback[$.call](self, value, name, this);
  }

  /// Sorted by name; cookies one by one, other names joined.
  *entries() {
    const names = [...new Set(this.#list[$.map](([name]) => name))][$.sort]();
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
    return headers.#list[$.map]((pair) => [...pair]);
  }

  /// Headers of an answer, whose texts are what the other side sent and are not judged here.
  static received(pairs) {
    const headers = new Headers();
    headers.#list = Array.from(pairs, ([name, value]) => [name[$.toLowerCase](), value]);
    return headers;
  }
}

Object.defineProperty(Headers.prototype, Symbol.toStringTag, { value: "Headers", configurable: true });

function headerName(name) {
  const text = String(name);
  if (!NAME[$.test](text)) throw new TypeError(`Headers: ${JSON.stringify(text)} is no header name`);
  return text[$.toLowerCase]();
}

function headerValue(name, value) {
  const text = String(value)[$.replace](/^[\t\n\r ]+|[\t\n\r ]+$/g, "")[$.toWellFormed]();
  if (!VALUE[$.test](text)) throw new TypeError(`Headers: the value of ${name} holds a line break or a zero`);
  return text;
}
