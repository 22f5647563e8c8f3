// `URL`: parsing and serialising by the URL standard, written as cuts from the front rather than as its state machine.

import { $, Array, Number, Object, String } from "../primordials.js";
import { SETS, percentDecode, percentEncode } from "./percent.js";
import { URLSearchParams } from "./search-params.js";
import { parseHost } from "./url-host.js";

const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21", "file:": "" };
const isSpecial = (scheme) => Object.hasOwn(PORTS, scheme);

/// What most URLs of requests are: nothing in them is to be encoded, decoded or taken away.
const PLAIN = /^(https?:)\/\/([a-z0-9.-]+)(?::(\d{1,5}))?(\/[\w/.-]*)?$/;

/// URLs of requests that are sent as they were written, but for a slash where there is no path: a domain whose last label begins with a
/// letter or an IPv4 address in its usual form, no segment that begins with a dot, and nothing in path and query that is to be encoded.
const AS_WRITTEN =
  /^(https?):\/\/(?:(?:[a-z0-9-]+\.)*[a-z][a-z0-9-]*|(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?!:|\/|\?|$)|(?=[:\/?]|$))){4})(?::([1-9]\d{0,4}))?((?:\/(?:[\w~-][\w~.-]*)?)*)(\?[\w~.&=+%,;:@!$()*\/?-]*)?$/;

/// What is sent for the text of a URL, where that can be told at a glance; undefined for any other, which may be one as well.
export function sentAsWritten(text) {
  const found = AS_WRITTEN[$.exec](text);
  if (found === null) return undefined;
  const port = found[2];
  if (port !== undefined && (port === (found[1] === "http" ? "80" : "443") || (port.length === 5 && port > "65535"))) return undefined;
  if (found[3] !== "") return text;
  const query = found[4];
  return query === undefined ? `${text}/` : `${text[$.slice](0, -query.length)}/${query}`;
}

/// The same as `parse` for a plain URL; undefined for any other.
function parsePlain(text) {
  const found = PLAIN[$.exec](text);
  if (found === null || found[4]?.[$.includes]("/.")) return undefined;
  const [, scheme, host, port = "", path = "/"] = found;
  const url = { ...blank(scheme), path: path[$.slice](1)[$.split]("/"), fragment: null };
  return setHost(url, host) && setPort(url, port) ? url : undefined;
}

/// `{ scheme, username, password, host (null: none), port, path (a list, or a text where opaque), query, fragment }`, or null.
function parse(input, base) {
  const given = String(input);
  const plain = parsePlain(given);
  if (plain !== undefined) return plain;
  let rest = given[$.toWellFormed]()[$.replace](/^[\u0000-\u0020]+|[\u0000-\u0020]+$/g, "")[$.replace](/[\t\n\r]/g, "");
  let fragment = null;
  const hash = rest[$.indexOf]("#");
  if (hash >= 0) [rest, fragment] = [rest[$.slice](0, hash), percentEncode(rest[$.slice](hash + 1), SETS.fragment)];
  const scheme = /^[a-z][a-z0-9+.-]*:/i[$.exec](rest)?.[0][$.toLowerCase]();
  let url;
  if (scheme && !(isSpecial(scheme) && scheme === base?.scheme && !/^[\\/]{2}/[$.test](rest[$.slice](scheme.length)))) {
    url = parseAbsolute(scheme, rest[$.slice](scheme.length));
  } else if (base) url = parseRelative(scheme ? rest[$.slice](scheme.length) : rest, base);
  return url ? { ...url, fragment } : null;
}

function parseAbsolute(scheme, rest) {
  if (isSpecial(scheme)) {
    const slashes = scheme === "file:" ? /^[\\/]{0,2}/ : /^[\\/]*/;
    const found = slashes[$.exec](rest)[0];
    if (scheme === "file:" && found.length < 2) return { ...blank(scheme), host: "", ...pathAndQuery(scheme, rest, []) };
    return parseAuthority(scheme, rest[$.slice](found.length));
  }
  if (rest[$.startsWith]("//")) return parseAuthority(scheme, rest[$.slice](2));
  if (rest[$.startsWith]("/")) return { ...blank(scheme), ...pathAndQuery(scheme, rest, []) };
  const [path, query] = cutQuery(rest);
  return { ...blank(scheme), path: percentEncode(path, SETS.control), query: encodeQuery(scheme, query) };
}

