// `URLSearchParams`.

import { $, Object, String } from "../primordials.js";
import { tellOfLoss } from "../stringify.js";
import { percentDecode, percentEncode } from "./percent.js";

const FORM_SET = "!\"#$%&'()+,/:;<=>?@[\\]^`{|}~";

export class URLSearchParams {
  #pairs = [];
  #changed = () => {};

  constructor(init = "") {
    if (typeof init === "object" && init !== null) {
      const pairs = typeof init[Symbol.iterator] === "function" ? [...init] : Object.entries(init);
      this.#pairs = pairs[$.map]((pair) => {
        const [name, value, ...more] = [...pair];
        if (value === undefined || more.length) throw new TypeError("URLSearchParams: each pair must have a name and a value");
        return [scalar(name), scalar(value)];
      });
    } else this.#pairs = parse(String(init)[$.replace](/^\?/, ""));
  }

  /// The params of a URL, which hears of every change.
  static of(query, changed) {
    const params = new URLSearchParams(query);
    params.#changed = changed;
    return params;
  }

  /// Takes a new query over without telling the URL, where it came from.
  static reset(params, query) {
    params.#pairs = parse(query);
  }

  get size() {
    return this.#pairs.length;
  }

  append(name, value) {
    this.#pairs[$.push]([scalar(name), scalar(value)]);
    this.#changed(this.toString());
  }

  delete(name, value) {
    this.#pairs = this.#pairs[$.filter]((pair) => !matches(pair, name, value));
    this.#changed(this.toString());
  }

  get(name) {
    return this.#pairs[$.find]((pair) => matches(pair, name))?.[1] ?? null;
  }

  getAll(name) {
    return this.#pairs[$.filter]((pair) => matches(pair, name))[$.map](([, value]) => value);
  }

  has(name, value) {
    return this.#pairs[$.some]((pair) => matches(pair, name, value));
  }

  set(name, value) {
    const at = this.#pairs[$.findIndex]((pair) => matches(pair, name));
    if (at < 0) return this.append(name, value);
    this.#pairs[at] = [scalar(name), scalar(value)];
    this.#pairs = this.#pairs[$.filter]((pair, index) => index <= at || !matches(pair, name));
    this.#changed(this.toString());
  }

  sort() {
    this.#pairs[$.sort](([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#changed(this.toString());
  }

  forEach(callback, self) {
    for (const [name, value] of this.#pairs) callback[$.call](self, value, name, this);
  }

  *entries() {
    for (const [name, value] of this.#pairs) yield [name, value];
  }

  *keys() {
    for (const [name] of this.#pairs) yield name;
  }

  *values() {
    for (const [, value] of this.#pairs) yield value;
  }

  [Symbol.iterator]() {
    return this.entries();
  }

  toString() {
    return this.#pairs[$.map](([name, value]) => `${formEncode(name)}=${formEncode(value)}`)[$.join]("&");
  }
}

Object.defineProperty(URLSearchParams.prototype, Symbol.toStringTag, { value: "URLSearchParams", configurable: true });

function scalar(value) {
  return String(value)[$.toWellFormed]();
}

function matches([pairName, pairValue], name, value) {
  return pairName === String(name) && (value === undefined || pairValue === String(value));
}

function parse(query) {
  return query
    [$.split]("&")
    [$.filter]((part) => part !== "")
    [$.map]((part) => {
      const at = part[$.indexOf]("=");
      const [name, value] = at < 0 ? [part, ""] : [part[$.slice](0, at), part[$.slice](at + 1)];
      return [formDecode(name), formDecode(value)];
    });
}

function formDecode(text) {
  return percentDecode(text[$.replaceAll]("+", " "));
}

function formEncode(text) {
  return percentEncode(text, FORM_SET)[$.replaceAll](" ", "+");
}

tellOfLoss(URLSearchParams, "a URLSearchParams", "{}", "write String(params)");