function parseRelative(rest, base) {
  const { scheme } = base;
  if (typeof base.path === "string") return rest === "" ? { ...base } : null;
  const source = isSpecial(scheme) ? swapBackslashes(rest) : rest;
  if (source[$.startsWith]("//")) return parseAuthority(scheme, rest[$.slice](2));
  if (source[$.startsWith]("/")) return { ...base, ...pathAndQuery(scheme, rest, []) };
  if (rest === "") return { ...base };
  if (rest[$.startsWith]("?")) return { ...base, query: encodeQuery(scheme, rest[$.slice](1)) };
  return { ...base, ...pathAndQuery(scheme, rest, base.path[$.slice](0, -1)) };
}

function blank(scheme) {
  return { scheme, username: "", password: "", host: null, port: "", path: [], query: null };
}

function swapBackslashes(text) {
  const [path, query] = cutQuery(text);
  return path[$.replaceAll]("\\", "/") + (query === null ? "" : `?${query}`);
}

function parseAuthority(scheme, rest) {
  const special = isSpecial(scheme);
  const end = (special ? /[\\/?]/ : /[/?]/)[$.exec](rest)?.index ?? -1;
  const authority = end < 0 ? rest : rest[$.slice](0, end);
  const after = end < 0 ? "" : rest[$.slice](end);
  const url = blank(scheme);
  const at = authority[$.lastIndexOf]("@");
  if (at >= 0) {
    const [, username, password = ""] = /^([^:]*)(?::(.*))?$/s[$.exec](authority[$.slice](0, at));
    url.username = percentEncode(username, SETS.userinfo);
    url.password = percentEncode(password, SETS.userinfo);
  }
  const [, name, port] = /^(\[[^\]]*\]|[^:[]*)(?::(.*))?$/s[$.exec](authority[$.slice](at + 1)) ?? [];
  if (name === undefined) return null;
  if (!setHost(url, name) || !setPort(url, port ?? "")) return null;
  if (name === "" && (at >= 0 || port !== undefined)) return null;
  return { ...url, ...pathAndQuery(scheme, after, []) };
}

function setHost(url, name) {
  if (name === "") {
    if (isSpecial(url.scheme) && url.scheme !== "file:") return false;
    url.host = "";
    return true;
  }
  const host = parseHost(name, isSpecial(url.scheme), percentDecode, (text) => percentEncode(text, SETS.control));
  if (host === null) return false;
  url.host = url.scheme === "file:" && host === "localhost" ? "" : host;
  return true;
}

function setPort(url, port) {
  if (!/^\d*$/[$.test](port) || Number(port) > 65535) return false;
  url.port = port === "" || String(Number(port)) === PORTS[url.scheme] ? "" : String(Number(port));
  return true;
}

function cutQuery(text) {
  const at = text[$.indexOf]("?");
  return at < 0 ? [text, null] : [text[$.slice](0, at), text[$.slice](at + 1)];
}

function encodeQuery(scheme, query) {
  return query === null ? null : percentEncode(query, isSpecial(scheme) ? SETS.specialQuery : SETS.query);
}

function pathAndQuery(scheme, rest, path) {
  const [text, query] = cutQuery(rest);
  return { path: parsePath(scheme, text, path), query: encodeQuery(scheme, query) };
}

function parsePath(scheme, text, start) {
  const special = isSpecial(scheme);
  if (text === "" && start.length === 0) return special ? [""] : [];
  const segments = (special ? text[$.replaceAll]("\\", "/") : text)[$.split]("/");
  if (/^[\\/]/[$.test](text) && (special || text[0] === "/")) segments[$.shift]();
  const path = [...start];
  segments[$.forEach]((segment, index) => {
    const last = index === segments.length - 1;
    const plain = segment[$.replace](/%2e/gi, ".");
    if (plain === "..") path[$.pop]();
    else if (plain !== ".") path[$.push](percentEncode(segment, SETS.path));
    if (last && (plain === "." || plain === "..")) path[$.push]("");
  });
  return path;
}

function serialize(url, withFragment = true) {
  let out = url.scheme;
  if (url.host !== null) {
    out += "//";
    if (url.username || url.password) out += `${url.username}${url.password && `:${url.password}`}@`;
    out += url.host + (url.port && `:${url.port}`);
  } else if (Array.isArray(url.path) && url.path.length > 1 && url.path[0] === "") out += "/.";
  out += serializePath(url);
  if (url.query !== null) out += `?${url.query}`;
  return withFragment && url.fragment !== null ? `${out}#${url.fragment}` : out;
}

function serializePath({ path }) {
  return typeof path === "string" ? path : path[$.map]((segment) => `/${segment}`)[$.join]("");
}

/// The text of a URL as it is sent. Set by the class, which alone sees inside; authors cannot reach it.
export let withoutFragment;

export class URL {
  static {
    withoutFragment = (url) => serialize(url.#url, false);
  }

  #url;
  /// Once they were asked for.
  #params = null;

  constructor(input, base) {
    const parent = base === undefined ? null : parse(base, null);
    this.#url = base !== undefined && !parent ? null : parse(input, parent);
    if (!this.#url) {
      const error = new TypeError(`Invalid URL: ${String(input)}${base === undefined ? "" : ` (base ${String(base)})`}`);
      error.code = "ERR_INVALID_URL";
      throw error;
    }
  }

  static canParse(input, base) {
    return URL.parse(input, base) !== null;
  }

  static parse(input, base) {
    try {
      return new URL(input, base);
    } catch {
      return null;
    }
  }

  get href() {
    return serialize(this.#url);
  }

  set href(value) {
    this.#url = new URL(value).#url;
    this.#queryChanged();
  }

  #queryChanged() {
    if (this.#params !== null) URLSearchParams.reset(this.#params, this.#url.query ?? "");
  }

  get origin() {
    const { scheme, host } = this.#url;
    return isSpecial(scheme) && scheme !== "file:" ? `${scheme}//${host}${this.#url.port && `:${this.#url.port}`}` : "null";
  }

  get protocol() {
    return this.#url.scheme;
  }

  set protocol(value) {
    const scheme = /^[a-z][a-z0-9+.-]*/i[$.exec](String(value))?.[0][$.toLowerCase]();
    if (!scheme || isSpecial(`${scheme}:`) !== isSpecial(this.#url.scheme)) return;
    this.#url.scheme = `${scheme}:`;
    setPort(this.#url, this.#url.port);
  }

  get username() {
    return this.#url.username;
  }

  set username(value) {
    if (this.#url.host) this.#url.username = percentEncode(String(value)[$.toWellFormed](), SETS.userinfo);
  }

  get password() {
    return this.#url.password;
  }

  set password(value) {
    if (this.#url.host) this.#url.password = percentEncode(String(value)[$.toWellFormed](), SETS.userinfo);
  }

  get host() {
    return (this.#url.host ?? "") + (this.#url.port && `:${this.#url.port}`);
  }

  set host(value) {
    const [, name, port] = /^(\[[^\]]*\]|[^:/\\?#[]*)(?::(\d*))?/[$.exec](String(value)) ?? [];
    if (typeof this.#url.path === "string" || !name || !setHost(this.#url, name)) return;
    if (port) setPort(this.#url, port);
  }

  get hostname() {
    return this.#url.host ?? "";
  }

  set hostname(value) {
    const [name] = /^(\[[^\]]*\]|[^:/\\?#[]*)/[$.exec](String(value));
    if (typeof this.#url.path !== "string" && name) setHost(this.#url, name);
  }

  get port() {
    return this.#url.port;
  }

  set port(value) {
    const text = String(value);
    const digits = /^\d+/[$.exec](text)?.[0];
    if (this.#url.host && (text === "" || digits)) setPort(this.#url, digits ?? "");
  }

  get pathname() {
    return serializePath(this.#url);
  }

  set pathname(value) {
    if (typeof this.#url.path === "string") return;
    const text = String(value)[$.toWellFormed]()[$.replace](/[\t\n\r]/g, "");
    this.#url.path = parsePath(this.#url.scheme, text[$.replaceAll]("?", "%3F")[$.replaceAll]("#", "%23"), []);
  }

  get search() {
    return this.#url.query ? `?${this.#url.query}` : "";
  }

  set search(value) {
    const text = String(value)[$.toWellFormed]()[$.replace](/^\?/, "");
    this.#url.query = text === "" ? null : encodeQuery(this.#url.scheme, text);
    this.#queryChanged();
  }

  get searchParams() {
    this.#params ??= URLSearchParams.of(this.#url.query ?? "", (query) => {
      this.#url.query = query === "" ? null : query;
    });
    return this.#params;
  }

  get hash() {
    return this.#url.fragment ? `#${this.#url.fragment}` : "";
  }

  set hash(value) {
    const text = String(value)[$.toWellFormed]()[$.replace](/^#/, "");
    this.#url.fragment = text === "" ? null : percentEncode(text, SETS.fragment);
  }

  toString() {
    return this.href;
  }

  toJSON() {
    return this.href;
  }
}
